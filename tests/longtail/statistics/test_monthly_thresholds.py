"""Thresholds by one month's views; decisions compared question by question."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

from longtail.statistics.adaptive_thresholds import MONTHLY_SCHEMA, fit_months

ROWS = pa.Table.from_pylist([
    {"pair_id": 1, "dataset": "d", "question_id": "a", "popularity": 1.0, "parametric": 0, "retrieval": 1},
    {"pair_id": 1, "dataset": "d", "question_id": "b", "popularity": 5.0, "parametric": 1, "retrieval": 0},
    {"pair_id": 1, "dataset": "d", "question_id": "c", "popularity": 6.0, "parametric": 0, "retrieval": 1},
    {"pair_id": 1, "dataset": "d", "question_id": "e", "popularity": 2.0, "parametric": 1, "retrieval": 1},
    {"pair_id": 2, "dataset": "d", "question_id": "e", "popularity": 2.0, "parametric": 0, "retrieval": 1},
    {"pair_id": 3, "dataset": "other", "question_id": "a", "popularity": 2.0, "parametric": 0, "retrieval": 1},
])  # fmt: skip
WINDOW = pa.table({"pair_id": [1, 2, 3], "threshold_popularity": [5.0, math.inf, math.inf]})


def months(**views: list[float | None]) -> pa.Table:
    """Month → views of the questions a, b, c, e, and of f, which has no answers."""
    rows = [
        {"dataset": "d", "month": month, "question_id": question, "month_popularity": n}
        for month, counted in views.items()
        for question, n in zip("abcef", counted, strict=True)
    ]
    columns = [("dataset", pa.string()), ("month", pa.string()), ("question_id", pa.string())]
    return pa.Table.from_pylist(rows, schema=pa.schema([*columns, ("month_popularity", pa.float64())]))


def found(monthly: pa.Table, pair_id: int) -> list[tuple[object, ...]]:
    table = fit_months(ROWS, monthly, WINDOW)
    assert table.schema == MONTHLY_SCHEMA
    return [tuple(row.values())[1:] for row in table.to_pylist() if row["pair_id"] == pair_id]


def test_decisions_are_compared_under_each_ones_own_threshold() -> None:
    """Rising: a +1, e 0, b -1, c +1: the gain is 1 after a already. By the window a and e are retrieved."""
    monthly = months(m=[0, 7, 9, 3, 1])
    assert found(monthly, 1) == [("m", 3.0, 4, 0.25, 0.5, 0.25)]
    assert found(monthly, 2) == [("m", math.inf, 1, 1.0, 1.0, 0.0)]


def test_ties_share_a_side_missing_views_are_left_out_and_nothing_gained_is_never() -> None:
    """m: a and b tie and gain nothing together, c gains alone. never: b alone loses. none: no views at all."""
    monthly = months(m=[0, 0, 9, None, 5], never=[None, 8, None, None, 1], none=[None] * 5)
    assert found(monthly, 1) == [
        ("m", math.inf, 3, 1.0, pytest.approx(1 / 3), pytest.approx(2 / 3)),
        ("never", 8.0, 1, 0.0, 0.0, 0.0),
    ]
    assert found(monthly, 2) == []


def test_without_rows_or_months_there_is_an_empty_table() -> None:
    assert fit_months(ROWS, months(), WINDOW).num_rows == 0
    assert fit_months(ROWS.slice(0, 0), months(m=[1, 2, 3, 4, 5]), WINDOW).num_rows == 0
    assert fit_months(ROWS, months(m=[1, 2, 3, 4, 5]), WINDOW.slice(0, 0)).schema == MONTHLY_SCHEMA
