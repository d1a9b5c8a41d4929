"""Page views of articles that reference questions name and the lake has no entity of: table reference_page_views.

What belongs here: which titles are asked for. What does not: asking (`wikimedia.views`), and the entities' own views
(`wikimedia.page_view_stage`). Missing is not zero, as there.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, date, datetime
from functools import partial

import pyarrow as pa

from dagster_project.core.errors import SourceError
from dagster_project.core.lake import Computed, Lake, Outcome, code_version, fingerprint
from dagster_project.core.study import Study
from dagster_project.core.wikimedia.origins import page_views_slice
from dagster_project.core.wikimedia.page_view_stage import check_months
from dagster_project.core.wikimedia.services import finish_stage, open_services
from dagster_project.core.wikimedia.views import (
    fetch_views,
    resolve_articles,
    with_views,
    with_where,
)

_CODE = ("reference/views",)


def ingest_reference_page_views(
    study: Study, lake: Lake, months: Sequence[str], log: logging.Logger, today: date | None = None
) -> list[Outcome]:
    """Partitions of table reference_page_views; without such articles they are empty and nothing is asked.

    Errors: `SourceError` for a month that is not complete, or a live month without any views.
    """
    check_months(study, months, today or datetime.now(UTC).date())
    titles = _titles(lake) if study.reference_questions else []
    stamps = {
        month: fingerprint(
            "reference_page_views",
            month,
            titles,
            page_views_slice(study, month, len(titles)),
            code_version(*_CODE),
        )
        for month in months
    }
    stale = [m for m in months if not lake.current("reference_page_views", stamps[m], m)]
    stage = fingerprint("reference_page_views", [stamps[month] for month in stale])
    computed = _fetched(study, titles, stale, stage, log) if stale else {}
    outcomes = [
        lake.materialise("reference_page_views", stamps[month], partial(computed.__getitem__, month), month)
        for month in months
    ]
    finish_stage(study.home, stage)
    return outcomes


def _titles(lake: Lake) -> list[str]:
    columns = ["entity_id", "article_title"]
    rows = lake.read("reference_mentions", columns=columns).to_pylist()
    return sorted({row["article_title"] for row in rows if row["article_title"] and not row["entity_id"]})


def _fetched(
    study: Study, titles: Sequence[str], months: Sequence[str], stage: str, log: logging.Logger
) -> dict[str, Computed]:
    if not titles:
        return {month: Computed([]) for month in months}
    with open_services(study.source, study.home, stage=stage) as services:
        articles = resolve_articles(study, services, titles, log)
        found = fetch_views(study, services, articles, months, log)
        source = "wikimedia" if services.label == "wikidata" else services.label
    computed = {}
    named = pa.table({"article_title": pa.array(titles, pa.string())})
    counted = with_where(named, articles, study.popularity.redirects)
    for month, views in found.items():
        rows = with_views(counted, month, source, views)
        missing = rows["views"].null_count
        if source == "wikimedia" and missing == len(rows):
            raise SourceError(
                f"reference_page_views: the source has no views of any of {len(rows)} articles in {month}; nothing was"
                " written. It may not have counted that month yet: try again later, or ask for an earlier month"
            )
        computed[month] = Computed(
            rows, views.aside, {"articles": len(rows), "missing": missing, **views.notes}
        )
    return computed
