"""Predicted probabilities of a right answer by many regularised logistic regressions at once, one per weighting.

What belongs here: the fit, in numpy. It is the logistic regression of `prediction_probabilities` (scikit-learn's
penalty with C = 1, standardised predictors, each relation's own intercept and slopes beside the common ones) without
its calibration, which leaves the order of the questions as it is. What does not: which questions are weighted
(`signal_policies`), and what their probabilities decide.

Scikit-learn fits one model in about 20 ms. Adaptive retrieval needs thousands, all on the same questions with other
weights. Newton's method takes them together: a relation's coefficients meet those of other relations only through the
common ones, so a step solves one small system per relation, and one for what they have in common.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[Any]

DECIMALS = 9
"""Probabilities are rounded so far: smaller differences are rounding, and no reason to decide differently."""
_CHUNK = 60_000
"""Questions times weightings that are fitted together: few enough for the processor's cache."""
_MOST_STEPS = 200
_LEAST_STEP = 1e-6
"""Newton's method squares its error with each step, so what is left after such a step is below `DECIMALS`."""
_MOST_LOGITS = 4.0
"""A step moves no question by more than that, so that it cannot overshoot for ever."""


@dataclass(frozen=True)
class Features:
    """What a signal knows of n questions: `predictors` (n × p) and `group` (n), the relation's number or None.

    Questions are in the order of their groups. `n_groups` also counts groups that no question of a fit has.
    """

    predictors: Values
    group: Values | None = None
    n_groups: int = 0


@dataclass(frozen=True)
class Model:
    """One fit: `mean` and `deviation` (p) of the predictors, `common` (1 + p) coefficients, `own` (groups × (1 + p)).

    `own` has what a group adds to the common coefficients; without groups it has no rows.
    """

    mean: Values
    deviation: Values
    common: Values
    own: Values


@dataclass(frozen=True)
class _Fits:
    """Coefficients of some weightings: `common` (fits × q), `whole` (fits × groups × q) = common + own."""

    common: Values
    whole: Values


def probabilities(features: Features, correct: Values, weights: Values) -> Values:
    """Weightings × n: the probability that each question is answered right, fitted on the questions with a weight.

    `correct` (n): 1 if right. `weights` (weightings × n): how often a question counts; 0 leaves it out, and then its
    `correct` has no effect. Weighted questions with one outcome give that outcome to all: such a signal tells nothing.
    """
    found = np.empty(weights.shape)
    start = None
    for rows in _chunks(len(weights), weights.shape[1]):
        _, fits, logits = _fit(features, correct, weights[rows], start)
        start = _Fits(fits.common[-1:], fits.whole[-1:])
        found[rows] = _told_apart(0.5 * (1 + np.tanh(logits / 2)), correct, weights[rows])
    return found.round(DECIMALS)


def fit_model(features: Features, correct: Values) -> Model:
    """The fit on all questions. Both outcomes must occur."""
    scale, fits, _ = _fit(features, correct, np.ones((1, len(correct))), None)
    own = fits.whole[0] - fits.common if features.group is not None else np.empty((0, fits.common.shape[1]))
    return Model(scale[0][0, 0], scale[1][0, 0], fits.common[0], own)


