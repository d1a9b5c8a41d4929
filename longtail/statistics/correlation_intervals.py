"""How certain is a correlation of accuracy with popularity? A bootstrap over subjects.

A resample draws as many subjects as there are, with replacement and with all their questions, from all relations
together. All methods, models and prompts that answered the same questions share the draws. In each resample the ranks
and the means of relations are computed again.

Two correlations are computed for each measure. The pooled one is over the answers as they are. The one within relations
is over deviations from the mean of the relation, on both sides: popularity and correctness. For the rank correlation,
the popularity of an answer becomes (answers below it - answers above it) / answers, counted in its relation. This is
the probability-scale residual, whose correlation is the covariate-adjusted Spearman correlation of Liu, Li, Wanga and
Shepherd (2018, Biometrics 74, 595-605). The same residual of correctness is its deviation from the mean.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from longtail.statistics.resampling import Values, draws, interval, reason_against, seed_of

N_RESAMPLES = 1_000

MEASURES = ("point_biserial", "spearman")
_CHUNK = 1_000_000
"""Number of questions that are weighted at once, over all resamples of a chunk."""
_KEY = ("dataset", "prompt", "model", "method")
_LISTS = ("question_id", "cluster_id", "relation", "subject_popularity", "is_correct")
SCHEMA = pa.schema([
    *((name, pa.string()) for name in (*_KEY, "relation")),
    *((name, pa.int64()) for name in ("n_answers", "n_within", "n_subjects")),
    ("n_resamples", pa.int32()),
    *((f"{measure}_{end}", pa.float64()) for measure in MEASURES for end in ("low", "high")),
    ("no_interval", pa.string()),
    *((f"{measure}_within_{end}", pa.float64()) for measure in MEASURES for end in ("low", "high")),
    ("no_interval_within", pa.string()),
])  # fmt: skip
QUERY = (
    f"select {', '.join(_KEY)}, {', '.join(f'list({one} order by question_id) as {one}' for one in _LISTS)} "  # noqa: S608
    "from int_answers where subject_popularity > 0 group by all order by all"
)


def bootstrap_correlations(groups: pa.Table, seed: int) -> pa.Table:
    """The rows of int_correlation_intervals. `groups` (of answers): lists of their answers, as `QUERY` reads them."""
    return pa.Table.from_pylist(list(_rows(groups.to_pylist(), seed)), schema=SCHEMA)


def _rows(groups: list[dict[str, Any]], seed: int) -> Iterator[dict[str, Any]]:
    """One row per group of answers and relation, and one for `all`. Groups of the same questions come together."""

    def question_key(group: dict[str, Any]) -> tuple[str, list[str]]:
        return group["dataset"], group["question_id"]

    for (dataset, _), together in itertools.groupby(sorted(groups, key=question_key), key=question_key):
        same = list(together)
        relation = np.array([name or "" for name in same[0]["relation"]])
        subject = np.unique(same[0]["cluster_id"], return_inverse=True)[1]
        correct = np.array([group["is_correct"] for group in same], dtype=float).T
        popularity = np.log10(np.array(same[0]["subject_popularity"], dtype=float))
        resampled = resample_correlations(relation, subject, popularity, correct, seed_of(seed, [dataset]))
        for name, correlations in resampled:
            in_relation = (relation == name) | (name == "all")
            known = in_relation & (relation != "")
            for at, group in enumerate(same):
                right = correct[:, at]
                within = correlations["within"][:, :, at] if name == "all" else None
                yield {
                    **{column: group[column] for column in _KEY}, "relation": name, "n_answers": int(in_relation.sum()),
                    "n_within": int(known.sum()), "n_subjects": len(set(subject[in_relation])),
                    "n_resamples": N_RESAMPLES,
                    **_intervals(correlations["pooled"][:, :, at], subject[in_relation], right[in_relation], ""),
                    **_intervals(within, subject[known], right[known], "_within"),
                }  # fmt: skip


def _intervals(correlations: Values | None, subject: Values, right: Values, scope: str) -> dict[str, Any]:
    """The interval of each measure over resamples × measures, or the reason why both have none.

    None: this row has no such correlation.
    """
    names = [f"{measure}{scope}_{end}" for measure in MEASURES for end in ("low", "high")]
    if correlations is None:
        return {**dict.fromkeys(names), f"no_interval{scope}": "one relation"}
    reason = reason_against(len(set(subject)), int(right.sum()), int((1 - right).sum()))
    n_rarer = min(len(set(subject[right == outcome])) for outcome in (0, 1))
    intervals = [interval(values, reason, n_rarer) for values in correlations.T]
    reason = next((why for *_, why in intervals if why), None)
    ends = [None if reason else end for *both, _ in intervals for end in both]
    return {**dict(zip(names, ends, strict=True)), f"no_interval{scope}": reason}


def resample_correlations(
    relation: Values,
    subject: Values,
    popularity: Values,
    correct: Values,
    seed: int,
    n_resamples: int = N_RESAMPLES,
) -> Iterator[tuple[str, dict[str, Values]]]:
    """For each relation, then `all`: the correlations of each resample, resamples × measures × columns of `correct`.

    `relation` (n): empty for a question without one; it counts under `all`, and in no correlation within relations.
    `subject` (n): a number from 0; questions on one subject are drawn together. `popularity` (n): log10. `correct`
    (n × columns): 0 or 1, a column for each group of answers. `pooled` ignores relations; `within`, of `all` alone, is
    over deviations from the means of relations. nan: no variance.
    """
    weights = draws(int(subject.max()) + 1, n_resamples, np.random.default_rng(seed))[:, subject]
    within: Values = np.zeros((3, n_resamples, len(MEASURES), correct.shape[1]))
    for name in sorted(set(relation) - {""}):
        rows = np.flatnonzero(relation == name)
        sums = _sums(weights[:, rows], popularity[rows], correct[rows])
        within += sums
        yield str(name), {"pooled": _correlation(sums)}
    yield "all", {"pooled": _correlation(_sums(weights, popularity, correct)), "within": _correlation(within)}


def _sums(weights: Values, popularity: Values, correct: Values) -> Values:
    """Squares and products of deviations from the weighted means, summed: 3 × resamples × measures × columns.

    In this order: popularity squared, popularity times correctness, correctness squared.
    """
    order = np.argsort(popularity, kind="stable")
    popularity, correct = popularity[order] - popularity.mean(), correct[order]
    is_new = np.append(True, popularity[1:] != popularity[:-1])
    starts, level = np.flatnonzero(is_new), np.cumsum(is_new) - 1
    size = max(1, _CHUNK // len(order))
    return np.concatenate(
        [
            _sums_of_chunk(weights[at : at + size, order].astype(float), popularity, starts, level, correct)
            for at in range(0, len(weights), size)
        ],
        axis=1,
    )


def _sums_of_chunk(
    weights: Values, popularity: Values, starts: Values, level: Values, correct: Values
) -> Values:
    by_level = np.add.reduceat(weights, starts, axis=1)
    total = np.maximum(by_level.sum(axis=1, keepdims=True), 1)  # without any question all sums are 0
    rank = ((2 * np.cumsum(by_level, axis=1) - by_level - total) / total)[:, level]
    right = weights @ correct
    sums_of_products = np.empty((3, len(weights), len(MEASURES), correct.shape[1]))
    for at, values in enumerate((np.broadcast_to(popularity, rank.shape), rank)):
        weighted = weights * values
        sums = weighted.sum(axis=1, keepdims=True)
        sums_of_products[0, :, at] = (weighted * values).sum(axis=1, keepdims=True) - sums**2 / total
        sums_of_products[1, :, at] = weighted @ correct - sums * right / total
    sums_of_products[0, :, 0] *= (
        sums_of_products[0, :, 1] > 0
    )  # equal popularities have exactly equal ranks, but rounded logarithms
    sums_of_products[2] = (right - right**2 / total)[:, None]
    return sums_of_products


def _correlation(sums: Values) -> Values:
    squares = sums[0] * sums[2]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(squares > 0, sums[1] / np.sqrt(squares), np.nan)
