"""Articles of a Wikipedia XML dump (`pages-articles-multistream.xml.bz2`): plain, gzip or bzip2, one stream or many.

Redirects and disambiguation pages are left out and listed, pages outside namespace 0 are left out and counted. A page
that is damaged or has no text, or whose wikitext cannot be parsed, is put aside. If a page has several revisions, the
last one counts.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

from longtail.errors import SourceError
from longtail.imports.format import CollectedText, CollectionFormat
from longtail.imports.wiki import END, Article, Part, read_part
from longtail.models.workers import map_in_processes
from longtail.parsing.line_files import DumpFile, RejectedRows

_LOG = logging.getLogger(__name__)
_PART_BYTES = 4 << 20  # at least: a part ends with a page
_LONGEST_PAGE = 1 << 28
_PAGE, _PAGE_END = b"<page>", b"</page>"
_SHOWN = 40


def read_articles(path: Path, rejected: RejectedRows) -> Iterator[CollectedText]:
    """The sections of the articles, in the dump's order; `row` is the page's number in the dump, from 1.

    Errors: `SourceError` where the file is no such dump, is damaged, or breaks off; `BackendError` where a process that
    reads it is killed.
    """
    n_pages = 0
    for part in _read(DumpFile(path, last_line_ends=b">")):
        rejected.left_out.update(part.left_out)
        for page in part.pages:
            rejected.leave_out(replace(page, row=1 + n_pages + page.row))
        for article in part.articles:
            yield from _sections(article, 1 + n_pages + article.place, rejected)
        n_pages += part.n_pages


def _sections(article: Article, row: int, rejected: RejectedRows) -> Iterator[CollectedText]:
    if isinstance(article.sections, str):
        rejected.put(row, f"page {article.title!r}: {article.sections}", article.title)
        return
    title, about = article.title, (article.revision, article.url, article.date)
    for section in article.sections:
        yield CollectedText(row, title, title, section.text, section.title, *about)


def _read(file: DumpFile) -> Iterator[Part]:
    """What the parts hold, in their order; a few parts for each process are in memory."""
    try:
        with closing(_parts(file)) as parts:
            head = next(parts)
            yield from map_in_processes(partial(read_part, head), parts, str(file.path))
    except ValueError as error:
        raise SourceError(f"{file.path}: is no XML dump of a wiki ({error})") from None


def _parts(file: DumpFile) -> Generator[bytes, None, None]:
    """The beginning of a dump, up to its first page; then whole pages. What a page cannot hold ends or refuses it."""
    head, data = b"", b""
    for chunk in file.chunks(_LOG):
        data += chunk.data
        if not head:
            start = data.find(_PAGE)
            if start < 0:
                if len(data) > _PART_BYTES:
                    break
                continue
            head, data = data[:start], data[start:]
            yield head
        end = _end_of_pages(data)
        if end >= _PART_BYTES:
            yield data[:end]
            data = data[end:]
        elif len(data) > _LONGEST_PAGE:
            raise SourceError(
                f"{file.path}: a page is longer than {_LONGEST_PAGE >> 20} MiB: this is no such dump"
            )
    if not head:
        raise SourceError(f"{file.path}: holds no page of a wiki; it begins with {data[:_SHOWN]!r}")
    end = _end_of_pages(data)
    if end:
        yield data[:end]
    if data[end:].strip() != END:
        raise file.truncated(file.path.stat().st_size, "the end of the dump is missing")


def _end_of_pages(data: bytes) -> int:
    """Where the last whole page ends; 0 without one."""
    return (data.rfind(_PAGE_END) + len(_PAGE_END)) if _PAGE_END in data else 0


FORMAT = CollectionFormat(read=read_articles, gives_articles=True)
