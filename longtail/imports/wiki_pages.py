"""The articles in a part of a wiki's XML dump (mwxml).

A process of its own may read a part, so this module imports little.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote
from xml.etree.ElementTree import ParseError

from longtail.imports.excluded_pages import DISAMBIGUATION, REDIRECT, ExcludedPage
from longtail.imports.page_kinds import is_disambiguation, is_redirect, redirect_target
from longtail.imports.wikitext import Section, sections_or_reason

END = b"</mediawiki>"
_PAGE_END = b"</page>"
_TITLE = re.compile(rb"<title>([^<]{1,255})</title>")
_FORBIDDEN_IN_XML = bytes(byte for byte in range(32) if byte not in b"\t\n\r")
_WITHOUT_TEXT = (-2, 6, 14)  # media, files, categories: a link to such a page shows no words
_OTHER = "pages of other namespaces"
_THEIR_NAMES = frozenset({"media", "file", "image", "category"})


@dataclass(frozen=True)
class Article:
    """One article: its page's place in its part, from 0; its sections, or why it has none."""

    place: int
    title: str
    sections: list[Section] | str
    revision: str | None
    date: str | None
    url: str | None


@dataclass
class Part:
    """What a part of a dump holds. The `row` of one of `pages` is its place in its part, from 0, as of an article.

    `left_out` counts the pages outside namespace 0.
    """

    n_pages: int = 0
    articles: list[Article] = field(default_factory=list)
    pages: list[ExcludedPage] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)

    def add(self, other: Part) -> None:
        """Take over the pages that follow."""
        self.articles += [replace(one, place=self.n_pages + one.place) for one in other.articles]
        self.pages += [replace(one, row=self.n_pages + one.row) for one in other.pages]
        self.left_out.update(other.left_out)
        self.n_pages += other.n_pages


def read_part(head: bytes, pages: bytes) -> Part:
    """The articles among whole pages; one that cannot be read has the reason in place of its sections.

    `head`: what stands before the dump's first page. Errors: `ValueError` where that is not what MediaWiki exports.
    """
    try:
        return _read(head, pages)
    except ValueError:
        part = _read(head, b"")
    for page in pages.split(_PAGE_END)[:-1]:
        part.add(_read_one(head, page + _PAGE_END))
    return part


def _read_one(head: bytes, page: bytes) -> Part:
    """One page that may be damaged."""
    try:
        return _read(head, page)
    except ValueError as error:
        found = _TITLE.search(page)
        title = found[1].decode("utf-8", "replace") if found else ""
        return Part(1, [Article(0, title, f"is damaged: {error}", revision=None, date=None, url=None)])


def _read(head: bytes, pages: bytes) -> Part:
    """The articles among whole pages. Errors: `ValueError` where this is not XML, or not what MediaWiki exports."""
    import mwxml
    from mwxml.errors import MalformedXML

    part = Part()
    try:
        data = (head + pages + END).translate(None, _FORBIDDEN_IN_XML)
        dump = mwxml.Dump.from_file(io.BytesIO(data))
        hidden, base = _hidden(dump.site_info), (dump.site_info.base or "").rpartition("/")[0]
        first_letter = dump.site_info.case != "case-sensitive"
        for page in dump.pages:
            revision = None
            for revision in page:  # noqa: B007 the last one counts
                pass
            text = (revision and revision.slots["main"].text) or ""
            if page.namespace != 0:
                part.left_out[_OTHER] += 1
            elif left_out := _left_out(page, text, part.n_pages, first_letter=first_letter):
                part.pages.append(left_out)
            else:
                part.articles.append(
                    Article(
                        place=part.n_pages,
                        title=page.title,
                        sections=sections_or_reason(text, hidden),
                        revision=str(revision.id) if revision else None,
                        date=str(revision.timestamp) if revision else None,
                        url=f"{base}/{quote(page.title.replace(' ', '_'))}" if base else None,
                    )
                )
            part.n_pages += 1
    except (
        ParseError,
        MalformedXML,
        AssertionError,
        AttributeError,
        LookupError,
        TypeError,
        ValueError,
    ) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from None
    return part


def _left_out(page: Any, text: str, place: int, *, first_letter: bool) -> ExcludedPage | None:
    """The page, if it is no article."""
    title = page.title or ""
    if page.redirect is not None or is_redirect(text):
        target, section = redirect_target(text, page.redirect, first_letter=first_letter)
        return ExcludedPage(place, title, REDIRECT, target, section)
    return ExcludedPage(place, title, DISAMBIGUATION) if is_disambiguation(title, text) else None


def _hidden(site_info: Any) -> frozenset[str]:
    """Names of the namespaces whose links show no text, in English and in the wiki's language; in lower case."""
    own = {space.name.lower() for space in site_info.namespaces or () if space.id in _WITHOUT_TEXT}
    return _THEIR_NAMES | own
