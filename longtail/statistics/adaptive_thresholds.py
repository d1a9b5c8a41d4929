"""Thresholds of adaptive retrieval on popularity: for every pair of methods, split, relation and search; and by month.

The fit is not SQL, because a running sum for each of 100 splits needs a sort per split there.

The best candidate is the one with most right answers on the fitting rows, or the lowest of several equal ones
(`signal_policies.thresholds`). The candidates of binned10 are edges of bins: the best one is the upper edge of the last
bin with a row that is worth retrieving. If nothing is gained, the threshold is never.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from longtail.statistics.resampling import Values
from longtail.statistics.signal_policies import ALL, thresholds

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


Fit = dict[str, Values]
"""The columns of `SCHEMA` from `threshold_popularity` on, one element per split. If `n` is 0, nothing was fitted.

`n_retrieved`: the number of fitted rows below the threshold; 0 means never, `n` means always.
"""


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
            of_pair = edges.filter(pc.field("pair_id") == pair_id)
            of_relation, candidate = (
                of_pair[name].to_numpy() for name in ("relation", "threshold_popularity")
            )
            candidates = {name: np.sort(candidate[of_relation == name]) for name in set(of_relation)}
            fits = fit_pair(relation, popularity, parametric, retrieval, training[:, places], candidates)
            tables += [_table(pair_id, numbers, *names, fitted) for names, fitted in fits.items()]
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


def _table(pair_id: int, numbers: Values, relation: str, search: str, fitted: Fit) -> pa.Table:
    is_fitted = fitted["n"] > 0
    n = int(is_fitted.sum())
    columns = [
        np.full(n, pair_id), numbers[is_fitted], pa.repeat(relation, n), pa.repeat(search, n),
        *(fitted[name][is_fitted] for name in SCHEMA.names[4:]),
    ]  # fmt: skip
    arrays = [pa.array(values).cast(field.type) for values, field in zip(columns, SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def fit_pair(
    relation: Values, popularity: Values, parametric: Values, retrieval: Values, training: Values,
    edges: Mapping[str, Values],
) -> dict[tuple[str, str], Fit]:  # fmt: skip
    """The thresholds of one pair of methods, by (relation or all, search).

    The first four have an element for each question: `relation` is empty if a question has none, which then counts in
    the threshold for all alone; `parametric` and `retrieval` are 1 if that answer is right. `training` (splits ×
    questions) says which questions a split fits on. `edges`: the candidates of binned10 for each relation and for all,
    ascending.
    """
    fits = {}
    right, right_with = parametric.astype(np.int64), retrieval.astype(np.int64)
    for name in [*map(str, sorted({*relation} - {NO_RELATION})), ALL]:
        rows = np.full(len(relation), True) if name == ALL else relation == name
        views, is_fitted, difference = popularity[rows], training[:, rows], (right_with - right)[rows]
        gained = [is_fitted * difference]
        (exact,) = thresholds(np.broadcast_to(views, is_fitted.shape), is_fitted, gained)
        bins = np.searchsorted(edges[name], views, side="right")
        (above,) = thresholds(np.broadcast_to(bins, is_fitted.shape), is_fitted, gained)
        last_bin = np.where(is_fitted & (bins < above[:, None]), bins, 0).max(axis=1, initial=0)
        for search, threshold in (("exact", exact), ("binned10", edges[name][last_bin])):
            retrieved = is_fitted & (views < threshold[:, None])
            fits[name, search] = {
                "threshold_popularity": threshold, "gain": retrieved @ difference,
                "n_retrieved": retrieved.sum(axis=1), "n": is_fitted.sum(axis=1),
                "n_parametric": is_fitted @ right[rows], "n_retrieval": is_fitted @ right_with[rows],
            }  # fmt: skip
    return fits


def fit_months(rows: pa.Table, monthly: pa.Table, of_window: pa.Table) -> pa.Table:
    """Thresholds if popularity were one month's views, and how decisions by them differ from those by the window's.

    One row per (pair_id, month) with at least one question that has views and both answers, in `MONTHLY_SCHEMA`.
    `rows`: pair_id, dataset, question_id, popularity, parametric, retrieval. `monthly`: dataset, month, question_id,
    month_popularity. `of_window`: pair_id, threshold_popularity; pairs without one are left out.
    """
    views = monthly.filter(pc.field("month_popularity").is_valid())
    views = views.select(["dataset", "month", "question_id", "month_popularity"])
    asked = rows.select(["pair_id", "dataset", "question_id", *_READ])
    compared = []
    for limit in of_window.to_pylist():
        of_pair = asked.filter(pc.field("pair_id") == limit["pair_id"])
        counted = views.join(of_pair, ["dataset", "question_id"], join_type="inner")
        for month in pc.unique(counted["month"]).sort().to_pylist():
            in_month = counted.filter(pc.field("month") == month)
            shares = _compare_month(in_month, limit["threshold_popularity"])
            compared.append({"pair_id": limit["pair_id"], "month": month, **shares})
    return pa.Table.from_pylist(compared, schema=MONTHLY_SCHEMA)


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
