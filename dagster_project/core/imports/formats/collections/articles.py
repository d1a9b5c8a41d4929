"""Articles as JSON lines: objects with the keys title and text, and entity_id where it is known (Q42).

What belongs here: the file's keys. What does not: cutting articles (`retrieval.splitting`), and what becomes of the
passages (`retrieval.collections`). Other keys are left alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dagster_project.core.imports.column_checks import having
from dagster_project.core.imports.format import CUT_KEYS, CollectedText, CollectionFormat
from dagster_project.core.imports.records import RejectedRows, read_json_lines


def read_articles(
    path: Path, rejected: RejectedRows, accept_cut_dumps: bool = False
) -> Iterator[CollectedText]:
    """The articles in the file's order. Errors: `SourceError`, as `read_json_lines`."""
    for number, loaded in read_json_lines(path, rejected, accept_cut_dumps):
        missing = [key for key in ("title", "text") if not isinstance(loaded.get(key), str)]
        missing += [] if isinstance(loaded.get("entity_id"), str | None) else ["entity_id"]
        if missing:
            rejected.put(number, f"key {missing[0]}: a text was expected", loaded)
        else:
            title, entity_id = loaded["title"], loaded.get("entity_id")
            yield CollectedText(number, title, title, loaded["text"], entity_id=entity_id)


FORMAT = CollectionFormat(
    read=read_articles, gives_articles=True, keys=CUT_KEYS, check=having("title", "text")
)
