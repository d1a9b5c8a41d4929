"""Passages as Atlas publishes them: JSON lines with the keys id, title, section and text.

The files are `text-list-100-sec.jsonl` and `infobox.jsonl`.
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


def read_passages(
    path: Path, rejected: RejectedRows, accept_cut_dumps: bool = False
) -> Iterator[CollectedText]:
    """The passages in the file's order. Errors: `SourceError`, as `read_json_lines`."""
    for number, loaded in read_json_lines(path, rejected, accept_cut_dumps):
        texts = {key: text_of_key(loaded, key) for key in ("id", "title", "text")}
        missing = [key for key, text in texts.items() if text is None]
        if missing:
            rejected.put(number, f"key {missing[0]}: a text was expected", loaded)
        else:
            own_id, title, text = map(str, texts.values())
            yield CollectedText(number, own_id, title, text, optional_text(loaded, "section", rejected))


FORMAT = CollectionFormat(read=read_passages, keys=CutKeys, check=require_keys("id", "title", "text"))
