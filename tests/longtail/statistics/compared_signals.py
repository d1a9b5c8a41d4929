"""The results of retrieval by predicted correctness for hand-made questions, and the interval of a gain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from longtail.statistics.adaptive_signals import RESULTS, compare_signals
from longtail.statistics.results import MADE_FROM
from longtail.statistics.signal_quality import SIGNALS

KEY = {"dataset": "d", "prompt": "p", "model": "m", "parametric_method": "closed_book"}
N_SPLITS = 12
Row = dict[str, Any]


def written(*rows: Row, n_splits: int = N_SPLITS, training_share: float = 0.75) -> dict[str, list[Row]]:
    """The rows of all results."""
    ids = sorted({one for row in rows for one in row["question_id"]})
    rng = np.random.default_rng(0)
    trains = [np.flatnonzero(rng.random(n_splits) < training_share).tolist() for _ in ids]
    splits = pa.table({"dataset": ["d"] * len(ids), "question_id": ids, "trains": trains})
    n = pa.table({"dataset": ["d"], "n": [n_splits]})
    return by_result(compare_signals([questions_of(rows)], splits, n, decisions_of({}), 0), RESULTS)


def by_result(table: pa.Table, results: Sequence[str]) -> dict[str, list[Row]]:
    """The rows of a statistic by the result that they belong to, without what they were made from."""
    rows = table.drop_columns([MADE_FROM]).to_pylist()
    assert {row["result"] for row in rows} <= {*results}
    return {result: [row for row in rows if row["result"] == result] for result in results}


def questions_of(rows: Sequence[Row]) -> pa.Table:
    """The questions of pairs, whose lists have a value for each; nan is unknown. Each is about its own subject."""
    unknown = dict.fromkeys(SIGNALS)
    questions = [
        {name: value[at] if isinstance(value, list) else value for name, value in row.items()}
        for row in ({**unknown, "cluster_id": row["question_id"], **row} for row in rows)
        for at in range(len(row["question_id"]))
    ]
    return pa.Table.from_pylist(
        [{name: None if value != value else value for name, value in one.items()} for one in questions]
    )


def decisions_of(others: Mapping[str, Mapping[str, bool | float]]) -> pa.Table:
    """Policy → question → decision or score."""
    rows = [
        {"dataset": "d", "policy": policy, "question_id": one, "retrieves": said if isinstance(said, bool) else None,
         "score": None if isinstance(said, bool) else said}
        for policy, of_policy in others.items() for one, said in of_policy.items()
    ]  # fmt: skip
    texts = [(name, pa.string()) for name in ("dataset", "policy", "question_id")]
    return pa.Table.from_pylist(
        rows, schema=pa.schema([*texts, ("retrieves", pa.bool_()), ("score", pa.float64())])
    )


def interval(row: Row) -> tuple[float, float]:
    half = 1.96 * np.sqrt(row["gain_standard_error"] ** 2 + row["variance_of_splits"])
    return row["gain"] - half, row["gain"] + half
