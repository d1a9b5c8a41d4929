"""Thresholds of adaptive retrieval if popularity were one month's views, and which questions would then be retrieved.

The calculation is not SQL, because SQL needs a sort per pair and month, and this code one sort per month.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from longtail.statistics.resampling import Values

SCHEMA = pa.schema([
    ("pair_id", pa.int32()),
    ("month", pa.string()),
    ("threshold_popularity", pa.float64()),
    ("n", pa.int64()),
    *((f"share_{name}", pa.float64()) for name in ("retrieved_month", "retrieved_window", "decision_changed")),
])  # fmt: skip


@dataclass(frozen=True)
class Month:
    """A month's views of a dataset's questions that have views, and their positions, in the order of views."""

    month: str
    places: Values
    views: Values


def fit_months(rows: pa.Table, monthly: pa.Table, thresholds: pa.Table) -> pa.Table:
    """One row per (pair_id, month) with at least one question that has views and both answers, in `SCHEMA`.

    `rows`: pair_id, dataset, question_id, popularity, parametric, retrieval. `monthly`: dataset, month, question_id,
    month_popularity. `thresholds`: pair_id, threshold_popularity of the window; pairs without one are left out.
    """
    window = dict(
        zip(thresholds["pair_id"].to_pylist(), thresholds["threshold_popularity"].to_pylist(), strict=True)
    )
    found: list[dict[str, Any]] = []
    for dataset in pc.unique(monthly["dataset"]).to_pylist():
        of_dataset = monthly.filter(pc.field("dataset") == dataset)
        questions = pc.unique(of_dataset["question_id"])
        months = list(_months(of_dataset, questions))
        mine = rows.filter(pc.field("dataset") == dataset)
        for pair_id in pc.unique(mine["pair_id"]).to_pylist():
            own = mine.filter(pc.field("pair_id") == pair_id)
            if pair_id in window and len(own):
                found += _of_pair(pair_id, own, questions, months, window[pair_id])
    return pa.Table.from_pylist(found, schema=SCHEMA)


def _months(monthly: pa.Table, questions: pa.Array) -> Iterator[Month]:
    for month in pc.unique(monthly["month"]).to_pylist():
        one = monthly.filter((pc.field("month") == month) & pc.field("month_popularity").is_valid())
        places = pc.index_in(one["question_id"], value_set=questions).to_numpy()
        views = one["month_popularity"].to_numpy()
        order = np.argsort(views, kind="stable")
        yield Month(month, places[order], views[order])


def _of_pair(
    pair_id: int, own: pa.Table, questions: pa.Array, months: list[Month], window: float
) -> Iterator[dict[str, Any]]:
    asked = pc.index_in(own["question_id"], value_set=questions).to_numpy()
    is_asked, by_window = np.zeros((2, len(questions)), dtype=bool)
    gain = np.zeros(len(questions), dtype=np.int64)
    is_asked[asked] = True
    by_window[asked] = own["popularity"].to_numpy() < window
    gain[asked] = own["retrieval"].to_numpy() - own["parametric"].to_numpy()
    for month in months:
        kept = is_asked[month.places]
        places, views = month.places[kept], month.views[kept]
        if not len(places):
            continue
        threshold = best_threshold(views, gain[places])
        by_month = views < threshold
        yield {
            "pair_id": pair_id,
            "month": month.month,
            "threshold_popularity": threshold,
            "n": len(places),
            "share_retrieved_month": float(by_month.mean()),
            "share_retrieved_window": float(by_window[places].mean()),
            "share_decision_changed": float((by_month != by_window[places]).mean()),
        }


def best_threshold(popularity: Values, gain: Values) -> float:
    """The threshold on ascending `popularity` with the greatest gain from retrieving below it, the lowest of equal ones.

    `gain` is 1 if only retrieval is right, -1 if only memory is right. Infinity means always. The lowest popularity
    means never, which is also the result if no gain is above 0.
    """
    last = np.flatnonzero(np.append(popularity[1:] != popularity[:-1], True))
    gained = np.cumsum(gain)[last]
    level = int(gained.argmax())
    if gained[level] <= 0:
        return float(popularity[0])
    return float(popularity[last[level + 1]]) if level + 1 < len(last) else float("inf")
