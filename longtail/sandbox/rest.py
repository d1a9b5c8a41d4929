"""The page view REST API and the dumps, as Wikimedia serves them."""

from __future__ import annotations

import hashlib
import re
from datetime import date, timedelta
from itertools import chain
from urllib.parse import unquote

from longtail.sandbox import dumps
from longtail.sandbox.pages import Pages
from longtail.sandbox.replies import Reply
from longtail.sandbox.world import World

PER_ARTICLE = "/api/rest_v1/metrics/pageviews/per-article/"
DUMP = "/other/cirrussearch/current/enwiki-content.json.gz"
TRUTHY = "/wikidatawiki/entities/latest-truthy.nt"
_PAGE_VIEWS = re.compile(
    r"/other/pageview_complete/monthly/(\d{4})/\1-(0[1-9]|1[0-2])/pageviews-\1\2-user\.bz2"
)
_ROUTE = re.compile(
    rf"{PER_ARTICLE}en\.wikipedia/all-access/(?P<agent>all-agents|user)/(?P<title>[^/]+)/monthly"
    r"/(?P<first>\d{8})00/(?P<last>\d{8})00"
)


def page_views(pages: Pages, path: str) -> Reply:
    """Monthly views of one article of the English Wikipedia, for the months that are completely within [first, last]."""
    match = _ROUTE.fullmatch(path)
    try:
        if not match:
            raise ValueError("the route is en.wikipedia/all-access/agent/article/monthly/start/end")
        first, last = (date.fromisoformat(match[name]) for name in ("first", "last"))
    except ValueError as error:
        return _problem(400, "Bad Request", str(error), path)
    after = last + timedelta(days=1)
    title = unquote(match["title"]).replace("_", " ")
    items = []
    for number in range(12 * first.year + first.month - (first.day == 1), 12 * after.year + after.month - 1):
        month = f"{number // 12}-{number % 12 + 1:02d}"
        views = pages.views(title, month)
        if views is not None:
            items.append(_item(title, month, match["agent"], views))
    if not items:
        return _problem(404, "Not Found", "the article is not known, or has no data for these dates", path)
    return Reply.json(200, {"items": items})


def _item(title: str, month: str, agent: str, views: int) -> dict[str, object]:
    return {
        "project": "en.wikipedia",
        "article": title.replace(" ", "_"),
        "granularity": "monthly",
        "timestamp": f"{month.replace('-', '')}0100",
        "access": "all-access",
        "agent": agent,
        # Crawlers read every article, and popular ones more often.
        "views": views if agent == "user" else views + views // 10 + 40,
    }


def _problem(status: int, title: str, detail: str, path: str) -> Reply:
    document = {"type": "about:blank", "title": title, "status": status, "detail": detail, "uri": path}
    return Reply.json(status, document, "application/problem+json")


def dump(world: World, path: str) -> Reply | None:
    """The dump of articles, of truthy facts, or of a month's page views, made while it is sent; None for another path."""
    if path == DUMP:
        return Reply(200, dumps.compress(dumps.article_lines(world), ".gz"), "application/gzip")
    if (suffix := path.removeprefix(TRUTHY)) in dumps.SUFFIXES:
        lines = dumps.truthy_lines(world)
    elif match := _PAGE_VIEWS.fullmatch(path):
        lines, suffix = dumps.page_view_lines(world, f"{match[1]}-{match[2]}"), ".bz2"
    else:
        return None
    pieces = dumps.compress(lines, suffix)
    first = next(pieces)
    tag = f'"{hashlib.sha256(path.encode() + first).hexdigest()[:16]}"'
    return Reply(200, chain([first], pieces), "application/octet-stream", {"ETag": tag})
