"""Where articles are now: titles resolved through redirects and moves, and the redirects that lead to them.

Views are stored under the title that a page had when they were counted. If an article was moved within the window of
months, `resolve` (SPEC §2: titles are resolved first) misses the views before the move. `sum` has them if a redirect
was left.

A redirect to a section leads into an article about something else, or about something wider. Such redirects are
neither followed nor summed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote

from longtail.errors import SourceError
from longtail.progress import Progress
from longtail.threads import map_in_order
from longtail.transfer.client import HttpClient
from longtail.transfer.limits import TITLE_API
from longtail.wikimedia.protocols.entities import busy

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
