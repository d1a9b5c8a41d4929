"""Passages as Atlas publishes them: JSON lines with the keys id, title, section and text.

What belongs here: the files' keys (`text-list-100-sec.jsonl` and `infobox.jsonl`). What does not: what becomes of the
passages (`retrieval.collections`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dagster_project.core.imports.column_checks import having
from dagster_project.core.imports.format import CUT_KEYS, CollectedText, CollectionFormat
from dagster_project.core.imports.records import RejectedRows, read_json_lines


def read_passages(
    path: Path, rejected: RejectedRows, accept_cut_dumps: bool = False
) -> Iterator[CollectedText]:
    """The passages in the file's order. Errors: `SourceError`, as `read_json_lines`."""
    for number, loaded in read_json_lines(path, rejected, accept_cut_dumps):
        missing = [key for key in ("id", "title", "text") if not isinstance(loaded.get(key), str)]
        section = loaded.get("section") or ""
        if missing:
            rejected.put(number, f"key {missing[0]}: a text was expected", loaded)
        elif not isinstance(section, str):
            rejected.put(number, "key section: a text was expected", loaded)
        else:
            yield CollectedText(number, loaded["id"], loaded["title"], loaded["text"], section or None)


FORMAT = CollectionFormat(read=read_passages, keys=CUT_KEYS, check=having("id", "title", "text"))
