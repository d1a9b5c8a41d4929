"""The page view REST API and the dumps, as Wikimedia serves them."""

from __future__ import annotations

import calendar
import hashlib
import json
import re
import zlib
from collections.abc import Iterator
from datetime import date, timedelta
from itertools import chain
from urllib.parse import unquote

from longtail.sandbox.content import WorldContent
from longtail.sandbox.dumps import compress
from longtail.sandbox.replies import Reply

PER_ARTICLE = "/api/rest_v1/metrics/pageviews/per-article/"
DUMP = "/other/cirrussearch/current/enwiki-content.json.gz"
ARTICLES = "/enwiki/latest/enwiki-latest-pages-articles-multistream.xml"
TRUTHY = "/wikidatawiki/entities/latest-truthy.nt"
PAGE_VIEW_DUMPS = "/other/pageview_complete/monthly"
_BULK = re.compile(
    rf"{re.escape(TRUTHY)}(?P<facts>(\.gz|\.bz2)?)|{PAGE_VIEW_DUMPS}/(?P<year>\d{{4}})/(?P=year)-(?P<month>0[1-9]|1[0-2])"
    r"/pageviews-(?P=year)(?P=month)-user(?P<views>(\.gz|\.bz2)?)"
    rf"|{re.escape(ARTICLES)}(?P<articles>(\.gz|\.bz2)?)"
)
_ACCESS = ("all-access", "desktop", "mobile-app", "mobile-web")
_AGENTS = ("all-agents", "user", "spider", "automated")
_DAY = re.compile(r"(\d{4})(\d\d)(\d\d)(00)?")
_DUMPED_AT = "2026-10-01T00:00:00Z"


def page_views(content: WorldContent, path: str) -> Reply:
    """Monthly views of one article, for the months that are completely within [start, end]."""
    parts = path.removeprefix(PER_ARTICLE).split("/")
    if len(parts) != 7:
        return _problem(
            404, "Not Found", "the route is project/access/agent/article/granularity/start/end", path
        )
    project, access, agent, quoted, granularity, start, end = parts
    first, last = _day(start), _day(end)
    if access not in _ACCESS or agent not in _AGENTS or granularity != "monthly" or not (first and last):
        detail = (
            "access, agent, granularity (monthly) or one of the dates (YYYYMMDD or YYYYMMDDHH) is not valid"
        )
        return _problem(400, "Bad Request", detail, path)
    if first > last:
        return _problem(400, "Bad Request", "start lies after end", path)
    title = unquote(quoted).replace("_", " ")
    counted = access == "all-access" and agent in ("all-agents", "user")
    is_known = project.removesuffix(".org") == "en.wikipedia" and counted
    items = []
    for month in _whole_months(first, last) if is_known else ():
        views = content.monthly_views(title, month)
        if views is not None:
            items.append(_item(title, month, agent, views if agent == "user" else _add_crawlers(views)))
    if not items:
        detail = (
            "The dates are valid, but there are no data for them, or the project or article is not known."
        )
        return _problem(404, "Not Found", detail, path)
    return Reply.json(200, {"items": items})


def _add_crawlers(views: int) -> int:
    """Views of all agents: crawlers read every article, and popular ones more often."""
    return views + views // 10 + 40


def _item(title: str, month: str, agent: str, views: int) -> dict[str, object]:
    return {
        "project": "en.wikipedia",
        "article": title.replace(" ", "_"),
        "granularity": "monthly",
        "timestamp": f"{month.replace('-', '')}0100",
        "access": "all-access",
        "agent": agent,
        "views": views,
    }


def _problem(status: int, title: str, detail: str, path: str) -> Reply:
    document = {
        "type": "about:blank",
        "title": title,
        "method": "get",
        "status": status,
        "detail": detail,
        "uri": path,
    }
    return Reply.json(status, document, "application/problem+json")


def _day(text: str) -> date | None:
    match = _DAY.fullmatch(text)
    try:
        return date(int(match[1]), int(match[2]), int(match[3])) if match else None
    except ValueError:
        return None


def _whole_months(first: date, last: date) -> Iterator[str]:
    month = first if first.day == 1 else _next_month(first)
    while _next_month(month) - timedelta(days=1) <= last:
        yield f"{month:%Y-%m}"
        month = _next_month(month)


def _next_month(day: date) -> date:
    return day.replace(day=1) + timedelta(days=calendar.monthrange(day.year, day.month)[1])


def dump(content: WorldContent) -> Reply:
    """The articles as a CirrusSearch content dump: gzip, two lines per article, made while it is sent."""
    return Reply(200, _gzip(_dump_lines(content)), "application/gzip")


def bulk_dump(content: WorldContent, path: str) -> Reply | None:
    """The truthy dump, a month's page view dump or the XML dump, made while it is sent; None for any other path."""
    match = _BULK.fullmatch(path)
    if not match:
        return None
    if match["year"]:
        lines = content.page_view_lines(f"{match['year']}-{match['month']}")
    else:
        lines = content.truthy_lines() if match["facts"] is not None else content.xml_lines()
    suffix = match["views"] or match["facts"] or match["articles"] or ""
    pieces = (piece for piece in compress(lines, suffix) if piece)
    first = next(pieces)
    tag = f'"{hashlib.sha256(path.encode() + first).hexdigest()[:16]}"'
    return Reply(200, chain([first], pieces), "application/octet-stream", {"ETag": tag})


def _dump_lines(content: WorldContent) -> Iterator[bytes]:
    for number, article in enumerate(content.articles(), 1):
        index = {"index": {"_type": "_doc", "_id": str(number)}}
        document = {
            "title": article.title,
            "text": article.text,
            "wikibase_item": article.entity_id,
            "timestamp": _DUMPED_AT,
            "namespace": 0,
            "language": "en",
        }
        yield f"{json.dumps(index)}\n{json.dumps(document, ensure_ascii=False)}\n".encode()


def _gzip(lines: Iterator[bytes]) -> Iterator[bytes]:
    compressor = zlib.compressobj(6, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    for line in lines:
        piece = compressor.compress(line)
        if piece:
            yield piece
    yield compressor.flush()
