"""What a linking service has answered, kept for every study of one home: no text is asked about twice.

What belongs here: one SQLite file, a row a text, on the disk before the next is asked. What does not: asking (`tagme`),
thresholds (all annotations are kept, so that another threshold asks nothing anew). No token is in it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import os
import sqlite3
import uuid
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from dagster_project.core.errors import LongtailError
from dagster_project.core.reference.tagme import LANGUAGE, Annotation

_BUSY_SECONDS = 120
_CREATE = "create table if not exists links (key blob primary key, annotations text not null) without rowid"
_Answer = TypeVar("_Answer")


class LinkCache:
    """The answers of one service; several processes may share the file. A context manager."""

    def __init__(self, folder: Path, service: str, log: logging.Logger) -> None:
        self.path = folder / f"tagme-{hashlib.sha256(service.encode()).hexdigest()[:32]}.sqlite"
        self._log = log
        self._connection: sqlite3.Connection | None = None

    def __enter__(self) -> LinkCache:
        return self

    def __exit__(self, *_: object) -> None:
        self._disconnect()

    def find(self, texts: Iterable[str]) -> dict[str, list[Annotation]]:
        """The answers that are there, by text."""
        query = "select annotations from links where key = ?"

        def act(connection: sqlite3.Connection) -> dict[str, list[Annotation]]:
            rows = ((text, connection.execute(query, [_key(text)]).fetchone()) for text in texts)
            return {text: _annotations(row[0]) for text, row in rows if row}

        return self._guarded(act)

    def store(self, text: str, annotations: Sequence[Annotation]) -> None:
        """Keep an answer, flushed to the disk. Errors: `LongtailError` where that fails."""
        values = [
            _key(text),
            json.dumps([dataclasses.astuple(one) for one in annotations], ensure_ascii=False),
        ]
        statement = "insert or replace into links values (?, ?)"
        self._guarded(lambda connection: connection.execute(statement, values))

    def _guarded(self, act: Callable[[sqlite3.Connection], _Answer]) -> _Answer:
        """Run `act`, once more on a fresh file where this one is damaged."""
        for is_last in (False, True):
            try:
                return act(self._connect())
            except (sqlite3.Error, OSError, ValueError, TypeError) as error:
                self._disconnect()
                if is_last or isinstance(error, (sqlite3.OperationalError, OSError)):
                    raise LongtailError(
                        f"{self.path}: {error}; free space or mend the folder, then run again: answers are kept"
                    ) from None
                aside = self.path.with_suffix(f".damaged-{uuid.uuid4().hex}")
                os.replace(self.path, aside)
                self._log.warning("%s is damaged (%s): set aside as %s", self.path, error, aside.name)
        raise AssertionError("the loop returns or raises")

    def _connect(self) -> sqlite3.Connection:
        if self._connection is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(self.path, timeout=_BUSY_SECONDS, isolation_level=None)
            self._connection.execute("pragma synchronous = full")
            self._connection.execute(_CREATE)
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _key(text: str) -> bytes:
    return hashlib.sha256(json.dumps([LANGUAGE, text]).encode()).digest()


def _annotations(text: str) -> list[Annotation]:
    return [Annotation(*values) for values in json.loads(text)]
