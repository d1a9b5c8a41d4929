"""How certain is the gain of adaptive retrieval? A bootstrap of the held-out gain, with thresholds fitted each time.

The estimated quantity is the gain that is expected on new questions of the same kind, if the thresholds and the fixed
method to beat are chosen on three quarters as many questions as the study has. `accuracy_adaptive` of
fct_adaptive_accuracy is scored in the same way.

The method: each of 1,000 resamples of the subjects is dealt twice into four parts. All questions on a subject are in one
part. Each part is left out in turn; the thresholds and the better fixed method are fitted on the other three parts, and
the part is scored. So no question is scored by a fit that used its subject. The two deals of a resample give two gains.
The drawn subjects make both vary together, and each deal makes them vary separately. So the covariance of the two gains
is the variance that is needed (as in Cai et al. 2023, arXiv 2307.00260).

This variance is too large, because a resample repeats subjects and has only .632 of them, which makes fitting worse.
In worlds of known truth (`benchmarks/coverage.py`) the part from fitting is about twice its true size. The part from
scoring is also known separately, from what each subject gains when it is left out. The result is the mean of the two
variances, which halves the part from fitting. Where the fits disagree on the better fixed method, this is too little
(it covered 74 % of 61 such studies), and the whole covariance counts.

The candidates of binned10 depend on the lowest and the highest popularity of a study. A third variance is added for
them: how much the gain varies if only they come from resamples of the subjects. It is 0 for exact.

Only a question that exactly one method answers right changes a gain: +1 for retrieval, -1 for memory. So sums run over
these questions, and the others only matter as candidates: a threshold of search exact is the lowest popularity of a
fitted question above the last question that is worth retrieving.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from longtail.statistics.resampling import (
    LEAST_OF_OUTCOME,
    LEAST_SUBJECTS,
    Values,
    draws,
    n_deciding,
    seed_of,
)
from longtail.statistics.results import compute_parts, digest

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


def left_out(
    ladder_of: dict[str, Ladder], fitted: Fitted, folds: Values
) -> dict[Variant, tuple[Values, float]]:
    """By variant, over weightings that are all 1: the mean gain of each question when it is left out, by its place in
    `Questions`; and how often the decision differs from the better fixed method of the fit, where that matters."""
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
        by_variant[search, scope] = gain, float(np.abs(departs).sum() / max(n_held.sum(), 1))
    return by_variant


N_RESAMPLES = 1_000
N_PARTS = 4
N_DEALS = 25
"""Deals of the study's own subjects, each into four parts: a hundred fits."""

LEAST_DEPARTING = 0.05
TOO_FEW = f"fewer than {LEAST_SUBJECTS} subjects decide it"
"""Below these limits there is no standard error, because it proved unreliable in worlds of known truth."""

MOST_UNSETTLED = 0.2
"""Above this share of fits that take the fixed method of the minority, fits disagree on the better fixed method."""

N_CANDIDATES = 10
_N_CANDIDATE_DEALS = 5
"""Resamples that give other candidates of binned10, and deals of the study's own subjects for each."""

_CHUNK = 1_000_000
"""Number of questions that are drawn at once, over all resamples of a chunk."""
_PAIR = ("dataset", "prompt", "model", "parametric_method", "retrieval_method")
QUERIES = (
    f"select pair_id, {', '.join(_PAIR)} from int_method_pairs order by all",  # noqa: S608
    "select pair_id, relation, popularity, retrieval - parametric as difference, cluster_id"
    " from int_adaptive_rows order by all",
    "select pair_id, relation, threshold_popularity from int_adaptive_edges order by all",
)
SCHEMA = pa.schema([
    *((name, pa.string()) for name in (*_PAIR, "search", "threshold_scope")),
    ("n_questions", pa.int64()),
    ("n_resamples", pa.int32()),
    *((name, pa.float64()) for name in ("n_deciding", "share_departing", "gain_standard_error")),
    ("undefined", pa.string()),
])  # fmt: skip

Columns = dict[str, Values]


@dataclass(frozen=True)
class Spread:
    """How much the held-out gain varies: its standard error, or the reason why there is none.

    `n_deciding`: the effective number of deciding subjects; this many equally large gains and losses would vary as
    much as the real ones. `share_departing`: the share of the questions that only one method answers right for which
    adaptive retrieval decides differently from the better fixed method.
    """

    gain_standard_error: float | None
    undefined: str | None
    n_deciding: float
    share_departing: float


