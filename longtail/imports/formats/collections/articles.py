"""Articles as JSON lines: objects with the keys title and text, and entity_id where it is known (Q42).

Other keys are left alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from longtail.imports.column_checks import require_keys
from longtail.imports.format import CollectedText, CollectionFormat, CutKeys
from longtail.imports.records import (
    RejectedRows,
    optional_text,
    read_json_lines,
    text_of_key,
)


def read_articles(
    path: Path, rejected: RejectedRows, accept_cut_dumps: bool = False
) -> Iterator[CollectedText]:
    """The articles in the file's order. Errors: `SourceError`, as `read_json_lines`."""
    for number, loaded in read_json_lines(path, rejected, accept_cut_dumps):
        title, text = text_of_key(loaded, "title"), text_of_key(loaded, "text")
        if title is None or text is None:
            rejected.put(number, f"key {'title' if title is None else 'text'}: a text was expected", loaded)
        else:
            entity_id = optional_text(loaded, "entity_id", rejected)
            yield CollectedText(number, title, title, text, entity_id=entity_id)


FORMAT = CollectionFormat(
    read=read_articles, gives_articles=True, keys=CutKeys, check=require_keys("title", "text")
)
