"""The monthly refresh names the complete month."""

from __future__ import annotations

import datetime

import pytest

from dagster_project.defs.schedules import last_complete_month


@pytest.mark.parametrize(
    ("day", "month"),
    [
        ("2026-11-03", "2026-10"),
        ("2026-01-03", "2025-12"),
        ("2024-03-31", "2024-02"),
        ("2026-10-01", "2026-09"),
    ],
)
def test_the_month_before(day: str, month: str) -> None:
    assert last_complete_month(datetime.datetime.fromisoformat(day)) == month
