"""Monthly page views of articles, from the Pageviews REST API.

Missing is not zero: views are missing for a month without a row, and for an article that the API does not know.
"""

from __future__ import annotations

import calendar
import logging
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any
from urllib.parse import quote

from longtail.errors import SourceError
from longtail.progress import Progress
from longtail.storage.lake import QuarantinedRow
from longtail.threads import map_in_order
from longtail.transfer.client import HttpClient
from longtail.transfer.failures import RefusedRequestError
from longtail.transfer.limits import PAGE_VIEW_API

_MOST_VIEWS = 10**12  # per article and month; all of Wikipedia has fewer
_NO_TITLES = (".", "..")  # in an address they mean a folder
_PROJECT, _ACCESS = "en.wikipedia", "all-access"
_AGENTS = {"user": "user", "all": "all-agents"}
"""As a study names them → as the API does."""


def fetch_page_views(
    client: HttpClient,
    page_views_url: str,
    titles: Sequence[str],
    months: Sequence[str],
    log: logging.Logger,
    rejected: list[QuarantinedRow] | None = None,
    agent: str = "user",
) -> list[dict[str, int | None]]:
    """For each title, month → views of its English article (all access; `agent`: user or all); None = missing.

    One request per title covers all months. A title that has no valid address, or that the API refuses (400), is
    missing and goes to `rejected`. Errors: `SourceError`.
    """
    wanted = sorted(months)
    span = wanted[0] if len(wanted) == 1 else f"{wanted[0]} to {wanted[-1]}"
    progress = Progress(log, f"page views of {span}", len(titles))

    def fetch(title: str) -> dict[str, int | None]:
        url = per_article_url(page_views_url, title, wanted[0], wanted[-1], agent)
        views: Mapping[str, int] = {}
        try:
            if title in _NO_TITLES:
                raise RefusedRequestError("no address can be made of it", 400)
            views = _views(url, client.get_json(PAGE_VIEW_API, url, missing_ok=True))
        except RefusedRequestError as error:
            if error.status != 400 or rejected is None:
                raise
            rejected.append(QuarantinedRow(title, f"title refused: {error}", title))
        progress.add(1)
        return {month: views.get(month) for month in wanted}

    found = list(map_in_order(fetch, titles, PAGE_VIEW_API.max_parallel))
    progress.done()
    if rejected:
        rejected.sort(key=lambda row: row.row_key)
    return found


def per_article_url(
    page_views_url: str, title: str, first_month: str, last_month: str, agent: str = "user"
) -> str:
    """The request for whole months: spaces become underscores; all characters but letters, digits and `_.-~` are
    quoted."""
    article = quote(title.replace(" ", "_"), safe="")
    start, end = f"{first_month.replace('-', '')}0100", f"{_last_day(last_month):%Y%m%d}00"
    return f"{page_views_url}/{_PROJECT}/{_ACCESS}/{_AGENTS[agent]}/{article}/monthly/{start}/{end}"


def _views(url: str, document: Any) -> Mapping[str, int]:
    if document is None:
        return {}
    try:
        views = {
            f"{row['timestamp'][:4]}-{row['timestamp'][4:6]}": int(row["views"]) for row in document["items"]
        }
        if not all(0 <= number < _MOST_VIEWS for number in views.values()):
            raise ValueError
        return views
    except (KeyError, TypeError, ValueError, OverflowError):
        raise SourceError(
            f"{PAGE_VIEW_API.name} at {url}: answered JSON without items, timestamps and views"
        ) from None


def _last_day(month: str) -> date:
    year, number = int(month[:4]), int(month[5:7])
    return date(year, number, calendar.monthrange(year, number)[1])
