"""The compiled loops of statistics: steps of logistic regressions, and thresholds, each found in one walk."""

from __future__ import annotations

import functools

import numpy as np

from longtail.grounding.kernels import compile_loop

_MOST_STEPS = 200
_LEAST_STEP = 1e-6
"""Newton's method squares its error with each step, so what is left after such a step is far below it."""
_MOST_LOGITS = 4.0
"""A step moves no question by more than that, so that it cannot overshoot for ever."""


@compile_loop
def invert(matrix: np.ndarray) -> None:
    """Replace a positive definite matrix by its inverse (Gauss and Jordan's elimination)."""
    for at in range(len(matrix)):
        pivot, matrix[at, at] = matrix[at, at], 1.0
        for column in range(len(matrix)):
            matrix[at, column] /= pivot
        for row in range(len(matrix)):
            if row != at:
                factor, matrix[row, at] = matrix[row, at], 0.0
                for column in range(len(matrix)):
                    matrix[row, column] -= factor * matrix[at, column]


@compile_loop
def add_product(matrix: np.ndarray, vector: np.ndarray, result: np.ndarray) -> None:
    """Add matrix times vector to `result`."""
    for row in range(len(result)):
        for column in range(len(vector)):
            result[row] += matrix[row, column] * vector[column]


@functools.partial(compile_loop, fastmath={"reassoc"})
def product_sum(first: np.ndarray, second: np.ndarray, third: np.ndarray) -> float:
    """The sum of the products of three numbers, in any order, so that the processor adds several at once."""
    total = 0.0
    for at in range(len(first)):
        total += first[at] * second[at] * third[at]
    return total


@compile_loop
def set_logits(
    design: np.ndarray, bounds: np.ndarray, common: np.ndarray, by_group: np.ndarray, logits: np.ndarray
) -> None:  # fmt: skip
    """Write the logits of coefficients into `logits` (n); the arrays are those of `logistic_step`."""
    logits[:] = 0.0
    for group in range(len(by_group)):
        for i in range(len(common)):
            factor, predictor = common[i] + by_group[group, i], design[i]
            for at in range(bounds[group], bounds[group + 1]):
                logits[at] += factor * predictor[at]


@compile_loop
def logistic_step(
    design: np.ndarray, bounds: np.ndarray, residual: np.ndarray, certainty: np.ndarray, is_grouped: bool,
    common: np.ndarray, by_group: np.ndarray, step: np.ndarray, steps: np.ndarray,
) -> None:  # fmt: skip
    """Write Newton's step of a logistic regression: `step` (q) for `common`, and `steps` (groups × q) for `by_group`.

    `design` (q × n): ones, and predictors. `bounds` (groups + 1): where each group of questions begins. `residual` and
    `certainty` (n): the derivatives of the likelihood. `common` (q) and `by_group` (groups × q), which a group adds: the
    coefficients. Their squares are penalised, but for the common intercept. Groups meet only through `common`, so a step
    solves one small system per group, and one for what they share.
    """
    (n_groups, q), ones = by_group.shape, design[0]
    gradient, curvature = np.empty((n_groups, q)), np.empty((n_groups, q, q))
    joint, wanted = np.zeros((q, q)), np.zeros(q)
    for i in range(1, q):
        joint[i, i], wanted[i] = 1.0, -common[i]
    for group in range(n_groups):
        rows = slice(bounds[group], bounds[group + 1])
        for i in range(q):
            gradient[group, i] = product_sum(residual[rows], design[i, rows], ones[rows])
            for j in range(i + 1):
                total = product_sum(certainty[rows], design[i, rows], design[j, rows])
                curvature[group, i, j] = curvature[group, j, i] = total
        if is_grouped:
            for i in range(q):
                gradient[group, i] -= by_group[group, i]
                wanted[i] += by_group[group, i]
                curvature[group, i, i] += 1
                joint[i, i] += 1
            invert(curvature[group])
            add_product(curvature[group], gradient[group], wanted)
            joint -= curvature[group]
        else:
            wanted += gradient[group]
            joint += curvature[group]
    invert(joint)
    step[:] = 0.0
    add_product(joint, wanted, step)
    for group in range(n_groups if is_grouped else 0):
        steps[group] = -step
        add_product(curvature[group], gradient[group] + step, steps[group])


