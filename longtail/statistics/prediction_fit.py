"""The regression that predicts correctness: its design matrix, its maximum likelihood, and how well it predicts others.

The model is `correct ~ QCat*log(SPop) + QCat*SCons + QCat*Cert` (PopQA-TP, section 4.2; SPEC §7). QCat is the relation,
SPop the popularity of the subject, SCons the consistency over paraphrases, Cert the certainty over samples. With all
interactions it is one regression per relation, so a design matrix belongs to a block: a relation, or all rows.

If a plane separates right from wrong answers, or nearly does (all questions lie on their side or on the plane), the
likelihood grows without end and no coefficient is finite. Its limit is the likelihood of the questions that lie on every
such plane: all others are predicted perfectly in the limit. A linear program finds them (Konis 2007, chapter 4).
"""

from __future__ import annotations

import dataclasses
import hashlib
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from longtail.scoring.intervals import design_effect
from longtail.statistics.resampling import Values

POPULARITY, CONSISTENCY, CERTAINTY = "log(SPop)", "SCons", "Cert"
PREDICTORS = (POPULARITY, CONSISTENCY, CERTAINTY)
RELATION, INTERCEPT = "QCat", "Intercept"
ALL = "all"
"""The block that has the rows of all relations."""
LEAST_CORRECTNESS = 0.1

ONE_OUTCOME, SEPARABLE, NOT_CONVERGED = "one outcome", "separable", "did not converge"
COLLINEAR, NO_VARIANCE = "collinear predictors", "no variance"
_LEAST_SINGULAR = 1e-9
"""A direction of the design with a smaller singular value, relative to the greatest, counts as none."""
_FEW_STEPS, _MANY_STEPS = 25, 300
"""Newton's method needs about ten steps. On separable rows each step moves by about one logit, and it never ends."""
_RIDGE = 1.0

TRAINING_SHARE = 0.8
_CUT = 0.5
UNSCORED = dict.fromkeys((
    *("n_scored", "n_scored_subjects", "score_deff", "n_scored_unseen", "n_hits", "n_hits_baseline"),
    "score_undefined",
))  # fmt: skip
"""The score of a fit on all rows."""


@dataclass(frozen=True)
class PredictorSet:
    """What a model knows: numeric predictors, and whether also the relation, with all interactions."""

    name: str
    numeric: tuple[str, ...]
    by_relation: bool

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a block's design matrix."""
        return (INTERCEPT, *self.numeric)


