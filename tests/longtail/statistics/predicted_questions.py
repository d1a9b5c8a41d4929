"""Questions for tests of performance prediction: random ones, and ones with planted coefficients."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from longtail.statistics.prediction_fit import Fit, PredictorSet, Questions, standardise
from longtail.statistics.prediction_tables import Clusters, by_subject

NAMES = ("popularity", "scons", "cert")


def random_questions(seed: int, n_per_relation: int = 80, n_relations: int = 4) -> Questions:
    """Popularity helps, consistency hardly, certainty in some relations: right and wrong answers overlap everywhere."""
    rng = np.random.default_rng(seed)
    relation = np.repeat([f"relation {number}" for number in range(n_relations)], n_per_relation)
    predictors = np.column_stack([rng.normal(6, 2, len(relation)), rng.beta(4, 2, (len(relation), 2))])
    slope = np.repeat(rng.normal(0, 2, n_relations), n_per_relation)
    logit = 0.4 * (predictors[:, 0] - 6) + slope * (predictors[:, 2] - 0.6) + 0.3 * predictors[:, 1]
    return Questions(relation, rng.uniform(size=len(relation)) < 1 / (1 + np.exp(-logit)), predictors)


def planted_questions(beta: npt.NDArray[Any], n_per_relation: int, seed: int) -> Questions:
    """`beta` (relations × 4): each relation's intercept and slopes on predictors that are standardised exactly."""
    rng = np.random.default_rng(seed)
    drawn = rng.normal(size=(len(beta) * n_per_relation, 3))
    predictors = standardise(drawn, drawn)
    relation = np.repeat([f"relation {number}" for number in range(len(beta))], n_per_relation)
    own = np.repeat(beta, n_per_relation, axis=0)
    logit = own[:, 0] + (own[:, 1:] * predictors).sum(axis=1)
    return Questions(relation, rng.uniform(size=len(relation)) < 1 / (1 + np.exp(-logit)), predictors)


def frame(questions: Questions, scaled_by: Questions | None = None) -> pd.DataFrame:
    """The columns of statsmodels' formula: predictors standardised by the rows of `scaled_by`, else by their own."""
    by = (scaled_by or questions).predictors
    standardised = (questions.predictors - by.mean(axis=0)) / by.std(axis=0)
    columns = dict(zip(NAMES, standardised.T, strict=True))
    return pd.DataFrame({"correct": questions.correct.astype(int), "QCat": questions.relation, **columns})


def single(questions: Questions, fits: list[Fit], ablation: PredictorSet) -> Clusters:
    """Each question is about a subject of its own."""
    return by_subject(questions, np.arange(len(questions.correct)), fits, ablation)
