"""The interval of a share equals that of the marts: the cases of dbt's test, from statsmodels and scipy."""

from __future__ import annotations

import re

import pytest
from scipy import stats

from longtail.scoring.intervals import Z, design_effect, share_interval, student_quantile, wilson
from longtail.storage.home import PROJECT_ROOT

CASES = PROJECT_ROOT / "dbt/tests/macros/assert_intervals_of_subjects_are_right.sql"
_CASE = re.compile(r"\('([a-z ]+)', ([\d.]+|null), ([\d.]+|null), ([\d.]+), \[([^\]]*)\]\)")


@pytest.mark.parametrize(
    ("n_right", "n", "low", "high"),
    [
        (0, 10, 0.0, 0.2775327998628892),
        (10, 10, 0.7224672001371106, 1.0),
        (7, 10, 0.39677814746114537, 0.8922087325936989),
    ],
)
def test_wilson_is_that_of_statsmodels(n_right: int, n: int, low: float, high: float) -> None:
    assert wilson(n_right, n) == pytest.approx((low, high), abs=1e-12)


def test_shares_over_subjects_are_those_of_the_marts() -> None:
    cases = _CASE.findall(CASES.read_text(encoding="utf-8"))
    assert len(cases) == 9
    for name, low, high, deff, subjects in cases:
        correct, subject = [], []
        for number, (right, n) in enumerate(re.findall(r"y: (\d+), n: (\d+)", subjects)):
            correct += [1] * int(right) + [0] * (int(n) - int(right))
            subject += [number] * int(n)
        assert design_effect(correct, subject) == pytest.approx(float(deff)), name
        ends = None if low == "null" else pytest.approx((float(low), float(high)), abs=1e-7)
        assert share_interval(correct, subject) == ends, name


def test_the_quantile_is_that_of_the_macro() -> None:
    macro = (PROJECT_ROOT / "dbt/macros/intervals.sql").read_text(encoding="utf-8")
    assert f"z = {Z} " in macro


def test_students_quantiles_are_those_of_scipy() -> None:
    for degrees in (1, 2, 20, 21, 30, 100, 10_000):
        assert student_quantile(degrees) == pytest.approx(stats.t.ppf(0.975, degrees), abs=2e-7)
