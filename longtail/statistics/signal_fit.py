"""Predicted probabilities of a right answer by many regularised logistic regressions at once, one per weighting.

The model is the logistic regression of `prediction_probabilities` (scikit-learn's penalty with C = 1, standardised
predictors, each relation's own intercept and slopes beside the common ones) without its calibration, which leaves the
order of the questions as it is.

Scikit-learn fits one model in about 20 ms. Adaptive retrieval needs thousands, all on the same questions with other
weights. Newton's method starts where the fit before ended: a relation's coefficients meet those of other relations only
through the common ones, so a step solves one small system per relation, and one for what they have in common.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from longtail.statistics.resampling import Values

DECIMALS = 9
"""Probabilities are rounded so far: smaller differences are rounding, and no reason to decide differently."""


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
    """One fit: `mean` and `deviation` (p) of the predictors, and `common` (1 + p) coefficients.

    `by_group` (groups × (1 + p)): what a group adds to the common coefficients; without groups it has no rows.
    """

    mean: Values
    deviation: Values
    common: Values
    by_group: Values


def probabilities(features: Features, correct: Values, weights: Values) -> Values:
    """Weightings × n: the probability that each question is answered right, fitted on the questions with a weight.

    `correct` (n): 1 if right. `weights` (weightings × n): how often a question counts; 0 leaves it out, and then its
    `correct` has no effect. Weighted questions with one outcome give that outcome to all: such a signal tells nothing.
    """
    logits = _fit(features, correct, weights)[0]
    return (0.5 * (1 + np.tanh(logits / 2))).round(DECIMALS)


def fit_model(features: Features, correct: Values) -> Model:
    """The fit on all questions. Both outcomes must occur."""
    _, ((mean,), (deviation,)), common, by_group = _fit(features, correct, np.ones((1, len(correct))))
    return Model(mean, deviation, common, by_group[: features.n_groups])


def _fit(
    features: Features, correct: Values, weights: Values
) -> tuple[Values, tuple[Values, Values], Values, Values]:
    """Logits (weightings × n), and mean, deviation and coefficients of the last fit. Without groups all are in one."""
    from longtail.statistics.kernels import fit_logistic

    predictors, weights = (np.ascontiguousarray(values, float) for values in (features.predictors, weights))
    scales = _scales(predictors, weights)
    group = np.zeros(len(correct), int) if features.group is None else features.group
    common = np.zeros(1 + predictors.shape[1])
    by_group, logits = np.zeros((max(features.n_groups, 1), len(common))), np.empty(weights.shape)
    bounds = np.searchsorted(group, np.arange(len(by_group) + 1))
    is_grouped, right = features.group is not None, np.asarray(correct, float)
    fit_logistic(predictors, *scales, right, weights, bounds, is_grouped, common, by_group, logits)
    return logits, scales, common, by_group


def _scales(predictors: Values, weights: Values) -> tuple[Values, Values]:
    """Mean and population standard deviation, fits × p; a predictor that does not vary becomes 0."""
    total = weights.sum(axis=1)[:, None]
    mean = weights @ predictors / total
    centred = predictors - predictors.mean(axis=0)
    variance = weights @ centred**2 / total - (weights @ centred / total) ** 2
    deviation = np.sqrt(np.maximum(variance, 0))
    for fit in np.flatnonzero((variance <= 1e-9 * (centred**2).mean(axis=0)).any(axis=1)):
        fitted = predictors[weights[fit] > 0]
        low, varies = fitted.min(axis=0), fitted.min(axis=0) < fitted.max(axis=0)
        mean[fit] = np.where(varies, mean[fit], low)
        deviation[fit] = np.where(varies, deviation[fit], 1.0)
    return mean, np.where(deviation > 0, deviation, 1.0)
