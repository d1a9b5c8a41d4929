"""Months of page views: the first one there is, and the newest."""

from __future__ import annotations

from datetime import date, timedelta

FIRST_MONTH = "2015-07"  # Wikimedia's page views begin here
_COUNTING_DAYS = 2


def newest_complete_month(today: date) -> str:
    """The newest month (YYYY-MM) that a live service has counted: it is complete from day 3 of the next month.

    Wikimedia counts a month's last days late. Before that, it answers with too few views, or none.
    """
    return newest_ended_month(today - timedelta(days=_COUNTING_DAYS))


def newest_ended_month(today: date) -> str:
    """The last month (YYYY-MM) that has ended, even if its views are not counted yet."""
    return f"{today.year - 1}-12" if today.month == 1 else f"{today.year}-{today.month - 1:02d}"
