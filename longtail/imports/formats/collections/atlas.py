"""Passages as Atlas publishes them: JSON lines with the keys id, title, section and text.

The files are `text-list-100-sec.jsonl` and `infobox.jsonl`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from longtail.imports.format import CollectedText, CollectionFormat
from longtail.imports.records import optional_text, read_texts, require_keys
from longtail.parsing.line_files import RejectedRows


def read_passages(path: Path, rejected: RejectedRows) -> Iterator[CollectedText]:
    """The passages in the file's order. Errors: `SourceError`, as `read_texts`."""
    keys = ("id", "title", "text")
    for number, (passage_id, title, text), row in read_texts(path, keys, rejected):
        section = optional_text(row, "section", rejected)
        yield CollectedText(number, passage_id, title, text, section)


FORMAT = CollectionFormat(read=read_passages, check=require_keys("id", "title", "text"))
