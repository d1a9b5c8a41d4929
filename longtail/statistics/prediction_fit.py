"""The maximum likelihood of a logistic regression, also where it has none that is finite.

If a plane separates right from wrong answers, or nearly does (all questions lie on their side or on the plane), the
likelihood grows without end and no coefficient is finite. Its limit is the likelihood of the questions that lie on every
such plane: all others are predicted perfectly in the limit. A linear program finds them (Konis 2007, chapter 4).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from longtail.statistics.prediction_design import Block, Values

ONE_OUTCOME, SEPARABLE, NOT_CONVERGED = "one outcome", "separable", "did not converge"
COLLINEAR, NO_VARIANCE = "collinear predictors", "no variance"
_LEAST_SINGULAR = 1e-9
"""A direction of the design with a smaller singular value, relative to the greatest, counts as none."""
_FEW_STEPS, _MANY_STEPS = 25, 300
"""Newton's method needs about ten steps. On separable rows each step moves by about one logit, and it never ends."""
_RIDGE = 1.0


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
    found = _newton(design, correct, _FEW_STEPS)
    if found is None:
        separated = separated_rows(design, block.correct)
        if separated.any():
            return _without_coefficients(block, kept, SEPARABLE, _limit(block, ~separated))
        found = _newton(design, correct, _MANY_STEPS)
    if found is None:
        return _without_coefficients(block, kept, NOT_CONVERGED, float("nan"))
    return _with_coefficients(block, kept, *found)


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
            found = Logit(correct, design).fit(
                method="newton", maxiter=n_steps, tol=1e-8, ridge_factor=0, disp=False
            )
        except np.linalg.LinAlgError:
            return None
        covariance = np.asarray(found.cov_params())
    beta = np.asarray(found.params)
    if not found.mle_retvals["converged"] or not np.isfinite(beta).all() or not np.isfinite(covariance).all():
        return None
    return beta, covariance, float(found.llf)


def separated_rows(design: Values, correct: Values) -> Values:
    """Which rows (n) some plane separates without a row on its wrong side; none if right and wrong overlap.

    The sum of the margins, each cut at 1, is maximised. As a plane may be scaled and planes may be added, every row that
    can have a margin gets the full one.
    """
    from scipy import sparse
    from scipy.optimize import linprog

    signed, place = np.unique(np.where(correct[:, None], design, -design), axis=0, return_inverse=True)
    n, n_columns = signed.shape
    found = linprog(
        np.append(np.zeros(n_columns), -np.ones(n)),
        A_ub=sparse.hstack([sparse.csr_array(-signed), sparse.eye_array(n)], format="csr"),
        b_ub=np.zeros(n),
        bounds=[(None, None)] * n_columns + [(0, 1)] * n,
        method="highs",
    )
    has_margin = found.x[n_columns:] > 0.5 if found.x is not None else np.zeros(n, dtype=bool)
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
        beta = beta + step / max(
            1.0, size / 2
        )  # at most two logits a step, so that it cannot overshoot for ever
        if size < 1e-8:
            break
    return beta


def probabilities(design: Values, beta: Values) -> Values:
    """The probability of each row (n), without overflow."""
    return np.asarray(0.5 * (1 + np.tanh(design @ beta / 2)))