Deciding = tuple[float, float, float, str | None]
"""The effective number of subjects that decide a gain; its variance from scoring alone, and with that of the fits; the
reason if too few decide it."""


def bootstrap_adaptive_gains(
    pairs: pa.Table, rows: pa.Table, edges: pa.Table, seed: int, last: pa.Table | None = None
) -> pa.Table:
    """The rows of int_adaptive_gains. `QUERIES` read the pairs, their questions, and their candidates of binned10;
    `last`: as in `compute_parts`."""
    columns, candidates = (
        {name: table[name].to_numpy() for name in table.column_names} for table in (rows, edges)
    )
    parts = []
    for pair in pairs.to_pylist():
        questions = _questions(columns, candidates, pair.pop("pair_id"))
        parts.append((digest(seed, pair, vars(questions)), (pair, questions)))

    def resample(part: tuple[dict[str, str], Questions]) -> Iterator[dict[str, Any]]:
        pair, questions = part
        for (search, scope), spread in bootstrap_pair(questions, seed_of(seed, pair.values())).items():
            yield {
                **pair, "search": search, "threshold_scope": scope, "n_questions": len(questions.popularity),
                "n_resamples": N_RESAMPLES, **vars(spread),
            }  # fmt: skip

    return compute_parts(resample, parts, SCHEMA, last)


def _questions(rows: Columns, edges: Columns, pair: int) -> Questions:
    of_pair, of_edges = (
        slice(*np.searchsorted(table["pair_id"], [pair, pair + 1])) for table in (rows, edges)
    )
    relation, popularity, difference, subject = (
        rows[name][of_pair] for name in ("relation", "popularity", "difference", "cluster_id")
    )
    relation = np.where(relation == None, NO_RELATION, relation)  # noqa: E711, as numpy compares each value
    candidates = {
        name: edges["threshold_popularity"][of_edges][edges["relation"][of_edges] == name]
        for name in {"all", *relation} - {NO_RELATION}
    }
    unit = np.unique(subject, return_inverse=True)[1]
    return Questions(relation, popularity.astype(float), difference, candidates, unit)


def bootstrap_pair(questions: Questions, seed: int, n_resamples: int = N_RESAMPLES) -> dict[Variant, Spread]:
    """For each (search, scope), how much the held-out gain varies. Without questions nothing is known."""
    n = len(questions.popularity)
    if not n:
        nothing = Spread(None, "no questions", 0.0, 0.0)
        return dict.fromkeys(itertools.product(SEARCHES, SCOPES), nothing)
    rng = np.random.default_rng(seed)
    ladder_of = ladders(questions)
    deals = rng.integers(0, N_PARTS, (N_DEALS, questions.unit.max() + 1), dtype=np.uint8)[:, questions.unit]
    fitted = fit(ladder_of, np.ones_like(deals), deals, N_PARTS)
    single = left_out(ladder_of, fitted, deals)
    resampled = resample_gains(ladder_of, questions.unit, n_resamples, rng)
    candidates = _variances_of_candidates(questions, deals[:_N_CANDIDATE_DEALS], rng)
    settled = is_settled(fitted.takes_always)
    alike = "one fixed method is nearly always best"
    return {
        name: spread_of(gain, resampled[name], questions.unit, settled, departing, alike, candidates[name])
        for name, (gain, departing) in single.items()
    }


def is_settled(takes_always: Values) -> bool:
    """Whether the fits agree on the better fixed method, from what each takes."""
    share = float(takes_always.mean())
    return min(share, 1 - share) <= MOST_UNSETTLED


def _variances_of_candidates(
    questions: Questions, deals: Values, rng: np.random.Generator
) -> dict[Variant, float]:
    """By variant: how much the gain on the study's own questions varies with the candidates of binned10."""
    n = len(questions.popularity)
    gains = []
    for weights in draws(questions.unit.max() + 1, N_CANDIDATES, rng):
        moved = ladders(questions, move_edges(questions, weights[questions.unit] > 0))
        gains.append(fit(moved, np.ones_like(deals), deals, N_PARTS).gain)
    return {
        name: float(np.var([gain[name].sum() / (len(deals) * n) for gain in gains], ddof=1))
        for name in gains[0]
    }