def _chunks(n_fits: int, n: int) -> Iterator[slice]:
    size = max(1, _CHUNK // max(n, 1))
    for start in range(0, n_fits, size):
        yield slice(start, min(start + size, n_fits))


def _told_apart(found: Values, correct: Values, weights: Values) -> Values:
    """With one outcome the intercept has no finite estimate, and Newton's method stopped somewhere on its way."""
    share = (weights @ correct) / weights.sum(axis=1)
    is_one = (share == 0) | (share == 1)
    return np.where(is_one[:, None], share[:, None], found)


def _fit(
    features: Features, correct: Values, weights: Values, start: _Fits | None
) -> tuple[tuple[Values, Values], _Fits, Values]:
    """Scale, coefficients and logits (fits × n)."""
    scale = _scale(features.predictors, weights)
    blocks = _Blocks(features, scale)
    n_fits, n_columns = len(weights), features.predictors.shape[1] + 1
    common, whole = np.zeros((n_fits, n_columns)), np.zeros((n_fits, blocks.n_blocks, n_columns))
    if start is not None:
        common[:], whole[:] = start.common, start.whole
    fits, logits = _Fits(common, whole), blocks.logits(whole)
    for _ in range(_MOST_STEPS):
        gradient, curvature = blocks.sums(logits, weights, correct)
        steps = _pooled_step if features.group is None else _grouped_step
        step = steps(fits, gradient, curvature)
        moves = blocks.logits(step.whole)
        moved = np.abs(moves).max(axis=1)
        shrink = 1 / np.maximum(1.0, moved / _MOST_LOGITS)
        fits = _Fits(
            fits.common + shrink[:, None] * step.common, fits.whole + shrink[:, None, None] * step.whole
        )
        logits += shrink[:, None] * moves
        if moved.max() < _LEAST_STEP or _is_hopeless(moved, correct, weights):
            break
    return scale, fits, logits


def _is_hopeless(moved: Values, correct: Values, weights: Values) -> bool:
    """Whether only fits with one outcome still move."""
    share = (weights @ correct) / weights.sum(axis=1)
    return bool((((share == 0) | (share == 1)) | (moved < _LEAST_STEP)).all())


def _scale(predictors: Values, weights: Values) -> tuple[Values, Values]:
    """Mean and population standard deviation, fits × 1 × p; a predictor that does not vary becomes 0."""
    total = weights.sum(axis=1)[:, None]
    mean = weights @ predictors / total
    centred = predictors - predictors.mean(axis=0)
    variance = weights @ centred**2 / total - (weights @ centred / total) ** 2
    deviation = np.sqrt(np.maximum(variance, 0))
    for fit in np.flatnonzero((variance <= 1e-9 * (centred**2).mean(axis=0)).any(axis=1)):
        mine = predictors[weights[fit] > 0]
        low, varies = mine.min(axis=0), mine.min(axis=0) < mine.max(axis=0)
        mean[fit] = np.where(varies, mean[fit], low)
        deviation[fit] = np.where(varies, deviation[fit], 1.0)
    return mean[:, None, :], np.where(deviation > 0, deviation, 1.0)[:, None, :]


class _Blocks:
    """Sums over the questions of each group (a block), or of all, for many fits: products of matrices.

    All fits share the predictors; `_turn` (fits × q × q) makes coefficients of these from those of standardised ones.
    """

    def __init__(self, features: Features, scale: tuple[Values, Values]) -> None:
        self._n, p = features.predictors.shape
        self.n_blocks = features.n_groups if features.group is not None else 1
        centre, spread = features.predictors.mean(axis=0), features.predictors.std(axis=0)
        spread = np.where(spread > 0, spread, 1.0)
        design = np.column_stack([np.ones(self._n), (features.predictors - centre) / spread])
        self._turn = np.zeros((len(scale[0]), p + 1, p + 1))
        self._turn[:, 0, 0] = 1
        self._turn[:, 0, 1:] = ((centre - scale[0]) / scale[1])[:, 0]
        self._turn[:, range(1, p + 1), range(1, p + 1)] = (spread / scale[1])[:, 0]
        group = np.zeros(self._n, int) if features.group is None else features.group
        numbers, starts = np.unique(group, return_index=True)
        products = (design[:, :, None] * design[:, None]).reshape(self._n, -1)
        self._blocks = [
            (number, slice(first, last), design[first:last], products[first:last])
            for number, first, last in zip(numbers, starts, [*starts[1:], self._n], strict=True)
        ]

    def logits(self, whole: Values) -> Values:
        """Fits × n, from coefficients: fits × blocks × q."""
        found = np.empty((len(whole), self._n))
        turned = whole @ self._turn.swapaxes(1, 2)
        for number, rows, design, _ in self._blocks:
            np.matmul(turned[:, number], design.T, out=found[:, rows])
        return found

    def sums(self, logits: Values, weights: Values, correct: Values) -> tuple[Values, Values]:
        """By block: gradient (fits × blocks × q) and curvature (fits × blocks × q × q) of the log-likelihood."""
        half = 0.5 * np.tanh(logits / 2)
        residual, certainty = weights * (correct - 0.5 - half), weights * (0.25 - half**2)
        n_fits, q, _ = self._turn.shape
        gradient, curvature = np.zeros((n_fits, self.n_blocks, q)), np.zeros((n_fits, self.n_blocks, q * q))
        for number, rows, design, products in self._blocks:
            np.matmul(residual[:, rows], design, out=gradient[:, number])
            np.matmul(certainty[:, rows], products, out=curvature[:, number])
        turn = self._turn[:, None]
        square = curvature.reshape(n_fits, self.n_blocks, q, q)
        return gradient @ self._turn, turn.swapaxes(2, 3) @ square @ turn


def _pooled_step(fits: _Fits, gradient: Values, curvature: Values) -> _Fits:
    """Newton's step without groups. Slopes are penalised, the intercept is not."""
    penalty = _penalty(fits)
    step = _solved(curvature[:, 0] + np.diag(penalty), gradient[:, 0] - penalty * fits.common)
    return _Fits(step, step[:, None])


def _grouped_step(fits: _Fits, gradient: Values, curvature: Values) -> _Fits:
    """Newton's step with groups: each one's difference from the common coefficients is penalised, too."""
    penalty = _penalty(fits)
    own = fits.whole - fits.common[:, None]
    n_groups, unit = own.shape[1], np.eye(len(penalty))
    inverse = np.linalg.inv(curvature + unit)
    wanted = gradient - own
    wanted_common = own.sum(axis=1) - penalty * fits.common
    joint = n_groups * unit + np.diag(penalty) - inverse.sum(axis=1)
    common = _solved(joint, wanted_common + np.einsum("fgij,fgj->fi", inverse, wanted))
    return _Fits(common, np.einsum("fgij,fgj->fgi", inverse, wanted + common[:, None]))


def _penalty(fits: _Fits) -> Values:
    return np.append(0.0, np.ones(fits.common.shape[1] - 1))


def _solved(system: Values, wanted: Values) -> Values:
    """One solution per fit. A fit with one outcome has hardly any curvature of its intercept left: none is added to."""
    ridge = 1e-12 * np.eye(system.shape[-1])
    return np.asarray(np.linalg.solve(system + ridge, wanted[..., None])[..., 0])
