"""Wilson's interval in Python is the one of dbt's macro: the same cases, from statsmodels."""

from __future__ import annotations

import pytest

from dagster_project.core.scoring.intervals import Z, wilson
from dagster_project.core.storage.home import PROJECT_ROOT

MACROS = PROJECT_ROOT / "dbt"


@pytest.mark.parametrize(
    ("n_right", "n", "low", "high"),
    [
        (0, 10, 0.0, 0.2775327998628892),
        (10, 10, 0.7224672001371106, 1.0),
        (7, 10, 0.39677814746114537, 0.8922087325936989),
        (1, 1, 0.2065493143772375, 1.0),
    ],
)
def test_wilson_is_that_of_the_marts(n_right: int, n: int, low: float, high: float) -> None:
    assert wilson(n_right, n) == pytest.approx((low, high), abs=1e-12)
    case = f"({n_right}, {n}, {low}, {high})"
    assert case in (MACROS / "tests/macros/assert_wilson_is_right.sql").read_text(encoding="utf-8")


def test_the_quantile_is_that_of_the_macro() -> None:
    assert f"'{Z}::double'" in (MACROS / "macros/wilson.sql").read_text(encoding="utf-8")
