"""The bootstrap over facts: ratios of sums, drawn within relations, averaged over them."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dagster_project.core.statistics.factual_consistency import bootstrap_facts
from dagster_project.core.statistics.resampling import resampled_ratios

LOG = logging.getLogger("test")
SCHEMA = pa.schema([
    *((name, pa.string()) for name in ("dataset", "prompt", "model", "method", "relation")),
    ("bin", pa.int32()), ("measure", pa.string()),
    *((name, pa.list_(pa.float64())) for name in ("numerator", "denominator")),
])  # fmt: skip


def row(relation: str, numerator: list[float], denominator: list[float], **more: Any) -> dict[str, Any]:
    return {
        "dataset": "d", "prompt": "p", "model": "m", "method": "closed_book", "relation": relation, "bin": None,
        "measure": "consistency", "numerator": numerator, "denominator": denominator, **more,
    }  # fmt: skip


def intervals(by_relation: list[dict[str, Any]], by_bin: list[dict[str, Any]]) -> dict[Any, tuple[Any, ...]]:
    tables = [pa.Table.from_pylist(rows, schema=SCHEMA) for rows in (by_relation, by_bin)]
    found = bootstrap_facts(tables, 0, LOG)["factual_consistency_intervals"]
    return {
        (one["relation"], one["bin"], one["measure"]): (one["value_low"], one["value_high"], one["undefined"])
        for one in found
    }


def test_facts_that_do_not_differ_have_an_interval_without_width() -> None:
    few = row("P3", [1.0] * 4, [2.0] * 4)
    found = intervals([row("P1", [1.0] * 9, [4.0] * 9), row("P2", [3.0] * 5, [4.0] * 5), few], [])
    assert found["P1", None, "consistency"] == pytest.approx((0.25, 0.25, None))
    assert found["P2", None, "consistency"] == pytest.approx((0.75, 0.75, None))
    assert found["P3", None, "consistency"] == (None, None, "fewer than five facts")
    assert found["all", None, "consistency"] == pytest.approx((0.5, 0.5, None))


def test_a_measure_that_few_resamples_have_is_undefined_and_in_no_mean() -> None:
    rare = row("P2", [1.0] + [0.0] * 9, [1.0] + [0.0] * 9)
    found = intervals([row("P1", [1.0] * 9, [4.0] * 9), rare, row("P3", [0.0] * 4, [0.0] * 4)], [])
    assert found["P2", None, "consistency"] == (None, None, "fewer than five facts")
    assert found["P3", None, "consistency"] == (None, None, "fewer than five facts")
    low, high, undefined = found["all", None, "consistency"]
    assert (low, undefined) == (0.25, None)  # P1 alone, where no resample of P2 has a value
    assert high == pytest.approx((0.25 + 1) / 2)


def test_a_pattern_counts_in_a_resample_that_draws_a_fact_for_which_it_is_right() -> None:
    always, once, never = [1.0] * 6, [1.0] + [0.0] * 5, [0.0] * 6
    patterns = [row("P1", own, [1.0] * 6, measure="pattern_any_right") for own in (always, once, never)]
    found = intervals([*patterns, row("P1", [1.0] * 6, [4.0] * 6)], [])
    assert found["P1", None, "pattern_any_right"] == pytest.approx((1 / 3, 2 / 3, None))
    assert found["all", None, "pattern_any_right"] == pytest.approx((1 / 3, 2 / 3, None))
    assert len(found) == 4


def test_bins_have_rows_of_their_own_and_every_row_keeps_its_measure() -> None:
    measures = [row("all", [float(i)] * 6, [4.0] * 6, bin=i // 2, measure=f"m{i}") for i in range(4)]
    found = intervals([row("P1", [1.0], [1.0])], measures)
    assert {key: value[0] for key, value in found.items() if key[1] is not None} == {
        ("all", i // 2, f"m{i}"): i / 4 for i in range(4)
    }


def test_the_interval_of_a_share_is_as_wide_as_its_binomial() -> None:
    right = np.array([1.0] * 60 + [0.0] * 140)[:, None]
    values = resampled_ratios(right, np.ones_like(right), 7, 1_000)[:, 0]
    assert values.mean() == pytest.approx(0.3, abs=0.01)
    assert values.std() == pytest.approx((0.3 * 0.7 / 200) ** 0.5, rel=0.1)
    again = resampled_ratios(right, np.ones_like(right), 7, 1_000)[:, 0]
    assert again.tolist() == values.tolist()
