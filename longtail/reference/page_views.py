"""Page views of articles in reference questions that are no entity of the lake: table reference_page_views.

Missing is not zero.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, date, datetime

import pyarrow as pa

from longtail.storage.fingerprints import code_version, fingerprint
from longtail.storage.lake import Computed, Lake, Outcome
from longtail.study.study import Study
from longtail.wikimedia import page_views
from longtail.wikimedia.page_views import check_months, fetch_months, materialise_months, page_views_slice

TABLE = "reference_page_views"


def ingest_reference_page_views(
    study: Study, lake: Lake, months: Sequence[str], log: logging.Logger, today: date | None = None
) -> list[Outcome]:
    """Write partitions of table reference_page_views; without such articles they are empty and no request is sent.

    Errors: `SourceError` for an incomplete month, or a live month without any views.
    """
    check_months(study, months, today or datetime.now(UTC).date())
    titles: list[str] = []
    if study.reference_questions:
        rows = lake.read("reference_mentions", columns=["entity_id", "article_title"]).to_pylist()
        titles = sorted(
            {row["article_title"] for row in rows if row["article_title"] and not row["entity_id"]}
        )
    stamps = {
        month: fingerprint(
            TABLE,
            month,
            titles,
            page_views_slice(study, month, len(titles)),
            code_version(__name__, without=[page_views.__name__]),
        )
        for month in months
    }
    return materialise_months(
        study, lake, TABLE, stamps, lambda stale, stage: _fetch(study, titles, stale, stage, log)
    )


def _fetch(
    study: Study, titles: Sequence[str], months: Sequence[str], stage: str, log: logging.Logger
) -> dict[str, Computed]:
    if not titles:
        return {month: Computed([]) for month in months}
    named = pa.table({"article_title": pa.array(titles, pa.string())})
    return fetch_months(study, TABLE, named, months, stage, log)