def move_edges(questions: Questions, is_drawn: Values) -> dict[str, Values]:
    """The candidates of binned10 if only the drawn questions existed: stretched in log popularity to their range."""
    moved_edges = {}
    names, group = questions.groups
    for name, edges in questions.edges.items():
        of = (questions.popularity > 0) & ((names == name)[group] | (name == "all"))
        moved_edges[name] = edges
        if (of & is_drawn).any():
            known, drawn = questions.popularity[of], questions.popularity[of & is_drawn]
            low, high, least, most = np.log([known.min(), known.max(), drawn.min(), drawn.max()])
            is_edge = (edges > 0) & np.isfinite(edges)
            places = (np.log(edges[is_edge]) - low) / ((high - low) or 1.0)
            moved = np.exp(least + (most - least) * places)
            moved_edges[name] = np.unique([*edges[~is_edge], *moved])
    return moved_edges


def resample_gains(
    ladder_of: dict[str, Ladder], unit: Values, n_resamples: int, rng: np.random.Generator
) -> dict[Variant, Values]:
    """By variant, resamples × 2 deals: the held-out gain of each. `unit` (n): the number of each question's subject."""
    by_variant: dict[Variant, list[Values]] = {}
    for weights, deals in dealt_twice(unit, n_resamples, _CHUNK, rng):
        fits = [fit(ladder_of, weights, parts, N_PARTS) for parts in deals]
        n = weights.sum(axis=1, dtype=float)
        for name in fits[0].gain:
            gains = [fitted.gain[name].sum(axis=0) / n for fitted in fits]
            by_variant.setdefault(name, []).append(np.stack(gains, axis=1))
    return {name: np.concatenate(parts) for name, parts in by_variant.items()}


def dealt_twice(
    unit: Values, n_resamples: int, at_once: int, rng: np.random.Generator
) -> Iterator[tuple[Values, tuple[Values, Values]]]:
    """Resamples of the subjects `unit` (n) in batches of about `at_once` questions: weights, and the parts of two deals.

    Both are resamples × n: how often a question is drawn, and the part, from 0, in which its subject is.
    """
    n_subjects, size = unit.max() + 1, max(1, at_once // len(unit))
    for start in range(0, n_resamples, size):
        weights = draws(n_subjects, min(size, n_resamples - start), rng)
        both = rng.integers(0, N_PARTS * N_PARTS, weights.shape, dtype=np.uint8)[:, unit]
        yield weights[:, unit], (both % N_PARTS, both // N_PARTS)


def deciding_and_variance(single: Values, resampled: Values, unit: Values, settled: bool) -> Deciding:
    """The effective number of deciding subjects, and how much a gain varies with the drawn subjects.

    `single` (n): the gain of each question when it is left out; `unit` (n): its subject. `resampled` (resamples × 2
    deals): the gain of each. `settled`: the fits agree on the better fixed method.
    """
    n, sizes = len(unit), np.bincount(unit)
    gains = np.bincount(unit, single).round(12)  # what is left of equal decisions decides nothing
    n_decide = float(n_deciding(gains))
    scoring = np.square(gains - gains.sum() / n * sizes).sum() / n**2 * len(sizes) / max(len(sizes) - 1, 1)
    both = np.cov(resampled.T)[0, 1]
    whole = (scoring + both) / 2 if settled else max(scoring, both)
    is_few = np.count_nonzero(gains) < LEAST_SUBJECTS or n_decide < LEAST_OF_OUTCOME
    return n_decide, float(scoring), float(whole), TOO_FEW if is_few else None


def spread_of(
    single: Values, resampled: Values, unit: Values, settled: bool, share_departing: float, alike: str,
    candidates: float = 0.0,
) -> Spread:  # fmt: skip
    """How much a gain varies, as in `deciding_and_variance`. `alike`: the reason why it has no standard error if both
    sides nearly always decide alike; `candidates`: the variance that those of binned10 add."""
    n_decide, _, variance, undefined = deciding_and_variance(single, resampled, unit, settled)
    if not undefined and share_departing < LEAST_DEPARTING:
        undefined = alike
    elif not undefined and variance <= 0:
        undefined = "resamples do not vary"
    standard_error = None if undefined else float(np.sqrt(variance + candidates))
    return Spread(standard_error, undefined, n_decide, share_departing)