@compile_loop
def fit_logistic(
    predictors: np.ndarray, means: np.ndarray, deviations: np.ndarray, correct: np.ndarray, weights: np.ndarray,
    bounds: np.ndarray, is_grouped: bool, common: np.ndarray, by_group: np.ndarray, all_logits: np.ndarray,
) -> None:  # fmt: skip
    """Fit a logistic regression by Newton's method for each of `weights` (fits × n); `all_logits` gets its logits.

    `predictors` (n × p), standardised by the fit's own `means` and `deviations` (fits × p). `bounds` (groups + 1): where
    each group of questions begins. `common` (1 + p) and `by_group` (groups × (1 + p)) are where the first fit begins;
    each other one begins where the fit before ended, and those of the last remain there. A fit to one outcome has
    infinite logits and no coefficients.
    """
    (n_fits, n), (n_groups, q) = weights.shape, by_group.shape
    every, rows, fitted_bounds = np.ones((q, n)), np.empty(n, np.int64), np.zeros(n_groups + 1, np.int64)
    step, steps = np.empty(q), np.zeros((n_groups, q))
    for fit in range(n_fits):
        m, n_right = 0, 0.0
        for group in range(n_groups):
            for at in range(bounds[group], bounds[group + 1]):
                if weights[fit, at] > 0:
                    rows[m] = at
                    n_right += correct[at]
                    m += 1
            fitted_bounds[group + 1] = m
        if n_right == 0 or n_right == m:
            all_logits[fit] = np.inf if n_right else -np.inf
            continue
        design = np.ones((q, m))
        for i in range(1, q):
            for at in range(n):
                every[i, at] = (predictors[at, i - 1] - means[fit, i - 1]) / deviations[fit, i - 1]
            for place in range(m):
                design[i, place] = every[i, rows[place]]
        logits, moves, residual, certainty = np.empty(m), np.empty(m), np.empty(m), np.empty(m)
        set_logits(design, fitted_bounds, common, by_group, logits)
        for _ in range(_MOST_STEPS):
            for place in range(m):
                probability = 1 / (1 + np.exp(-logits[place]))
                weight = weights[fit, rows[place]]
                residual[place] = weight * (correct[rows[place]] - probability)
                certainty[place] = weight * (probability * (1 - probability))
            logistic_step(
                design, fitted_bounds, residual, certainty, is_grouped, common, by_group, step, steps
            )
            set_logits(design, fitted_bounds, step, steps, moves)
            moved = 0.0
            for place in range(m):
                moved = max(moved, abs(moves[place]))
            shrink = 1 / max(1.0, moved / _MOST_LOGITS)
            for i in range(q):
                common[i] += shrink * step[i]
                for group in range(n_groups):
                    by_group[group, i] += shrink * steps[group, i]
            for place in range(m):
                logits[place] += shrink * moves[place]
            if moved < _LEAST_STEP:
                break
        set_logits(every, bounds, common, by_group, all_logits[fit])


@compile_loop
def best_limits(
    orders: np.ndarray, values: np.ndarray, weights: np.ndarray, gains: np.ndarray, slot: np.ndarray, limits: np.ndarray
) -> None:  # fmt: skip
    """Write the best threshold of each method, fit and slot into `limits` (methods × fits × slots).

    `values` and `weights` (fits × n), `gains` (methods × fits × n); `orders` sorts each fit's values, or those of all
    fits in one row. `slot` (n): the relation's number; 0 if there is none, and for all questions.
    """
    for fit in range(len(values)):
        bounds = np.zeros(limits.shape[2] + 1, np.int64)
        rows = deal(orders[min(fit, len(orders) - 1)], slot, weights[fit], bounds)
        for method in range(len(gains)):
            set_limits(rows, bounds, values[fit], gains[method, fit], limits[method, fit])


