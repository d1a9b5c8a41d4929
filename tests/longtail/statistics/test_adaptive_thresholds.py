"""Thresholds by running sums equal those found by trying every candidate."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longtail.statistics.adaptive_thresholds import (
    IN_SAMPLE,
    MONTHLY_SCHEMA,
    SCHEMA,
    fit_months,
    fit_pair,
    fit_thresholds,
)

QUESTION = st.tuples(
    st.sampled_from(["father", "mother", "color"]),
    st.sampled_from([0.0, 1.0, 2.0, 5.0, 8.0, 20.0]),
    st.integers(0, 1),
    st.integers(0, 1),
    st.lists(st.booleans(), min_size=3, max_size=3),
)


def pair_of(
    rows: list[tuple[str, float, int, int, list[bool]]], edges: tuple[float, ...] = (0, 3, np.inf)
) -> tuple[Any, ...]:
    relation, popularity, parametric, retrieval, training = (
        list(values) for values in zip(*rows, strict=True)
    )
    return (
        np.array(relation, dtype=object), np.array(popularity), np.array(parametric), np.array(retrieval),
        np.array(training).T, dict.fromkeys([*relation, "all"], np.array(edges, dtype=float)),
    )  # fmt: skip


@settings(deadline=None)  # the first example compiles
@given(st.lists(QUESTION, min_size=1, max_size=25))
def test_every_fit_is_the_best_of_all_candidates(rows: list[tuple[str, float, int, int, list[bool]]]) -> None:
    pair = pair_of(rows, (0, 1.5, 4, 9, np.inf))
    for (relation, search), fitted in fit_pair(*pair).items():
        for split in range(3):
            mine = [row for row in rows if relation in (row[0], "all") and row[4][split]]
            assert fitted["n"][split] == len(mine)
            assert fitted["n_parametric"][split] == sum(row[2] for row in mine)
            assert fitted["n_retrieval"][split] == sum(row[3] for row in mine)
            if not mine:
                continue
            tried = pair[5]["all"] if search == "binned10" else [*sorted({row[1] for row in mine}), np.inf]
            right = [sum(row[3] if row[1] < limit else row[2] for row in mine) for limit in tried]
            assert fitted["threshold_popularity"][split] == tried[right.index(max(right))]
            assert fitted["gain"][split] == max(right) - right[0]
            assert fitted["n_retrieved"][split] == sum(
                row[1] < fitted["threshold_popularity"][split] for row in mine
            )


def test_rows_are_matched_to_splits_by_dataset_and_question() -> None:
    """The same ids in two datasets, rows in another order than splits, a relation that split 0 does not train on."""
    questions = [("d", "a", "father", 3.0), ("d", "b", "mother", 4.0), ("e", "a", "father", 7.0)]
    training = {("d", "a"): False, ("d", "b"): True, ("e", "a"): True}
    rows = pa.table({
        "pair_id": pa.array([1, 1, 2], pa.int32()), "dataset": [q[0] for q in questions],
        "question_id": [q[1] for q in questions], "relation": [q[2] for q in questions],
        "popularity": [q[3] for q in questions], "parametric": [0, 1, 0], "retrieval": [1, 0, 1],
    })  # fmt: skip
    splits = pa.table({
        "dataset": ["e", "d", "d"], "split": pa.array([0, 0, 0], pa.int32()), "question_id": ["a", "b", "a"],
        "is_training": [training["e", "a"], training["d", "b"], training["d", "a"]],
    })  # fmt: skip
    names = [(1, "father", 3.0), (1, "mother", 4.0), (1, "all", 3.0), (2, "father", 7.0), (2, "all", 7.0)]
    edges = pa.table({
        "pair_id": [pair for pair, _, _ in names for _ in (0, 1)],
        "relation": [relation for _, relation, _ in names for _ in (0, 1)],
        "threshold_popularity": [limit for _, _, low in names for limit in (low, np.inf)],
    })  # fmt: skip
    fitted = fit_thresholds(rows, splits, edges)
    assert fitted.schema == SCHEMA
    found = {
        (row["pair_id"], row["split"], row["relation"]): (row["threshold_popularity"], row["n"])
        for row in fitted.to_pylist()
        if row["search"] == "exact"
    }
    assert found == {
        (1, IN_SAMPLE, "father"): (np.inf, 1), (1, IN_SAMPLE, "mother"): (4, 1), (1, IN_SAMPLE, "all"): (4, 2),
        (1, 0, "mother"): (4, 1), (1, 0, "all"): (4, 1),
        (2, IN_SAMPLE, "father"): (np.inf, 1), (2, IN_SAMPLE, "all"): (np.inf, 1),
        (2, 0, "father"): (np.inf, 1), (2, 0, "all"): (np.inf, 1),
    }  # fmt: skip


def test_without_rows_there_are_no_thresholds() -> None:
    rows = pa.table({name: pa.array([], type_) for name, type_ in (
        ("pair_id", pa.int32()), ("dataset", pa.string()), ("question_id", pa.string()), ("relation", pa.string()),
        ("popularity", pa.float64()), ("parametric", pa.int32()), ("retrieval", pa.int32()),
    )})  # fmt: skip
    assert fit_thresholds(rows, rows, rows).num_rows == 0


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
