"""The passages of a collection's file: what the file says, checked, cut and named.

The files' columns are those of one module per format in `imports`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from longtail.imports.format import CollectedText, CollectionFormat
from longtail.imports.records import RejectedRows
from longtail.parsing.terms import LONGEST_LABEL, clean_term
from longtail.retrieval.excluded_pages import LONGEST_TITLE
from longtail.retrieval.first_rows import FirstRows
from longtail.retrieval.splitting import passages_of
from longtail.study.imports import COLLECTIONS, Collection, load_format

COLLECTED = "collection"
"""Column `source` of passages that come from a collection."""
AT_ONCE = 5_000
"""Rows whose repetitions are looked for together."""
POSITION_BITS, COLLECTION_BITS = 16, 56
_MISSING = frozenset({"nan", "none", "null"})
LONGEST_PASSAGE = 1_000  # words; DPR's have about 100, and a file cut at a quotation mark gives thousands


@dataclass(frozen=True)
class CollectedPassage:
    """A passage, `found` in a file; `name` within its collection, `position` in its article."""

    found: CollectedText
    name: str
    title: str
    position: int
    text: str

    def place(self, collection: int) -> int:
        """Its place among all passages, as one number."""
        position = self.position & (1 << POSITION_BITS) - 1
        return collection << COLLECTION_BITS | self.found.row << POSITION_BITS | position

    def columns(self, collection: Collection) -> dict[str, Any]:
        """The row of lake table `passages`; its entity is the one that the file names, if it names one."""
        return {
            "passage_id": f"{collection.name}:{self.name}",
            "entity_id": clean_term(self.found.entity_id or "").text or None,
            "title": self.title,
            "position": self.position,
            "text": self.text,
            "source": COLLECTED,
            "collection": collection.name,
            "collection_source": collection.source,
            "collection_date": collection.date,
            "licence": collection.licence,
            "section": self.found.section,
            "revision": self.found.revision,
            "url": self.found.url,
            "revision_date": self.found.date,
        }


def passages_in(collection: Collection, place: Path, rejected: RejectedRows) -> Iterator[CollectedPassage]:
    """The passages of a file.

    A section's title stands before the passage, as Atlas's own reader has it (facebookresearch/atlas, `src/index_io.py`,
    `load_passages`), but not in the title: that must stay the article's, which links a passage to an entity.
    """
    format_ = format_of(collection)
    positions: Counter[str] = Counter()
    for found, title, name, texts in _texts(format_, collection, place, rejected):
        for text in texts:
            position = positions[title]
            positions[title] += 1
            own = f"{title}-{position}" if format_.gives_articles else name
            whole = f"{found.section}: {text}" if found.section else text
            yield CollectedPassage(found, own, title, position, whole)


def _texts(
    format_: CollectionFormat, collection: Collection, place: Path, rejected: RejectedRows
) -> Iterator[tuple[CollectedText, str, str, list[str]]]:
    """(what the file says, title, id, texts) of the rows that can be used; of rows with the same id the first."""
    known = FirstRows()
    usable = _usable(format_, collection, place, rejected)
    while some := list(islice(usable, AT_ONCE)):
        rows = [found.row for found, *_ in some]
        firsts = rows if format_.gives_articles else known.of([name for _, _, name, _ in some], rows)
        for one, first in zip(some, firsts, strict=True):
            if first == one[0].row:
                yield one
            else:
                _put_aside(
                    rejected, one[0], f"id {one[2][:60]!r}: row {first} has it already; that row is kept"
                )


def _usable(
    format_: CollectionFormat, collection: Collection, place: Path, rejected: RejectedRows
) -> Iterator[tuple[CollectedText, str, str, list[str]]]:
    for found in format_.read(place, rejected, **dict(collection.options)):
        title, name = _cleaned(found.title), _cleaned(found.id)
        texts = [text for cut in _cut(found, format_) if _is_text(text := _cleaned(cut))]
        reason = _fault(title, name, found.text, texts)
        if reason:
            _put_aside(rejected, found, reason)
        else:
            yield replace(found, section=_cleaned(found.section or "") or None), title, name, texts


def _cleaned(text: str) -> str:
    return clean_term(text, len(text)).text


def _is_text(text: str) -> bool:
    """Whether a person can read it: not invisible marks alone, nor what programs write for a missing value."""
    is_visible = any(char.isprintable() and not char.isspace() for char in text)
    return is_visible and text.lower() not in _MISSING


def _put_aside(rejected: RejectedRows, found: CollectedText, reason: str) -> None:
    rejected.put(found.row, reason, {"id": found.id, "title": found.title, "text": found.text})


def _cut(found: CollectedText, format_: CollectionFormat) -> list[str]:
    return passages_of(found.text) if format_.gives_articles else [found.text]


def _fault(title: str, name: str, text: str, texts: list[str]) -> str | None:
    """Why a row with this `text`, cut into `texts`, cannot be used; None if it can."""
    if not any(map(str.isprintable, title)):
        return "title: a text was expected"
    if len(title) > LONGEST_TITLE:
        return f"title: at most {LONGEST_TITLE} characters were expected, not {len(title):,}"
    if not texts:
        return "text: is a missing value" if text.strip().lower() in _MISSING else "text: is empty"
    n_words = max(len(text.split()) for text in texts)
    if n_words > LONGEST_PASSAGE:
        return f"text: a passage of at most {LONGEST_PASSAGE:,} words was expected, not {n_words:,}"
    if len(name) > LONGEST_LABEL:
        return f"id: at most {LONGEST_LABEL} characters were expected, not {len(name):,}"
    return None if name else "id: a text was expected"


def format_of(collection: Collection) -> CollectionFormat:
    found: CollectionFormat = load_format(COLLECTIONS, collection.format)
    return found
