"""The regression that predicts correctness: its questions, its predictors, its variants, its design matrix (SPEC §7).

The model is `correct ~ QCat*log(SPop) + QCat*SCons + QCat*Cert` (PopQA-TP, section 4.2). QCat is the relation, SPop the
popularity of the subject, SCons the consistency over paraphrases, Cert the certainty over samples. With all
interactions it is one regression per relation, so a design matrix belongs to a block: a relation, or all rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from longtail.statistics.resampling import Values

POPULARITY, CONSISTENCY, CERTAINTY = "log(SPop)", "SCons", "Cert"
PREDICTORS = (POPULARITY, CONSISTENCY, CERTAINTY)
RELATION, INTERCEPT = "QCat", "Intercept"
ALL = "all"
"""The block that has the rows of all relations."""
LEAST_CORRECTNESS = 0.1


@dataclass(frozen=True)
class Ablation:
    """A variant of the model: its numeric predictors, and whether it has the relation and all interactions with it."""

    name: str
    numeric: tuple[str, ...]
    by_relation: bool

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a block's design matrix."""
        return (INTERCEPT, *self.numeric)


ABLATIONS = (
    Ablation("all", PREDICTORS, True),
    Ablation("without_popularity", (CONSISTENCY, CERTAINTY), True),
    Ablation("without_relation", PREDICTORS, False),
    Ablation("scons_cert", (CONSISTENCY, CERTAINTY), False),
    Ablation("cert", (CERTAINTY,), False),
    Ablation("scons", (CONSISTENCY,), False),
)
"""The rows of PopQA-TP's Table 6, in its order."""


@dataclass(frozen=True)
class Questions:
    """Questions with all predictors. `relation` (n): names; `correct` (n): bool; `predictors` (n × 3): `PREDICTORS`."""

    relation: Values
    correct: Values
    predictors: Values

    def where(self, mask: Values) -> Questions:
        return Questions(self.relation[mask], self.correct[mask], self.predictors[mask])


@dataclass(frozen=True)
class Scale:
    """Mean and population standard deviation of each predictor (3). A predictor that does not vary becomes 0."""

    mean: Values
    deviation: Values

    def standardised(self, predictors: Values) -> Values:
        return np.asarray((predictors - self.mean) / self.deviation)


def scale_of(predictors: Values) -> Scale:
    """The scale of the rows of a fit; at least one row."""
    varies = predictors.min(axis=0) < predictors.max(axis=0)
    mean = np.where(varies, predictors.mean(axis=0), predictors[0])
    return Scale(mean, np.where(varies, predictors.std(axis=0), 1.0))


@dataclass(frozen=True)
class Block:
    """The rows of one relation, or of `ALL`: design matrix (n × columns of the ablation) and correctness (n)."""

    relation: str
    design: Values
    correct: Values


def blocks(questions: Questions, ablation: Ablation, scale: Scale) -> list[Block]:
    """One block per relation in alphabetical order, or one of all rows."""
    design = design_matrix(questions, ablation, scale)
    if not ablation.by_relation:
        return [Block(ALL, design, questions.correct)]
    groups = ((str(name), questions.relation == name) for name in sorted(set(questions.relation)))
    return [Block(name, design[rows], questions.correct[rows]) for name, rows in groups]


def design_matrix(questions: Questions, ablation: Ablation, scale: Scale) -> Values:
    """n × (1 + numeric predictors): a column of ones, then the standardised predictors."""
    columns = [PREDICTORS.index(name) for name in ablation.numeric]
    standardised = scale.standardised(questions.predictors)[:, columns]
    return np.column_stack([np.ones(len(standardised)), standardised])
