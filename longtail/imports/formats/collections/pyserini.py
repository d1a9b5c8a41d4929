"""Passages as pyserini and FlashRAG read them: JSON lines with the keys id and contents, whose first line is the title.

FlashRAG's `wiki18_100w.jsonl` has the title between quotation marks, which are taken off. Where a row has a key title,
that is the title, and contents may repeat it in the first line. A row without a title is put aside.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from longtail.imports.column_checks import require_keys
from longtail.imports.format import CollectedText, CollectionFormat, CutKeys
from longtail.imports.records import RejectedRows, read_json_lines, text_of_key


def read_passages(
    path: Path, rejected: RejectedRows, accept_cut_dumps: bool = False
) -> Iterator[CollectedText]:
    """The passages in the file's order. Errors: `SourceError`, as `read_json_lines`."""
    for number, loaded in read_json_lines(path, rejected, accept_cut_dumps):
        own_id, contents = (text_of_key(loaded, key) for key in ("id", "contents"))
        if own_id is None or contents is None:
            missing = "id" if own_id is None else "contents"
            rejected.put(number, f"key {missing}: a text was expected", loaded)
            continue
        first, end, rest = contents.strip().partition("\n")
        title, own_title = _strip_marks(first), text_of_key(loaded, "title")
        if own_title is not None and own_title.strip():
            text = rest if title == own_title.strip() else contents
            yield CollectedText(number, own_id, own_title, text)
        elif end:
            yield CollectedText(number, own_id, title, rest)
        else:
            rejected.put(
                number, "key contents: a title was expected in the first line, and a text below", loaded
            )


def _strip_marks(title: str) -> str:
    title = title.strip()
    return title[1:-1] if len(title) > 1 and title[0] == title[-1] == '"' else title


FORMAT = CollectionFormat(read=read_passages, keys=CutKeys, check=require_keys("id", "contents"))
