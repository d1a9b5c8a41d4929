"""Articles of a Wikipedia XML dump (`pages-articles-multistream.xml.bz2`): plain, gzip or bzip2, one stream or many.

What belongs here: which pages of a dump are articles, and what the dump says about them. What does not: decompression
and truncated files (`wikimedia.dumps`), wikitext (`imports.wikitext`), cutting articles (`retrieval.splitting`).

mwxml reads the pages one after the other. Redirects, disambiguation pages and pages outside namespace 0 are left out
and counted. A page whose wikitext cannot be parsed, or has no text, is put aside. If a page has several revisions, the
last one counts.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.etree.ElementTree import ParseError

from dagster_project.core.errors import SourceError
from dagster_project.core.imports.formats import CollectedText, CollectionFormat
from dagster_project.core.imports.records import Aside
from dagster_project.core.imports.wikitext import PARSED_AT_ONCE, parsed
from dagster_project.core.threads import thread_count
from dagster_project.core.wikimedia.dumps.files import Chunk, DumpFile

_LOG = logging.getLogger(__name__)
_READ_AT_ONCE = 1 << 16
_FORBIDDEN_IN_XML = bytes(byte for byte in range(32) if byte not in b"\t\n\r")
_ENDS_EARLY = (3, 5, 20)  # expat: no element found, unclosed token, unclosed CDATA section
_WITHOUT_TEXT = (-2, 6, 14)  # media, files, categories: a link to such a page shows no words
_THEIR_NAMES = frozenset({"media", "file", "image", "category"})
_REDIRECT = re.compile(r"\s*#redirect\b", re.IGNORECASE)
_DISAMBIGUATION = re.compile(
    r"__DISAMBIG__|\{\{\s*(?:[\w\s,()-]*\bdisambig(?:uation)?\b(?!\s+needed)[\w\s,()-]*|dab|hndis|geodis|schooldis"
    r"|numberdis|roaddis|mathdab|hospitaldis|callsigndis)\s*[|}]",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class _Page:
    row: int
    title: str
    revision: str | None
    date: str | None


def read_articles(path: Path, aside: Aside, accept_cut_dumps: bool = False) -> Iterator[CollectedText]:
    """The sections of the articles, in the dump's order; `row` is the page's number in the dump, from 1.

    Errors: `SourceError` where the file is no such dump, is damaged, or breaks off, unless `accept_cut_dumps`: then the
    pages before the break are used.
    """
    file = DumpFile(path, accept_cut_dumps, last_line_ends=b">", accepted_by="accept_cut_dumps")
    with closing(file.chunks(_LOG)) as chunks:
        root, dump = _opened(file, chunks)
        base = dump.site_info.base or ""
        n_processes = thread_count() if path.stat().st_size > PARSED_AT_ONCE else 1
        pages = _articles(file, root, dump, aside)
        for page, sections in parsed(pages, _hidden(dump.site_info), n_processes):
            if isinstance(sections, str) or not sections:
                aside.put(page.row, f"page {page.title!r}: {sections or 'text: is empty'}", page.title)
                continue
            url = f"{base.rpartition('/')[0]}/{quote(page.title.replace(' ', '_'))}" if base else None
            for one in sections:
                yield CollectedText(
                    page.row, page.title, page.title, one.text, one.title, page.revision, url, page.date
                )


def _opened(file: DumpFile, chunks: Iterator[Chunk]) -> tuple[Any, Any]:
    """The root element, and mwxml's dump, which has read what the file says about its wiki."""
    import mwxml
    from mwxml.element_iterator import ElementIterator

    with _errors_told(file):
        root = ElementIterator.from_file(_Stream(chunks))
        if root.tag != "mediawiki":
            raise SourceError(f"{file.path}: begins with <{root.tag}>: this is no XML dump of a wiki")
        return root, mwxml.Dump.from_element(root)
    raise SourceError(f"{file.cut}: no page stands before the break")


def _articles(file: DumpFile, root: Any, dump: Any, aside: Aside) -> Iterator[tuple[_Page, str]]:
    """Each article and its wikitext."""
    with _errors_told(file):
        for row, page in enumerate(dump.pages, 1):
            revision = None
            for revision in page:
                pass
            text = (revision and revision.slots["main"].text) or ""
            why = _left_out(page, text)
            if why:
                aside.leave_out(why)
            else:
                number, date = (revision.id, revision.timestamp) if revision else (None, None)
                yield _Page(row, page.title, number and str(number), date and str(date)), text
            root.element.clear()  # else it keeps an empty element for each page


def _left_out(page: Any, text: str) -> str | None:
    """Why a page is no article, as its count is called; None for an article."""
    if page.namespace != 0:
        return "pages of other namespaces"
    if page.redirect is not None or _REDIRECT.match(text):
        return "redirects"
    if page.title.endswith(" (disambiguation)") or _DISAMBIGUATION.search(text):
        return "disambiguation pages"
    return None


def _hidden(site_info: Any) -> frozenset[str]:
    """Names of the namespaces whose links show no text, in English and in the wiki's language; in lower case."""
    own = {space.name.lower() for space in site_info.namespaces or () if space.id in _WITHOUT_TEXT}
    return _THEIR_NAMES | own


@contextmanager
def _errors_told(file: DumpFile) -> Iterator[None]:
    """Turn mwxml's errors into `SourceError`. The end of a file that may be cut off is no error."""
    from mwxml.errors import MalformedXML

    try:
        yield
    except ParseError as error:
        if error.code in _ENDS_EARLY and file.cut is None:
            file.breaks_off(file.path.stat().st_size, str(error), _LOG)
        elif file.cut is None:
            raise SourceError(f"{file.path}: is damaged, or no XML dump of a wiki: {error}") from None
    except (MalformedXML, AttributeError, LookupError, TypeError, ValueError) as error:
        raise SourceError(f"{file.path}: is damaged, or no XML dump of a wiki: {error}") from None


class _Stream:
    """The chunks as the file that mwxml reads, without the characters that XML forbids."""

    def __init__(self, chunks: Iterator[Chunk]) -> None:
        self._chunks, self._data = chunks, b""

    def read(self, _size: int = 0) -> bytes:
        """Some bytes; none at the end."""
        if not self._data:
            chunk = next(self._chunks, None)
            self._data = chunk.data.translate(None, _FORBIDDEN_IN_XML) if chunk else b""
        some, self._data = self._data[:_READ_AT_ONCE], self._data[_READ_AT_ONCE:]
        return some


FORMAT = CollectionFormat(
    read=read_articles, gives_articles=True, keys={"accept_cut_dumps": lambda read, key: read.flag(key)}
)
