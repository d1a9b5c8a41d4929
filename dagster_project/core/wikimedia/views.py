"""Monthly page views of articles from wherever the study takes them: the API, or the monthly dumps.

What belongs here: which of the two is asked, and that both give the same. What does not: the protocols
(`pageviews`, `pageview_dumps`), fingerprints and the lake (`ingest`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from dagster_project.core.errors import SourceError
from dagster_project.core.lake import QuarantinedRow
from dagster_project.core.study import Source, Study
from dagster_project.core.wikimedia.dump_store import page_view_dump
from dagster_project.core.wikimedia.pageview_dumps import read_page_views
from dagster_project.core.wikimedia.pageviews import fetch_page_views
from dagster_project.core.wikimedia.services import Services

MOST_BY_API = 20_000  # titles: above, a month's dump costs Wikimedia less than the requests would
NO_VIEWS = "a study with an rdf_file has no page views; set popularity.measure to sitelinks"


@dataclass(frozen=True)
class MonthViews:
    """Views of one month in the order of the titles; None = missing, which is not zero."""

    origin: str
    by_title: list[int | None]
    aside: Sequence[QuarantinedRow] = ()
    notes: dict[str, Any] = field(default_factory=dict)


def views_origin(source: Source, n_titles: int) -> str:
    """`api` or `dump`."""
    if source.views_from != "auto":
        return source.views_from
    return "dump" if n_titles > MOST_BY_API else "api"


def fetch_views(
    study: Study, services: Services, titles: Sequence[str], months: Sequence[str], log: logging.Logger
) -> dict[str, MonthViews]:
    """Month → views of `titles`. Errors: `SourceError`."""
    if services.pageviews_url is None:
        raise SourceError(NO_VIEWS)
    if views_origin(study.source, len(titles)) == "dump":
        return {month: _of_dump(study, services, titles, month, log) for month in months}
    found = fetch_page_views(services.client, services.pageviews_url, titles, months, log) if titles else []
    return {month: MonthViews("api", [views[month] for views in found]) for month in months}


def _of_dump(
    study: Study, services: Services, titles: Sequence[str], month: str, log: logging.Logger
) -> MonthViews:
    path = page_view_dump(study.source, study.home, services, month, log)
    read = read_page_views(path, titles, log, study.source.accept_cut_dumps)
    notes = {"dump_lines": read.n_lines, **read.aside.notes(), **({"dump_cut": read.cut} if read.cut else {})}
    return MonthViews("dump", [read.views.get(title) for title in titles], read.aside.rows, notes)
