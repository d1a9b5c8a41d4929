"""The months over which a study's popularity is the mean."""

from __future__ import annotations

from datetime import UTC, datetime

from longtail.study.months import newest_complete_month, newest_ended_month
from longtail.study.study import Study


def window(study: Study) -> tuple[str, ...]:
    """The months (YYYY-MM) of the popularity window, oldest first.

    If the study names no last month, it is the newest complete one.
    """
    newest = newest_ended_month if study.source.kind == "sandbox" else newest_complete_month
    last = study.popularity.last_month or newest(datetime.now(UTC).date())
    end = int(last[:4]) * 12 + int(last[5:])
    months = range(end - study.popularity.n_months, end)
    return tuple(f"{month // 12:04d}-{month % 12 + 1:02d}" for month in months)
