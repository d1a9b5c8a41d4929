"""The compiled loops of statistics: the thresholds of many fits, each found in one walk over its questions.

What belongs here: functions on arrays that numba compiles. numba is slow to import, so only functions import this module.
"""

from __future__ import annotations

import numpy as np

from dagster_project.core.grounding.kernels import compiled


@compiled
def best_limits(
    order: np.ndarray,
    values: np.ndarray,
    slot: np.ndarray,
    weights: np.ndarray,
    gain: np.ndarray,
    found: np.ndarray,
) -> None:
    """Write the best threshold of a fit into `found` (slots): that of all questions into slot 0, each relation's into its
    own.

    `order`: the questions in the order of their `values` (n), if need be without those of weight 0. `slot` (n): 0 for a
    question without a relation. The best threshold is the next fitted value after the greatest sum.
    """
    below, best = np.zeros(len(found)), np.zeros(len(found))
    highest, is_higher = np.zeros(len(found)), np.zeros(len(found), np.bool_)  # the last value with a gain
    is_open = np.ones(len(found), np.bool_)
    found[:] = -np.inf
    for at in order:
        if weights[at] == 0:
            continue
        value = values[at]
        for turn in range(2 if slot[at] else 1):
            own = turn * slot[at]
            if is_higher[own] and value != highest[own]:
                is_higher[own] = False
                if below[own] > best[own]:
                    best[own], is_open[own] = below[own], True
            if is_open[own]:
                found[own], is_open[own] = value, False
            below[own] += gain[at]
            if gain[at] > 0:
                highest[own], is_higher[own] = value, True
    for own in range(len(found)):
        if below[own] > best[own]:
            found[own] = np.inf


@compiled
def best_counts(
    weights: np.ndarray, folds: np.ndarray, questions: np.ndarray, signs: np.ndarray, bounds: np.ndarray,
    is_step: np.ndarray, found: np.ndarray,
) -> None:  # fmt: skip
    """Write the best number of questions below a threshold into `found` (searches × folds × groups × weightings).

    `weights` and `folds`: all questions × weightings, since the inner loops run over weightings. `questions` and `signs`
    (n): the questions with a difference. `bounds` (groups + 1): where each group of them begins. `is_step`
    (searches × (n + 1)): whether a threshold can have so many below it.
    """
    n_searches, n_folds, _, n_rows = found.shape
    for group in range(len(bounds) - 1):
        trained = np.zeros((n_folds, n_rows), np.int32)
        best = np.zeros((n_searches, n_folds, n_rows), np.int32)
        is_higher = np.zeros(n_searches, np.bool_)
        found[:, :, group] = bounds[group]
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
                        sums, most, counts = trained[fold], best[search, fold], found[search, fold, group]
                        for row in range(n_rows):
                            counts[row] = place + 1 if sums[row] > most[row] else counts[row]
                            most[row] = max(most[row], sums[row])


@compiled
def held_gains(
    weights: np.ndarray, folds: np.ndarray, questions: np.ndarray, signs: np.ndarray, bounds: np.ndarray,
    counts: np.ndarray, found: np.ndarray,
) -> None:  # fmt: skip
    """Add to `found` (folds × weightings) what the fold left out gains on the questions before `counts`.

    `counts` (folds × groups × weightings); the other arrays as in `best_counts`.
    """
    n_folds, n_rows = found.shape
    for group in range(len(bounds) - 1):
        for place in range(bounds[group], bounds[group + 1]):
            weight, dealt, sign = weights[questions[place]], folds[questions[place]], signs[place]
            for fold in range(n_folds):
                below, sums = counts[fold, group], found[fold]
                for row in range(n_rows):
                    sums[row] += (sign * weight[row]) * ((dealt[row] == fold) & (place < below[row]))


@compiled
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


@compiled
def pair_sums(drawn: np.ndarray, unit: np.ndarray, is_right: np.ndarray, is_last: np.ndarray) -> np.ndarray:
    """3 × draws: pairs of a right and a wrong answer in which the right one scores higher, twice, with ties once; the
    right answers; the wrong ones.

    `drawn` (units × draws): how often a unit counts. The other arrays (n) have the answers in ascending order of score:
    the unit, whether the answer is right, and whether the next one scores higher.
    """
    found = np.zeros((3, drawn.shape[1]), np.int64)
    tied = np.zeros((2, drawn.shape[1]), np.int64)
    for place in range(len(unit)):
        counts, same = drawn[unit[place]], tied[0 if is_right[place] else 1]
        for draw in range(len(counts)):
            same[draw] += counts[draw]
        if is_last[place]:
            for draw in range(len(counts)):
                found[0, draw] += tied[0, draw] * (2 * found[2, draw] + tied[1, draw])
                found[1, draw] += tied[0, draw]
                found[2, draw] += tied[1, draw]
            tied[:] = 0
    return found
