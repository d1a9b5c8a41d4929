"""Articles from a CirrusSearch content dump: pairs of lines, the first names a page, the second holds it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from longtail.parsing.rdf import open_plain
from longtail.parsing.terms import clean_term
from longtail.storage.lake import QuarantinedRow

_LONGEST_LINE = 1 << 27
_LONGEST_TITLE = 255


@dataclass(frozen=True)
class ArticleText:
    """One article of a dump. `entity_id`: the item that it is about, if known; `timestamp`: its last edit."""

    title: str
    text: str
    entity_id: str | None
    timestamp: str | None


def read_articles(path: Path, put_aside: Callable[[QuarantinedRow], None]) -> Iterator[ArticleText]:
    """The articles of a dump (gzip or plain), one at a time; a broken line is put aside under its number.

    Errors: `SourceError` where the file cannot be read or its gzip stream is damaged.
    """
    number = 0
    with open_plain(path, lambda: f" after line {number:,}") as stream:
        for number in count(1):
            line = stream.readline(_LONGEST_LINE)
            if not line:
                return
            document = _document(line, number, put_aside)
            article = _article(document, number, put_aside) if document else None
            if article:
                yield article


def _document(line: bytes, number: int, put_aside: Callable[[QuarantinedRow], None]) -> dict[str, Any] | None:
    if not line.strip():
        return None
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raw = line[:4_000].decode("utf-8", "backslashreplace")
        put_aside(QuarantinedRow(str(number), "line is not a JSON object", raw))
        return None
    return None if "index" in document and "title" not in document else document


def _article(
    document: dict[str, Any], number: int, put_aside: Callable[[QuarantinedRow], None]
) -> ArticleText | None:
    title, text = document.get("title"), document.get("text")
    if not (isinstance(title, str) and title.strip() and isinstance(text, str) and text.strip()):
        put_aside(QuarantinedRow(str(number), "article without title or text", str(document)[:4_000]))
        return None
    entity_id, timestamp = document.get("wikibase_item"), document.get("timestamp")
    return ArticleText(
        title=clean_term(title, _LONGEST_TITLE).text,
        text=clean_term(text, len(text)).text,
        entity_id=entity_id if isinstance(entity_id, str) else None,
        timestamp=timestamp if isinstance(timestamp, str) else None,
    )
