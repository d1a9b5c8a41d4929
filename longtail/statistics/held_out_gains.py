"""The held-out gain of adaptive retrieval on weighted questions: thresholds are fitted on some and scored on the others.

Only a question that exactly one method answers right changes a gain: +1 for retrieval, -1 for memory. So sums run over
these questions, and the others only matter as candidates: a threshold of search exact is the lowest popularity of a
fitted question above the last question that is worth retrieving.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from longtail.statistics.resampling import Values

SEARCHES = ("exact", "binned10")
SCOPES = ("all", "per_relation")
NO_RELATION = ""

Variant = tuple[str, str]
"""(search, threshold scope)."""


@dataclass(frozen=True)
class Questions:
    """The questions of one pair of methods: arrays of equal length, one element per question.

    `relation` is empty if a question has none; its threshold is the one for all. `difference` is 1 if only retrieval is
    right, -1 if only memory is right, else 0. `edges`: the candidates of binned10 for each relation and for all,
    ascending; the last is infinity. `unit`: the number of the question's subject, from 0.
    """

    relation: Values
    popularity: Values
    difference: Values
    edges: dict[str, Values]
    unit: Values

    @functools.cached_property
    def groups(self) -> tuple[Values, Values]:
        """The relations, and the number of each question's relation."""
        return np.unique(self.relation, return_inverse=True)

    def step_of_bins(self, scope: str, edges: dict[str, Values]) -> Values:
        """The lowest candidate in `edges` above the popularity of each question."""
        step = _above(edges["all"], self.popularity)
        names, group = self.groups
        for number, name in enumerate(names if scope == "per_relation" else ()):
            if name != NO_RELATION:
                of = group == number
                step[of] = _above(edges[name], self.popularity[of])
        return step


def _above(candidates: Values, popularity: Values) -> Values:
    return np.asarray(candidates[np.searchsorted(candidates, popularity, side="right")])


@dataclass(frozen=True)
class Ladder:
    """Questions in the order of their popularity, one group (a relation, or all) after the other.

    `order`: the questions; the other arrays are by position in it. `first` and `last`: first and last position of the
    same popularity. `starts` and `stops`: positions of each group. `places`: positions of the questions with a
    difference; `sign`: their differences; `below`: how many of them are before each position, and before the end.
    `is_step` (searches × places in `below`): whether a threshold can have so many of them below it. `is_unfitted`:
    whether a group has no threshold of its own, as questions without a relation.
    """

    order: Values
    popularity: Values
    step: Values
    first: Values
    last: Values
    starts: Values
    stops: Values
    places: Values
    sign: Values
    below: Values
    is_step: Values
    is_unfitted: Values

    @property
    def differing(self) -> tuple[Values, Values, Values]:
        """The questions with a difference, their differences, and where each group of them begins and the last ends."""
        bounds = self.below[np.append(self.starts, len(self.order))]
        return self.order[self.places], self.sign, bounds


@dataclass(frozen=True)
class Fitted:
    """Thresholds of each fold and weighting, by variant, and their gains on the questions left out.

    `retrieved` (folds × weightings × groups): so many questions with a difference are retrieved, from the start of the
    group. `takes_always` (folds × weightings): always retrieving was better than never. `gain` (folds × weightings):
    additional right answers compared with the better fixed method of the fit.
    """

    retrieved: dict[Variant, Values]
    takes_always: Values
    gain: dict[Variant, Values]


@dataclass(frozen=True)
class LeftOut:
    """The gain of each question when it is left out, by its place in `Questions`.

    `share_departing`: how often the decision differs from the better fixed method of the fit, where that matters.
    """

    gain: Values
    share_departing: float


def ladders(questions: Questions, edges: dict[str, Values] | None = None) -> dict[str, Ladder]:
    """The questions in the order of each threshold scope. `edges`: other candidates of binned10 than theirs."""
    return {scope: _ladder(questions, scope, edges or questions.edges) for scope in SCOPES}


def _ladder(questions: Questions, scope: str, edges: dict[str, Values]) -> Ladder:
    n = len(questions.popularity)
    names, group = questions.groups if scope == "per_relation" else (np.array(["all"]), np.zeros(n, int))
    order = np.lexsort((questions.popularity, group))
    group, popularity, step = (
        group[order],
        questions.popularity[order],
        questions.step_of_bins(scope, edges)[order],
    )
    starts = np.flatnonzero(np.append(True, group[1:] != group[:-1]))
    stops = np.append(starts[1:], n)
    is_new = np.append(True, (popularity[1:] != popularity[:-1]) | (group[1:] != group[:-1]))
    firsts = np.flatnonzero(is_new)
    level = np.cumsum(is_new) - 1
    places = np.flatnonzero(questions.difference[order])
    below = np.append(0, np.cumsum(questions.difference[order] != 0))
    group_of_place = group[places]
    is_step = np.ones((len(SEARCHES), len(places) + 1), dtype=bool)
    for search, values in enumerate((popularity[places], step[places])):
        is_step[search, 1:-1] = (values[1:] != values[:-1]) | (group_of_place[1:] != group_of_place[:-1])
    return Ladder(
        order, popularity, step, firsts[level], (np.append(firsts[1:], n) - 1)[level], starts, stops, places,
        questions.difference[order][places].astype(np.int16), below, is_step, names == NO_RELATION,
    )  # fmt: skip