ABLATIONS = (
    PredictorSet("all", PREDICTORS, True),
    PredictorSet("without_popularity", (CONSISTENCY, CERTAINTY), True),
    PredictorSet("without_relation", PREDICTORS, False),
    PredictorSet("scons_cert", (CONSISTENCY, CERTAINTY), False),
    PredictorSet("cert", (CERTAINTY,), False),
    PredictorSet("scons", (CONSISTENCY,), False),
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


def standardise(predictors: Values, fitted: Values) -> Values:
    """Predictors (n × 3) less their means, in population standard deviations, both over the rows of a fit (at least one).

    A predictor that does not vary there becomes 0.
    """
    varies = fitted.min(axis=0) < fitted.max(axis=0)
    mean = np.where(varies, fitted.mean(axis=0), fitted[0])
    return np.asarray((predictors - mean) / np.where(varies, fitted.std(axis=0), 1.0))


@dataclass(frozen=True)
class Block:
    """The rows of one relation, or of `ALL`: design matrix (n × columns of the ablation) and correctness (n)."""

    relation: str
    design: Values
    correct: Values


def blocks(questions: Questions, ablation: PredictorSet) -> list[Block]:
    """One block per relation in alphabetical order, or one of all rows; predictors are standardised by all rows."""
    design = design_matrix(questions, ablation, questions)
    if not ablation.by_relation:
        return [Block(ALL, design, questions.correct)]
    groups = ((str(name), questions.relation == name) for name in sorted(set(questions.relation)))
    return [Block(name, design[rows], questions.correct[rows]) for name, rows in groups]


def design_matrix(questions: Questions, ablation: PredictorSet, fitted: Questions) -> Values:
    """n × (1 + numeric predictors): a column of ones, then the predictors, standardised by the fitted questions."""
    columns = [PREDICTORS.index(name) for name in ablation.numeric]
    standardised = standardise(questions.predictors, fitted.predictors)[:, columns]
    return np.column_stack([np.ones(len(standardised)), standardised])


@dataclass(frozen=True)
class Fit:
    """A fitted block. `beta`, `covariance`: nan where `undefined` has a reason, a value per column.

    `solution` (columns): coefficients that give the fitted probabilities, 0 for columns that add nothing; None if there
    is no finite fit. `log_likelihood` is the limit if the block is separated, and nan if the fit did not converge.
    """

    relation: str
    n: int
    n_correct: int
    rank: int
    log_likelihood: float
    beta: Values
    covariance: Values
    undefined: tuple[str | None, ...]
    solution: Values | None

    @property
    def is_separated(self) -> bool:
        return self.undefined[0] in (ONE_OUTCOME, SEPARABLE)


def fit(block: Block) -> Fit:
    """The maximum-likelihood fit of a block with at least one row."""
    kept = _independent(block.design)
    if block.correct.all() or not block.correct.any():
        return _without_coefficients(block, kept, ONE_OUTCOME, 0.0)
    design, correct = block.design[:, kept], block.correct.astype(float)
    estimate = _newton(design, correct, _FEW_STEPS)
    if estimate is None:
        separated = separated_rows(design, block.correct)
        if separated.any():
            return _without_coefficients(block, kept, SEPARABLE, _limit(block, ~separated))
        estimate = _newton(design, correct, _MANY_STEPS)
    if estimate is None:
        return _without_coefficients(block, kept, NOT_CONVERGED, float("nan"))
    return _with_coefficients(block, kept, *estimate)


def _limit(block: Block, rest: Values) -> float:
    """The log-likelihood of the rows that stay uncertain when all others are predicted perfectly."""
    if not rest.any():
        return 0.0
    return fit(Block(block.relation, block.design[rest], block.correct[rest])).log_likelihood


def _with_coefficients(
    block: Block, kept: list[int], beta: Values, covariance: Values, log_likelihood: float
) -> Fit:
    n_columns = block.design.shape[1]
    solution = np.zeros(n_columns)
    solution[kept] = beta
    spread = np.full((n_columns, n_columns), np.nan)
    spread[np.ix_(kept, kept)] = covariance
    undefined = _unidentified(block.design, kept)
    hidden = [at for at, reason in enumerate(undefined) if reason]
    spread[hidden], spread[:, hidden] = np.nan, np.nan
    shown = np.where([reason is None for reason in undefined], solution, np.nan)
    n, n_correct = len(block.correct), int(block.correct.sum())
    return Fit(block.relation, n, n_correct, len(kept), log_likelihood, shown, spread, undefined, solution)


def _without_coefficients(block: Block, kept: list[int], reason: str, log_likelihood: float) -> Fit:
    n_columns = block.design.shape[1]
    nothing = np.full(n_columns, np.nan)
    n, n_correct = len(block.correct), int(block.correct.sum())
    return Fit(
        block.relation, n, n_correct, len(kept), log_likelihood,
        nothing, np.outer(nothing, nothing), (reason,) * n_columns, None,
    )  # fmt: skip


def _newton(design: Values, correct: Values, n_steps: int) -> tuple[Values, Values, float] | None:
    """Coefficients, their covariance, and the log-likelihood; None if Newton's method has not converged."""
    from statsmodels.discrete.discrete_model import Logit

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            result = Logit(correct, design).fit(
                method="newton", maxiter=n_steps, tol=1e-8, ridge_factor=0, disp=False
            )
        except np.linalg.LinAlgError:
            return None
        covariance = np.asarray(result.cov_params())
    beta = np.asarray(result.params)
    if (
        not result.mle_retvals["converged"]
        or not np.isfinite(beta).all()
        or not np.isfinite(covariance).all()
    ):
        return None
    return beta, covariance, float(result.llf)


def separated_rows(design: Values, correct: Values) -> Values:
    """Which rows (n) some plane separates without a row on its wrong side; none if right and wrong overlap.

    The sum of the margins, each cut at 1, is maximised. As a plane may be scaled and planes may be added, every row that
    can have a margin gets the full one.
    """
    from scipy import sparse
    from scipy.optimize import linprog

    signed, place = np.unique(np.where(correct[:, None], design, -design), axis=0, return_inverse=True)
    n, n_columns = signed.shape
    solution = linprog(
        np.append(np.zeros(n_columns), -np.ones(n)),
        A_ub=sparse.hstack([sparse.csr_array(-signed), sparse.eye_array(n)], format="csr"),
        b_ub=np.zeros(n),
        bounds=[(None, None)] * n_columns + [(0, 1)] * n,
        method="highs",
    )
    has_margin = solution.x[n_columns:] > 0.5 if solution.x is not None else np.zeros(n, dtype=bool)
    return np.asarray(has_margin[place.ravel()])


def _independent(design: Values) -> list[int]:
    """The first columns that span the design: each adds a direction to those before it."""
    kept: list[int] = []
    for column in range(design.shape[1]):
        if _rank(design[:, [*kept, column]]) > len(kept):
            kept.append(column)
    return kept


def _unidentified(design: Values, kept: list[int]) -> tuple[str | None, ...]:
    """For each column the reason why its coefficient is not determined: the other columns span it."""
    columns = range(design.shape[1])
    if len(kept) == len(columns):
        return (None,) * len(columns)
    others = (_rank(np.delete(design, column, axis=1)) for column in columns)
    return tuple(
        None if rank < len(kept) else COLLINEAR if design[:, column].any() else NO_VARIANCE
        for column, rank in zip(columns, others, strict=True)
    )


def _rank(design: Values) -> int:
    singular = np.linalg.svd(design, compute_uv=False)
    return int((singular > _LEAST_SINGULAR * max(singular.max(initial=0), 1.0)).sum())


def ridge(design: Values, correct: Values, prior: float) -> Values:
    """Coefficients (columns) with a Gaussian prior of variance 1 around (`prior`, 0, …), finite for any rows.

    `prior` is a logit. For predicted probabilities only.
    """
    centre = np.append(prior, np.zeros(design.shape[1] - 1))
    beta = centre.copy()
    for _ in range(_MANY_STEPS):
        probability = probabilities(design, beta)
        gradient = design.T @ (correct - probability) - _RIDGE * (beta - centre)
        weights = probability * (1 - probability)
        step = np.linalg.solve((design.T * weights) @ design + _RIDGE * np.eye(len(beta)), gradient)
        size = np.abs(design @ step).max(initial=0)
        beta = beta + step / max(1.0, size / 2)  # at most two logits, so that it cannot overshoot for ever
        if size < 1e-8:
            break
    return beta


def probabilities(design: Values, beta: Values) -> Values:
    """The probability of each row (n), without overflow."""
    return np.asarray(0.5 * (1 + np.tanh(design @ beta / 2)))


def training_questions(question_ids: Iterable[str], seed: int) -> set[str]:
    """Four fifths of a dataset's questions: the same ones for every model and prompt.

    They are the first ones by the md5 of `seed:question_id`, in hexadecimal digits.
    """
    order = sorted(set(question_ids), key=lambda name: hashlib.md5(f"{seed}:{name}".encode()).hexdigest())  # noqa: S324
    return set(order[: round(TRAINING_SHARE * len(order))])


def fit_all(questions: Questions, ablation: PredictorSet) -> list[Fit]:
    """The fits of a model on all its rows, standardised by them; none without rows."""
    if not len(questions.correct):
        return []
    return [fit(block) for block in blocks(questions, ablation)]


def score(
    training: Questions, fits: list[Fit], test: Questions, ablation: PredictorSet, subject: Values
) -> dict[str, Any]:
    """How often a model that was fitted on `training` predicts `test` rightly, beside the outcome of most of `training`.

    `fits`: `fit_all(training, ablation)`; `subject`: of each question of `test`. A question is predicted to be answered
    right if its probability is above 0.5.
    """
    n = len(test.correct)
    if not n or not fits:
        undefined = "no questions to score" if fits else "no questions to fit"
        return {**UNSCORED, "n_scored": n, "n_scored_unseen": 0, "score_undefined": undefined}
    is_hit = (predict(training, fits, test, ablation) > _CUT) == test.correct
    return {
        "n_scored": n, "n_scored_subjects": len(np.unique(subject)),
        "score_deff": design_effect(is_hit.astype(float), subject),
        "n_scored_unseen": int((~np.isin(test.relation, training.relation)).sum()),
        "n_hits": int(is_hit.sum()),
        "n_hits_baseline": int((test.correct == (training.correct.mean() > _CUT)).sum()), "score_undefined": None,
    }  # fmt: skip


def predict(training: Questions, fits: list[Fit], test: Questions, ablation: PredictorSet) -> Values:
    """The probability (n) that each question of `test` is answered right, by a model with `fits` on `training`.

    A relation without a finite fit gets a ridge fit around the mean of the training rows. A relation that the training
    rows lack gets the model without relations.
    """
    design = design_matrix(test, ablation, training)
    pooled = dataclasses.replace(ablation, by_relation=False)
    (of_all,) = fit_all(training, pooled) if ablation.by_relation else fits
    (all_rows,) = blocks(training, pooled)
    probability = probabilities(design, _solution(of_all, all_rows, training))
    if ablation.by_relation:
        for fit, block in zip(fits, blocks(training, ablation), strict=True):
            rows = test.relation == fit.relation
            probability[rows] = probabilities(design[rows], _solution(fit, block, training))
    return probability


def _solution(fit: Fit, block: Block, training: Questions) -> Values:
    if fit.solution is not None:
        return fit.solution
    share = (training.correct.sum() + 0.5) / (len(training.correct) + 1)  # never 0 or 1
    return ridge(block.design, block.correct.astype(float), float(np.log(share / (1 - share))))
