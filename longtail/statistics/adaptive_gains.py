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
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from longtail.statistics.held_out_gains import (
    NO_RELATION,
    SCOPES,
    SEARCHES,
    Ladder,
    LeftOut,
    Questions,
    Variant,
    fit,
    ladders,
    left_out,
)
from longtail.statistics.resampling import (
    LEAST_OF_OUTCOME,
    LEAST_SUBJECTS,
    Values,
    draws,
    n_deciding,
    seed_of,
)
from longtail.statistics.results import compute_parts, digest

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

    standard_error: float | None
    undefined: str | None
    n_deciding: float
    share_departing: float


class Deciding(NamedTuple):
    """The effective number of subjects that decide a gain; its variance from scoring alone, and with that of the fits;
    the reason if too few decide it.
    """

    n_deciding: float
    scoring: float
    variance: float
    undefined: str | None


def bootstrap_adaptive_gains(
    pairs: pa.Table, rows: pa.Table, edges: pa.Table, seed: int, last: pa.Table | None = None
) -> pa.Table:
    """The rows of int_adaptive_gains. `QUERIES` read the pairs, their questions, and their candidates of binned10;
    `last`: as in `compute_parts`."""
    columns, candidates = (_columns(table) for table in (rows, edges))
    parts = []
    for pair in pairs.to_pylist():
        questions = _questions(columns, candidates, pair.pop("pair_id"))
        parts.append((digest(seed, pair, vars(questions)), (pair, questions)))

    def resample(part: tuple[dict[str, str], Questions]) -> Iterator[dict[str, Any]]:
        pair, questions = part
        return _gains_of(pair, questions, seed_of(seed, pair.values()))

    return compute_parts(resample, parts, SCHEMA, last)


def _columns(table: pa.Table) -> Columns:
    return {name: table[name].to_numpy() for name in table.column_names}


def _gains_of(key: dict[str, str], questions: Questions, seed: int) -> Iterator[dict[str, Any]]:
    for (search, scope), spread in bootstrap_pair(questions, seed).items():
        yield {
            **key, "search": search, "threshold_scope": scope, "n_questions": len(questions.popularity),
            "n_resamples": N_RESAMPLES,
            "n_deciding": spread.n_deciding, "share_departing": spread.share_departing,
            "gain_standard_error": spread.standard_error, "undefined": spread.undefined,
        }  # fmt: skip


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
        return {
            (search, scope): Spread(None, "no questions", 0.0, 0.0) for search in SEARCHES for scope in SCOPES
        }
    rng = np.random.default_rng(seed)
    ladder_of = ladders(questions)
    deals = rng.integers(0, N_PARTS, (N_DEALS, questions.unit.max() + 1), dtype=np.uint8)[:, questions.unit]
    fitted = fit(ladder_of, np.ones_like(deals), deals, N_PARTS)
    single = left_out(ladder_of, fitted, deals)
    resampled = resample_gains(ladder_of, questions.unit, n_resamples, rng)
    candidates = _variances_of_candidates(questions, deals[:_N_CANDIDATE_DEALS], rng)
    settled = is_settled(fitted.takes_always)
    return {
        name: spread_of(single[name], resampled[name], questions.unit, settled, candidates[name])
        for name in resampled
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
    return Deciding(n_decide, float(scoring), float(whole), TOO_FEW if is_few else None)


def spread_of(single: LeftOut, resampled: Values, unit: Values, settled: bool, candidates: float) -> Spread:
    """How much the gain varies, as in `deciding_and_variance`. `candidates`: the variance that they add."""
    n_deciding, _, variance, undefined = deciding_and_variance(single.gain, resampled, unit, settled)
    if not undefined and single.share_departing < LEAST_DEPARTING:
        undefined = "one fixed method is nearly always best"
    elif not undefined and variance <= 0:
        undefined = "resamples do not vary"
    return Spread(
        None if undefined else float(np.sqrt(variance + candidates)),
        undefined,
        n_deciding,
        single.share_departing,
    )