def fit(ladder_of: dict[str, Ladder], weights: Values, folds: Values, n_folds: int) -> Fitted:
    """Hold out each of the `n_folds` folds, fit on all other questions, and score the fold.

    `weights` and `folds` (weightings × questions): how often a question occurs, and its fold, from 0.
    """
    from longtail.statistics.kernels import best_counts, held_gains

    turned = np.ascontiguousarray(weights.T), np.ascontiguousarray(folds.T)

    def scored(ladder: Ladder, counts: Values) -> Values:
        gains = np.zeros((n_folds, len(weights)), dtype=np.int32)
        held_gains(*turned, *ladder.differing, np.ascontiguousarray(counts.swapaxes(1, 2), np.int32), gains)
        return gains

    retrieved, gain, limits = {}, {}, {}
    of_all = ladder_of["all"]
    always = scored(of_all, np.full((n_folds, len(weights), 1), len(of_all.places)))
    takes_always = always.sum(axis=0) > always
    for scope in SCOPES:  # all comes first, because relations without fitted questions use its thresholds
        ladder = ladder_of[scope]
        best_by_group = np.empty((len(SEARCHES), n_folds, len(ladder.starts), len(weights)), dtype=np.int32)
        best_counts(*turned, *ladder.differing, ladder.is_step, best_by_group)
        best = best_by_group.swapaxes(2, 3).astype(np.int64)
        places, is_unknown = _exact_places(ladder, best[0], weights, folds)
        for search, counts in zip(SEARCHES, (ladder.below[places], best[1]), strict=True):
            if scope == "all":
                limits[search] = _limits(ladder, search, places, counts)
            else:
                _fall_back(ladder, counts, is_unknown | ladder.is_unfitted, limits[search])
            retrieved[search, scope] = counts
            gain[search, scope] = scored(ladder, counts) - always * takes_always
    return Fitted(retrieved, takes_always, gain)


def _exact_places(ladder: Ladder, best: Values, weights: Values, folds: Values) -> tuple[Values, Values]:
    """By group: the first position not retrieved (the end of the group for always), and whether nothing was fitted.

    `best` (folds × weightings × groups): the best number of retrieved questions with a difference.
    The threshold is the popularity of the next fitted question, so held-out questions below it are retrieved too.
    """
    from longtail.statistics.kernels import next_fitted

    is_never = best == ladder.below[ladder.starts]
    after = np.append(0, ladder.last[ladder.places] + 1)
    place = np.ascontiguousarray(np.where(is_never, ladder.starts, after[best]))
    next_fitted(weights, folds, ladder.order, ladder.stops, place)
    is_end = place == ladder.stops
    first = ladder.first[np.minimum(place, len(ladder.order) - 1)]
    return np.where(is_end, place, first), is_never & is_end


def _limits(ladder: Ladder, search: str, places: Values, counts: Values) -> Values:
    """The thresholds for all, folds × weightings."""
    if search == "exact":
        return np.append(ladder.popularity, np.inf)[places[:, :, 0]]
    steps = np.append(-np.inf, ladder.step[ladder.places])
    return np.asarray(steps[counts[:, :, 0]])


def _fall_back(ladder: Ladder, counts: Values, is_unknown: Values, limits: Values) -> None:
    """A relation without a fitted question uses the threshold for all, and so do questions without a relation."""
    popularity = ladder.popularity[ladder.places]
    for group in np.flatnonzero(is_unknown.any(axis=(0, 1))):
        start, stop = ladder.below[ladder.starts[group]], ladder.below[ladder.stops[group]]
        at = is_unknown[:, :, group]
        counts[at, group] = start + np.searchsorted(popularity[start:stop], limits[at])


def left_out(ladder_of: dict[str, Ladder], fitted: Fitted, folds: Values) -> dict[Variant, LeftOut]:
    """By variant: the mean gain of each question when it is left out, over weightings that are all 1."""
    by_variant = {}
    for (search, scope), counts in fitted.retrieved.items():
        ladder = ladder_of[scope]
        questions = ladder.order[ladder.places]
        group = np.searchsorted(ladder.starts, ladder.places, side="right") - 1
        is_retrieved = np.arange(len(questions)) < counts[:, :, group]
        is_held = folds[None, :, questions] == np.arange(len(counts))[:, None, None]
        departs = is_held * (is_retrieved.astype(np.int16) - fitted.takes_always[..., None])
        n_held = is_held.sum(axis=(0, 1))
        gain = np.zeros(len(ladder.order))
        gain[questions] = (departs * ladder.sign).sum(axis=(0, 1)) / np.maximum(n_held, 1)
        by_variant[search, scope] = LeftOut(gain, float(np.abs(departs).sum() / max(n_held.sum(), 1)))
    return by_variant
