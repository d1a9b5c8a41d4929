"""Predicted probabilities of a right answer by many regularised logistic regressions at once, one per weighting.

What belongs here: the fit. It is the logistic regression of `prediction_probabilities` (scikit-learn's
penalty with C = 1, standardised predictors, each relation's own intercept and slopes beside the common ones) without
its calibration, which leaves the order of the questions as it is. What does not: which questions are weighted
(`signal_policies`), and what their probabilities decide.

Scikit-learn fits one model in about 20 ms. Adaptive retrieval needs thousands, all on the same questions with other
weights. Newton's method starts where the fit before ended: a relation's coefficients meet those of other relations only
through the common ones, so a step solves one small system per relation, and one for what they have in common.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[Any]

DECIMALS = 9
"""Probabilities are rounded so far: smaller differences are rounding, and no reason to decide differently."""
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


def probabilities(features: Features, correct: Values, weights: Values) -> Values:
    """Weightings × n: the probability that each question is answered right, fitted on the questions with a weight.

    `correct` (n): 1 if right. `weights` (weightings × n): how often a question counts; 0 leaves it out, and then its
    `correct` has no effect. Weighted questions with one outcome give that outcome to all: such a signal tells nothing.
    """
    logits, model = np.empty(weights.shape), None
    scales = _scales(features.predictors, weights)
    for found, weight, mean, deviation in zip(logits, weights, *scales, strict=True):
        n_right = weight @ correct
        if n_right in (0, weight.sum()):
            found[:] = np.inf if n_right else -np.inf
        else:
            model = _fit(features, correct, weight, (mean, deviation), model, found)
    return (0.5 * (1 + np.tanh(logits / 2))).round(DECIMALS)


def fit_model(features: Features, correct: Values) -> Model:
    """The fit on all questions. Both outcomes must occur."""
    ones = np.ones((1, len(correct)))
    (mean,), (deviation,) = _scales(features.predictors, ones)
    model = _fit(features, correct, ones[0], (mean, deviation), None, np.empty(len(correct)))
    return replace(model, own=model.own[: features.n_groups])


def _fit(
    features: Features, correct: Values, weights: Values, scale: tuple[Values, Values], start: Model | None, found: Values
) -> Model:  # fmt: skip
    """The fit, from the coefficients of `start`; writes the logits into `found` (n). Without groups all are in one."""
    from dagster_project.core.statistics.kernels import logistic_step, set_logits

    every = np.vstack([np.ones(len(correct)), ((features.predictors - scale[0]) / scale[1]).T])
    group = np.zeros(len(correct), int) if features.group is None else features.group
    rows = np.flatnonzero(weights > 0)
    design, right, weight = every[:, rows], correct[rows], weights[rows]
    bounds, bounds_of_all = (
        np.searchsorted(one, np.arange(max(features.n_groups, 1) + 1)) for one in (group[rows], group)
    )
    shape = (max(features.n_groups, 1), len(every))
    common, own = (start.common, start.own) if start else (np.zeros(shape[1]), np.zeros(shape))
    step, steps, logits, moves = np.empty(shape[1]), np.zeros(shape), np.empty(len(rows)), np.empty(len(rows))
    set_logits(design, bounds, common, own, logits)
    for _ in range(_MOST_STEPS):
        half = 0.5 * np.tanh(logits / 2)
        residual, certainty = weight * (right - 0.5 - half), weight * (0.25 - half**2)
        logistic_step(
            design, bounds, residual, certainty, features.group is not None, common, own, step, steps
        )
        set_logits(design, bounds, step, steps, moves)
        moved = np.abs(moves).max()
        shrink = 1 / max(1.0, moved / _MOST_LOGITS)
        common, own, logits = common + shrink * step, own + shrink * steps, logits + shrink * moves
        if moved < _LEAST_STEP:
            break
    set_logits(every, bounds_of_all, common, own, found)
    return Model(*scale, common, own)


def _scales(predictors: Values, weights: Values) -> tuple[Values, Values]:
    """Mean and population standard deviation, fits × p; a predictor that does not vary becomes 0."""
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
    return mean, np.where(deviation > 0, deviation, 1.0)
