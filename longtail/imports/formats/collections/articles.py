"""Articles as JSON lines: objects with the keys title and text, and entity_id where it is known (Q42).

Other keys are left alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from longtail.imports.format import CollectedText, CollectionFormat
from longtail.imports.records import optional_text, read_texts, require_keys
from longtail.parsing.line_files import RejectedRows


def read_articles(path: Path, rejected: RejectedRows) -> Iterator[CollectedText]:
    """The articles in the file's order. Errors: `SourceError`, as `read_texts`."""
    for number, (title, text), row in read_texts(path, ("title", "text"), rejected):
        entity_id = optional_text(row, "entity_id", rejected)
        yield CollectedText(number, title, title, text, entity_id=entity_id)


FORMAT = CollectionFormat(read=read_articles, gives_articles=True, check=require_keys("title", "text"))
