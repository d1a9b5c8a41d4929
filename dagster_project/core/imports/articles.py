"""Articles as JSON lines: objects with the keys title and text; other keys are left alone.

What belongs here: the file's keys. What does not: cutting articles (`retrieval.splitting`), and what becomes of the
passages (`retrieval.collections`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dagster_project.core.imports.formats import CUT_KEYS, CollectedText, CollectionFormat
from dagster_project.core.imports.records import Aside, read_json_lines


def read_articles(path: Path, aside: Aside, accept_cut_dumps: bool = False) -> Iterator[CollectedText]:
    """The articles in the file's order. Errors: `SourceError`, as `read_json_lines`."""
    for number, loaded in read_json_lines(path, aside, accept_cut_dumps):
        title, text = loaded.get("title"), loaded.get("text")
        if isinstance(title, str) and isinstance(text, str):
            yield CollectedText(number, title, title, text)
        else:
            missing = "text" if isinstance(title, str) else "title"
            aside.put(number, f"key {missing}: a text was expected", loaded)


FORMAT = CollectionFormat(read=read_articles, gives_articles=True, keys=CUT_KEYS)
