"""Passages as pyserini and FlashRAG read them: JSON lines with the keys id and contents, whose first line is the title.

FlashRAG's `wiki18_100w.jsonl` has the title between quotation marks, which are taken off. Where a row has a key title,
that is the title, and contents may repeat it in the first line. A row without a title is put aside.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from longtail.imports.format import CollectedText, CollectionFormat
from longtail.imports.records import read_texts, require_keys, text_of_key
from longtail.parsing.line_files import RejectedRows


def read_passages(path: Path, rejected: RejectedRows) -> Iterator[CollectedText]:
    """The passages in the file's order. Errors: `SourceError`, as `read_texts`."""
    for number, (passage_id, contents), row in read_texts(path, ("id", "contents"), rejected):
        first, end, rest = contents.strip().partition("\n")
        title, stated_title = _strip_marks(first), text_of_key(row, "title")
        if stated_title is not None and stated_title.strip():
            text = rest if title == stated_title.strip() else contents
            yield CollectedText(number, passage_id, stated_title, text)
        elif end:
            yield CollectedText(number, passage_id, title, rest)
        else:
            rejected.put(
                number, "key contents: a title was expected in the first line, and a text below", row
            )


def _strip_marks(title: str) -> str:
    title = title.strip()
    return title[1:-1] if len(title) > 1 and title[0] == title[-1] == '"' else title


FORMAT = CollectionFormat(read=read_passages, check=require_keys("id", "contents"))
