"""Articles of the English Wikipedia: where they are now, the redirects that lead to them, and their monthly page views.

Views are stored under the title that a page had when they were counted. If an article was moved within the window of
months, `resolve` (SPEC §2: titles are resolved first) misses the views before the move. `sum` has them if a redirect
was left. A redirect to a section leads into an article about something else, or about something wider. Such redirects are
neither followed nor summed.

Missing is not zero: views are missing for a month without a row, and for an article that the API does not know.
"""

from __future__ import annotations

import calendar
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote

from longtail.errors import SourceError
from longtail.progress import Progress
from longtail.storage.lake import QuarantinedRow
from longtail.threads import map_in_order
from longtail.transfer.client import HttpClient
from longtail.transfer.http import RefusedRequestError
from longtail.transfer.limits import PAGE_VIEW_API, TITLE_API
from longtail.wikimedia.wikibase import busy

TITLES_A_CALL = 50  # the API's own limit
_LONGEST_QUERY = 6_000  # bytes: servers refuse addresses of more than about 8,000
_MOST_CONTINUATIONS = 2_000
_SEPARATORS = frozenset("|\x1f")  # between titles in a request; no article title contains one
_STEPS = 10  # a redirect to a redirect to …


@dataclass(frozen=True)
class Resolved:
    """Where a title leads: the article's title now, and the redirects to it if they were requested.

    If a title has no page, `exists` is false and `title` is the requested one: earlier views were counted under it.
    """

    title: str
    exists: bool = True
    redirects: tuple[str, ...] = ()

    @property
    def counted(self) -> tuple[str, ...]:
        """The titles whose views belong to the article, each once."""
        return tuple(dict.fromkeys((self.title, *self.redirects)))


@dataclass
class _Answer:
    """What the answers to one batch say, with their continuations."""

    normalized: dict[str, str] = field(default_factory=dict)
    redirects: dict[str, str] = field(default_factory=dict)
    to_sections: set[str] = field(default_factory=set)
    pages: dict[str, bool] = field(default_factory=dict)  # title → whether the page exists
    redirects_to: dict[str, list[str]] = field(default_factory=dict)

    def add(self, query: Mapping[str, Any]) -> None:
        for entry in query.get("normalized", ()):
            raw = unquote(entry["from"]) if entry.get("fromencoded") else entry["from"]
            self.normalized[raw] = entry["to"]
        for entry in query.get("redirects", ()):
            if entry.get("tofragment") or entry.get("tointerwiki"):
                self.to_sections.add(entry["from"])
            else:
                self.redirects[entry["from"]] = entry["to"]
        for entry in query.get("interwiki", ()):
            self.pages[entry["title"]] = False  # a page of another wiki, in any spelling
        for page in query.get("pages", ()):
            is_there = not (page.get("missing") or page.get("invalid"))
            self.pages[page["title"]] = is_there
            found = self.redirects_to.setdefault(page["title"], [])
            found.extend(entry["title"] for entry in page.get("redirects", ()))

    def resolved(self, asked: str) -> Resolved:
        title = self.normalized.get(asked, asked.replace("_", " "))
        for _ in range(_STEPS):
            if title not in self.redirects:
                break
            title = self.redirects[title]
        if title in self.to_sections:
            return Resolved(title)
        if title not in self.pages:
            raise KeyError(asked)
        if not self.pages[title]:
            return Resolved(asked, exists=False)
        return Resolved(title, redirects=tuple(sorted(set(self.redirects_to[title]) - {title})))


def resolve_titles(
    client: HttpClient, url: str, titles: Sequence[str], log: logging.Logger, *, with_redirects: bool = False
) -> list[Resolved]:
    """Where each of `titles` leads, in their order; an impossible title has no page. Errors: `SourceError`."""
    asked = [title for title in titles if title and not _SEPARATORS & set(title)]
    progress = Progress(log, "titles resolved", len(asked))

    def resolve(batch: Sequence[str]) -> list[Resolved]:
        answer = _ask(client, url, batch, with_redirects)
        try:
            found = [answer.resolved(title) for title in batch]
        except KeyError as error:
            raise SourceError(
                f"{TITLE_API.name} at {url}: answered nothing about the title {error.args[0]!r}"
            ) from None
        progress.add(len(batch))
        return found

    parts = map_in_order(resolve, list(_batches(asked)), TITLE_API.max_parallel)
    found = dict(zip(asked, (one for part in parts for one in part), strict=True))
    progress.done()
    return [found.get(title) or Resolved(title, exists=False) for title in titles]


def _batches(titles: Sequence[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    length = 0
    for title in titles:
        size = len(quote(title, safe="")) + 3
        if batch and (len(batch) == TITLES_A_CALL or length + size > _LONGEST_QUERY):
            yield batch
            batch, length = [], 0
        batch.append(title)
        length += size
    if batch:
        yield batch


def _ask(client: HttpClient, url: str, batch: Sequence[str], with_redirects: bool) -> _Answer:
    params = {"action": "query", "format": "json", "formatversion": "2", "redirects": "1"}
    params["titles"] = "|".join(batch)
    if with_redirects:
        params |= {"prop": "redirects", "rdprop": "title", "rdnamespace": "0", "rdshow": "!fragment"}
        params["rdlimit"] = "max"
    answer, more = _Answer(), dict[str, str]()
    for _ in range(_MOST_CONTINUATIONS):
        document = client.get_json(TITLE_API, url, {**params, **more}, accept=busy)
        try:
            answer.add(document["query"])
            following = document.get("continue")
            more = {str(key): str(value) for key, value in following.items()} if following else {}
        except (KeyError, TypeError, AttributeError):
            raise SourceError(_refusal(url, document, batch)) from None
        if not more:
            return answer
    raise SourceError(f"{TITLE_API.name} at {url}: continues without end for {batch[0]!r} and others")


def _refusal(url: str, document: Any, batch: Sequence[str]) -> str:
    error = document.get("error") if isinstance(document, dict) else None
    what = f"{error.get('code')}: {error.get('info')}" if isinstance(error, dict) else "JSON without query"
    return f"{TITLE_API.name} at {url}: answered {what} for {batch[0]!r} and {len(batch) - 1} more"


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
    last_day = calendar.monthrange(int(last_month[:4]), int(last_month[5:7]))[1]
    start, end = f"{first_month.replace('-', '')}0100", f"{last_month.replace('-', '')}{last_day}00"
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
