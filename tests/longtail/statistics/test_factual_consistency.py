"""The bootstrap over the subjects of facts: ratios of sums, averaged over relations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from longtail.statistics.factual_consistency import bootstrap_facts
from longtail.statistics.resampling import resample_ratios

SCHEMA = pa.schema([
    *((name, pa.string()) for name in ("dataset", "prompt", "model", "method", "relation")),
    ("bin", pa.int32()), ("measure", pa.string()), ("n_drawn", pa.int64()), ("subject", pa.list_(pa.int64())),
    *((name, pa.list_(pa.float64())) for name in ("numerator", "denominator")),
])  # fmt: skip


def row(
    relation: str,
    numerator: list[float],
    denominator: list[float],
    subject: list[int] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """The sums of subjects, of which there are 60."""
    return {
        "dataset": "d", "prompt": "p", "model": "m", "method": "closed_book", "relation": relation, "bin": None,
        "measure": "consistency", "n_drawn": 60, "subject": subject or [*range(1, len(numerator) + 1)],
        "numerator": numerator, "denominator": denominator, **more,
    }  # fmt: skip


def intervals(by_relation: list[dict[str, Any]], by_bin: list[dict[str, Any]]) -> dict[Any, dict[str, Any]]:
    tables = [pa.Table.from_pylist(rows, schema=SCHEMA) for rows in (by_relation, by_bin)]
    found = bootstrap_facts(*tables, 0).to_pylist()
    return {(one["relation"], one["bin"], one["measure"]): one for one in found}


def test_no_interval_is_without_width_or_over_few_subjects() -> None:
    few = row("P3", [1.0, 2.0] * 9 + [1.0], [2.0] * 19)
    found = intervals([row("P1", [1.0] * 29, [4.0] * 29), row("P2", [1.0, 2.0] * 10, [2.0] * 20), few], [])
    reasons = {relation: one["no_interval"] for (relation, _, _), one in found.items()}
    assert reasons == {
        "P1": "all resamples are equal",
        "P2": None,
        "P3": "fewer than 20 subjects",
        "all": None,
    }
    assert [found[name, None, "consistency"]["n_subjects"] for name in ("P1", "P2", "P3", "all")] == [
        29,
        20,
        19,
        29,
    ]
    assert found["P1", None, "consistency"]["value_low"] is None


def test_subjects_below_the_line_alone_count() -> None:
    rare = row("P2", [1.0, 0.0] * 10 + [0.0] * 9, [1.0] * 20 + [0.0] * 9)
    found = intervals([rare, row("P3", [0.0] * 40, [0.0] * 40)], [])
    assert found["P2", None, "consistency"]["n_subjects"] == 20
    assert found["P3", None, "consistency"]["no_interval"] == "fewer than 20 subjects"
    assert found["all", None, "consistency"]["n_subjects"] == 20, "a relation without a value is in no mean"


def test_a_subject_is_drawn_with_its_facts_of_all_relations() -> None:
    """Two relations with opposite values of the same 30 subjects: their mean does not vary, but with other subjects."""
    values = [1.0, 0.0] * 15
    first, second = row("P1", values, [1.0] * 30), row("P2", [1 - one for one in values], [1.0] * 30)
    same = intervals([first, second], [])["all", None, "consistency"]
    others = intervals([first, {**second, "subject": [*range(31, 61)]}], [])["all", None, "consistency"]
    assert same["no_interval"] == "all resamples are equal"
    assert (same["n_subjects"], others["n_subjects"]) == (30, 60)
    assert others["value_low"] < 0.45 < 0.55 < others["value_high"]


def test_bins_have_rows_of_their_own_and_every_row_keeps_its_measure() -> None:
    values = np.random.default_rng(0).uniform(0, 1, 40)
    measures = [row("all", [*(i + values)], [4.0] * 40, bin=i // 2, measure=f"m{i}") for i in range(4)]
    found = intervals([row("P1", [1.0], [1.0])], measures)
    for i in range(4):
        own = found["all", i // 2, f"m{i}"]
        assert own["value_low"] < (i + values.mean()) / 4 < own["value_high"]


def test_the_interval_of_a_share_is_as_wide_as_its_binomial() -> None:
    right = np.array([1.0] * 60 + [0.0] * 140)[:, None]
    values = resample_ratios(right, np.ones_like(right), 7, 1_000)[:, 0]
    assert values.mean() == pytest.approx(0.3, abs=0.01)
    assert values.std() == pytest.approx((0.3 * 0.7 / 200) ** 0.5, rel=0.1)
    again = resample_ratios(right, np.ones_like(right), 7, 1_000)[:, 0]
    assert again.tolist() == values.tolist()
