"""Thresholds of adaptive retrieval on popularity: for every pair of methods, split, relation and search; and by month.

The fit is not SQL, because a running sum for each of 100 splits needs a sort per split there.

The best candidate is the one with most right answers on the fitting rows, or the lowest of several equal ones
(`signal_policies.thresholds`). The candidates of binned10 are edges of bins: the best one is the upper edge of the last
bin with a row that is worth retrieving. If nothing is gained, the threshold is never.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from longtail.statistics.resampling import Values
from longtail.statistics.signal_policies import thresholds

IN_SAMPLE = -1
"""The split with every row: its thresholds are in-sample."""

SCHEMA = pa.schema([
    *((name, pa.int32()) for name in ("pair_id", "split")),
    *((name, pa.string()) for name in ("relation", "search")),
    ("threshold_popularity", pa.float64()),
    *((name, pa.int64()) for name in ("gain", "n_retrieved", "n", "n_parametric", "n_retrieval")),
])  # fmt: skip
MONTHLY_SCHEMA = pa.schema([
    ("pair_id", pa.int32()),
    ("month", pa.string()),
    ("threshold_popularity", pa.float64()),
    ("n", pa.int64()),
    *((f"share_{name}", pa.float64()) for name in ("retrieved_month", "retrieved_window", "decision_changed")),
])  # fmt: skip

NO_RELATION = ""
_READ = ("popularity", "parametric", "retrieval")


@dataclass(frozen=True)
class PairRows:
    """The questions of one pair of methods: arrays of equal length, one element per question.

    `relation` is empty if a question has none. `parametric` and `retrieval` are 1 if that answer is right. `training`
    (splits × questions) says which questions a split fits on. `edges`: the candidates of binned10 for each relation and
    for `all`, ascending.
    """

    relation: Values
    popularity: Values
    parametric: Values
    retrieval: Values
    training: Values
    edges: dict[str, Values]


@dataclass(frozen=True)
class Fitted:
    """Thresholds of one (relation or all, search): arrays with one element per split. If `n` is 0, nothing was fitted.

    `n_retrieved`: the number of fitted rows below the threshold; 0 means never, `n` means always.
    """

    relation: str
    search: str
    threshold_popularity: Values
    gain: Values
    n_retrieved: Values
    n: Values
    n_parametric: Values
    n_retrieval: Values


def fit_thresholds(rows: pa.Table, splits: pa.Table, edges: pa.Table) -> pa.Table:
    """All thresholds, one row per (pair_id, split, relation, search), in `SCHEMA`.

    `rows`: pair_id, dataset, question_id, relation, popularity, parametric, retrieval. `splits`: dataset, split,
    question_id, is_training, every question of `rows` in every split. `edges`: pair_id, relation,
    threshold_popularity.
    """
    tables = [SCHEMA.empty_table()]
    for dataset in pc.unique(rows["dataset"]).to_pylist():
        questions, numbers, training = _training(splits.filter(pc.field("dataset") == dataset))
        rows_of_dataset = rows.filter(pc.field("dataset") == dataset)
        for pair_id in pc.unique(rows_of_dataset["pair_id"]).to_pylist():
            asked = rows_of_dataset.filter(pc.field("pair_id") == pair_id)
            places = pc.index_in(asked["question_id"], value_set=questions).to_numpy()
            relation = asked["relation"].fill_null(NO_RELATION).to_numpy()
            popularity, parametric, retrieval = (asked[name].to_numpy() for name in _READ)
            candidates = _edges(edges.filter(pc.field("pair_id") == pair_id))
            pair = PairRows(relation, popularity, parametric, retrieval, training[:, places], candidates)
            tables += [_table(pair_id, numbers, fitted) for fitted in fit_pair(pair)]
    return pa.concat_tables(tables)


def _training(splits: pa.Table) -> tuple[pa.Array, Values, Values]:
    """The questions of a dataset, the numbers of its splits, and splits × questions: whether the split fits on it."""
    questions = pc.unique(splits["question_id"])
    column = pc.index_in(splits["question_id"], value_set=questions).to_numpy()
    split = splits["split"].to_numpy()
    numbers = np.concatenate([[IN_SAMPLE], np.unique(split)])
    training = np.zeros((len(numbers), len(questions)), dtype=bool)
    training[0] = True
    training[np.searchsorted(numbers, split), column] = splits["is_training"].to_numpy()
    return questions, numbers, training


def _edges(edges: pa.Table) -> dict[str, Values]:
    relation, candidate = edges["relation"].to_numpy(), edges["threshold_popularity"].to_numpy()
    return {name: np.sort(candidate[relation == name]) for name in set(relation)}


def _table(pair_id: int, numbers: Values, fitted: Fitted) -> pa.Table:
    is_fitted = fitted.n > 0
    n = int(is_fitted.sum())
    columns = [
        np.full(n, pair_id), numbers[is_fitted], pa.repeat(fitted.relation, n), pa.repeat(fitted.search, n),
        *(getattr(fitted, name)[is_fitted] for name in SCHEMA.names[4:]),
    ]  # fmt: skip
    arrays = [pa.array(values).cast(field.type) for values, field in zip(columns, SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def fit_pair(pair: PairRows) -> Iterator[Fitted]:
    """The thresholds of one pair: for each relation and for all, by each search.

    Questions without a relation have no threshold of their own; they count in the one for all.
    """
    for name in sorted({*pair.relation} - {NO_RELATION}):
        yield from _fit(pair, str(name), pair.relation == name)
    yield from _fit(pair, "all", np.full(len(pair.relation), True))


def _fit(pair: PairRows, relation: str, rows: Values) -> Iterator[Fitted]:
    popularity, training, edges = pair.popularity[rows], pair.training[:, rows], pair.edges[relation]
    parametric, retrieval = (right[rows].astype(np.int64) for right in (pair.parametric, pair.retrieval))
    counts = training.sum(axis=1), training @ parametric, training @ retrieval
    gained = [training * (retrieval - parametric)]
    (exact,) = thresholds(np.broadcast_to(popularity, training.shape), training, gained)
    bins = np.searchsorted(edges, popularity, side="right")
    (above,) = thresholds(np.broadcast_to(bins, training.shape), training, gained)
    last_bin = np.where(training & (bins < above[:, None]), bins, 0).max(axis=1, initial=0)
    for search, threshold in (("exact", exact), ("binned10", edges[last_bin])):
        retrieved = training & (popularity < threshold[:, None])
        gain = retrieved @ (retrieval - parametric)
        yield Fitted(relation, search, threshold, gain, retrieved.sum(axis=1), *counts)


def fit_months(rows: pa.Table, monthly: pa.Table, of_window: pa.Table) -> pa.Table:
    """Thresholds if popularity were one month's views, and how decisions by them differ from those by the window's.

    One row per (pair_id, month) with at least one question that has views and both answers, in `MONTHLY_SCHEMA`.
    `rows`: pair_id, dataset, question_id, popularity, parametric, retrieval. `monthly`: dataset, month, question_id,
    month_popularity. `of_window`: pair_id, threshold_popularity; pairs without one are left out.
    """
    views = monthly.filter(pc.field("month_popularity").is_valid())
    views = views.select(["dataset", "month", "question_id", "month_popularity"])
    asked = rows.select(["pair_id", "dataset", "question_id", *_READ])
    found = []
    for limit in of_window.to_pylist():
        of_pair = asked.filter(pc.field("pair_id") == limit["pair_id"])
        counted = views.join(of_pair, ["dataset", "question_id"], join_type="inner")
        for month in pc.unique(counted["month"]).sort().to_pylist():
            compared = _compare_month(
                counted.filter(pc.field("month") == month), limit["threshold_popularity"]
            )
            found.append({"pair_id": limit["pair_id"], "month": month, **compared})
    return pa.Table.from_pylist(found, schema=MONTHLY_SCHEMA)


def _compare_month(counted: pa.Table, window_threshold: float) -> dict[str, Any]:
    """`counted`: the questions that have views in the month."""
    views, popularity, parametric, retrieval = (
        counted[name].to_numpy() for name in ("month_popularity", *_READ)
    )
    gained = (retrieval - parametric)[None]
    ((threshold,),) = thresholds(views[None], np.ones(gained.shape, dtype=bool), [gained])
    by_month, by_window = views < threshold, popularity < window_threshold
    return {
        "threshold_popularity": float(threshold), "n": len(views), "share_retrieved_month": float(by_month.mean()),
        "share_retrieved_window": float(by_window.mean()),
        "share_decision_changed": float((by_month != by_window).mean()),
    }  # fmt: skip