@compile_loop
def deal(order: np.ndarray, slot: np.ndarray, weights: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """The questions with a weight, in their `order`: all of them for slot 0, then again for the slot of each.

    `slot` (n): 0 for a question without a relation. `bounds` (slots + 1, of zeros) becomes where each slot begins.
    """
    for at in order:
        if weights[at] > 0:
            bounds[1] += 1
            bounds[slot[at] + 1] += slot[at] > 0
    bounds[:] = np.cumsum(bounds)
    free, rows = bounds[:-1].copy(), np.empty(bounds[-1], np.int64)
    for at in order:
        if weights[at] > 0:
            for number in range(0, slot[at] + 1, max(slot[at], 1)):
                rows[free[number]] = at
                free[number] += 1
    return rows


@compile_loop
def set_limits(
    rows: np.ndarray, bounds: np.ndarray, values: np.ndarray, gain: np.ndarray, limits: np.ndarray
) -> None:  # fmt: skip
    """Write the best threshold of each slot into `limits` (slots): the next value after the greatest sum of gains.

    `rows` and `bounds`: those of `deal`, in the order of their `values` (n).
    """
    for number in range(len(limits)):
        last, below, best, limit = np.nan, 0.0, -1.0, -np.inf
        for place in range(bounds[number], bounds[number + 1]):
            at = rows[place]
            if values[at] != last and below > best:
                best, limit = below, values[at]
            last = values[at]
            below += gain[at]
        limits[number] = np.inf if below > best >= 0 else limit


@compile_loop
def best_counts(
    weights: np.ndarray, folds: np.ndarray, questions: np.ndarray, signs: np.ndarray, bounds: np.ndarray,
    is_step: np.ndarray, retrieved: np.ndarray,
) -> None:  # fmt: skip
    """Write the best number of questions below a threshold into `retrieved` (searches × folds × groups × weightings).

    `weights` and `folds`: all questions × weightings, since the inner loops run over weightings. `questions` and `signs`
    (n): the questions with a difference. `bounds` (groups + 1): where each group of them begins. `is_step`
    (searches × (n + 1)): whether a threshold can have so many below it.
    """
    n_searches, n_folds, _, n_rows = retrieved.shape
    for group in range(len(bounds) - 1):
        trained = np.zeros((n_folds, n_rows), np.int32)
        best = np.zeros((n_searches, n_folds, n_rows), np.int32)
        is_higher = np.zeros(n_searches, np.bool_)
        retrieved[:, :, group] = bounds[group]
        for place in range(bounds[group], bounds[group + 1]):
            weight, dealt, sign = weights[questions[place]], folds[questions[place]], signs[place]
            for fold in range(n_folds):
                sums = trained[fold]
                for row in range(n_rows):
                    sums[row] += (sign * weight[row]) * (dealt[row] != fold)
            for search in range(n_searches):
                is_higher[search] |= sign > 0
                if is_higher[search] and is_step[search, place + 1]:
                    is_higher[search] = False
                    for fold in range(n_folds):
                        sums, most, counts = trained[fold], best[search, fold], retrieved[search, fold, group]
                        for row in range(n_rows):
                            counts[row] = place + 1 if sums[row] > most[row] else counts[row]
                            most[row] = max(most[row], sums[row])


@compile_loop
def held_gains(
    weights: np.ndarray, folds: np.ndarray, questions: np.ndarray, signs: np.ndarray, bounds: np.ndarray,
    counts: np.ndarray, gains: np.ndarray,
) -> None:  # fmt: skip
    """Add to `gains` (folds × weightings) what the fold left out gains on the questions before `counts`.

    `counts` (folds × groups × weightings); the other arrays as in `best_counts`.
    """
    n_folds, n_rows = gains.shape
    for group in range(len(bounds) - 1):
        for place in range(bounds[group], bounds[group + 1]):
            weight, dealt, sign = weights[questions[place]], folds[questions[place]], signs[place]
            for fold in range(n_folds):
                below, sums = counts[fold, group], gains[fold]
                for row in range(n_rows):
                    sums[row] += (sign * weight[row]) * ((dealt[row] == fold) & (place < below[row]))


@compile_loop
def next_fitted(
    weights: np.ndarray, folds: np.ndarray, order: np.ndarray, stops: np.ndarray, places: np.ndarray
) -> None:
    """Move `places` (folds × weightings × groups) on to the next fitted question in `order`, or to the group's stop.

    `weights` and `folds`: weightings × all questions.
    """
    for fold in range(len(places)):
        for row in range(len(weights)):
            for group in range(len(stops)):
                place = places[fold, row, group]
                while place < stops[group] and (
                    weights[row, order[place]] == 0 or folds[row, order[place]] == fold
                ):
                    place += 1
                places[fold, row, group] = place


@compile_loop
def pair_sums(drawn: np.ndarray, unit: np.ndarray, is_right: np.ndarray, is_last: np.ndarray) -> np.ndarray:
    """3 × draws: pairs of a right and a wrong answer in which the right one scores higher, twice, with ties once; the
    right answers; the wrong ones.

    `drawn` (units × draws): how often a unit counts. The other arrays (n) have the answers in ascending order of score:
    the unit, whether the answer is right, and whether the next one scores higher.
    """
    totals = np.zeros((3, drawn.shape[1]), np.int64)
    tied = np.zeros((2, drawn.shape[1]), np.int64)
    for place in range(len(unit)):
        counts, same = drawn[unit[place]], tied[0 if is_right[place] else 1]
        for draw in range(len(counts)):
            same[draw] += counts[draw]
        if is_last[place]:
            for draw in range(len(counts)):
                totals[0, draw] += tied[0, draw] * (2 * totals[2, draw] + tied[1, draw])
                totals[1, draw] += tied[0, draw]
                totals[2, draw] += tied[1, draw]
            tied[:] = 0
    return totals
