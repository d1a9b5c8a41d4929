"""Finished results, kept for every study of one home: one SQLite file per model identity, or one schema in Postgres.

A key is a hash of prompt, weights, dtype, quantisation, decoding and sample seed, or of candidates in place of the last
two; the engine has no part in it. A batch is one transaction, flushed to the disk before `store` returns: kill -9
leaves it whole or absent. Each row carries a checksum. A row that fails it counts as missing, and so does a row
that another version wrote with other accounts. A lock of another process is waited for without end: until it is gone,
nothing more is computed or paid for.

Texts are kept as they came, with the reasoning, refusal and finish reason beside them. Whether one holds an answer is
decided when rows are made of it: what was paid for is not asked again because it holds none.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import logging
import os
import sqlite3
import sys
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from longtail.errors import LakeError
from longtail.generation.backends.base import CandidateScore, Generation, Identity, Result, Scored
from longtail.generation.engine.task import Request, describe_decoding
from longtail.scoring.model_answer import Confidence
from longtail.storage.postgres import PostgresSchema
from longtail.storage.sqlite_file import SqliteFile

_KEYS_PER_QUERY = 500
_TABLES = (
    """
    create table if not exists generations (
        key {blob} primary key,
        text {blob} not null,
        accounts {blob} not null,
        origin {blob} not null,
        checksum bigint not null
    ) {without_rowid}
    """,
    """
    create table if not exists losses (
        origin text not null,
        run text not null,
        usd double precision not null,
        primary key (origin, run)
    ) {without_rowid}
    """,
)
_OF_SQLITE = (
    "pragma journal_mode = delete",
    "pragma synchronous = full",
    *(table.format(blob="blob", without_rowid="without rowid") for table in _TABLES),
)
_OF_POSTGRES = tuple(table.format(blob="bytea", without_rowid="") for table in _TABLES)
_NOTE_LOSS = "insert into losses values (?, ?, ?) on conflict (origin, run) do update set usd = excluded.usd"
_INSERT = "insert into generations values (?, ?, ?, ?, ?) on conflict (key) do"
_ADD = f"{_INSERT} nothing"
_REPLACE = (
    f"{_INSERT} update set text = excluded.text, accounts = excluded.accounts, origin = excluded.origin,"
    " checksum = excluded.checksum"
)
DATABASE = "LONGTAIL_ROW_CACHE"
"""The variable with the address of a database in Postgres, which several machines may share."""
_DEFAULTS = {field.name: field.default for kind in (Generation, Scored) for field in dataclasses.fields(kind)}
"""What is written only where it has another value."""


@dataclass(frozen=True)
class CachedRow:
    """A result, the engine that computed it, and the fingerprint of the partition that it was computed for."""

    result: Result
    engine: str
    origin: str


def row_key(prompt_hash: str, identity: Identity, request: Request, sample_seed: int | None = None) -> bytes:
    """The key of one part of a request: 32 bytes. `sample_seed` is None for greedy text and for scores."""
    precision = [identity.dtype, identity.quantisation]
    parts = [prompt_hash, identity.revision, *precision, describe_decoding(request, identity), sample_seed]
    if request.candidates:
        parts += request.candidates
    return hashlib.sha256(json.dumps(parts).encode()).digest()


class RowCache:
    """The cache of one model identity, `<folder>/<its hash>.sqlite`, or in the database of `$LONGTAIL_ROW_CACHE`.

    Several processes may share it.
    """

    def __init__(self, folder: Path, identity: Identity, log: logging.Logger) -> None:
        self.path = folder / f"{identity.weights[:32]}.sqlite"
        self._store = _store(self.path, log)

    def __enter__(self) -> RowCache:
        self._store.run(lambda connection: None)
        return self

    def __exit__(self, *_: object) -> None:
        self._store.close()

    def find(self, keys: Iterable[bytes]) -> dict[bytes, CachedRow]:
        """The rows that are there and whole, by key."""
        wanted = list(keys)
        return self._store.run(lambda connection: _select(connection, wanted))

    def store(self, rows: Mapping[bytes, CachedRow]) -> dict[bytes, CachedRow]:
        """Store one batch, all or nothing, and give it back as the cache now has it.

        Where another process was first, its row stays, so that all readers see one result. Errors:
        `LakeError` where the disk is full or cannot be written.
        """
        values = {key: _values(key, rows[key]) for key in sorted(rows)}
        return {**rows, **_put(self._store, values)}

    def lost_usd(self, origin: str) -> float:
        """What services have billed for a partition fingerprint, over all its runs, without a result to keep."""
        query = "select coalesce(sum(usd), 0.0) from losses where origin = ?"
        return self._store.run(lambda connection: float(connection.execute(query, [origin]).fetchone()[0]))

    def note_loss(self, origin: str, run: str, usd: float) -> None:
        """What one run of a partition has lost so far. Errors: as of `store`."""
        self._store.run(lambda connection: connection.execute(_NOTE_LOSS, [origin, run, usd]))


def _store(path: Path, log: logging.Logger) -> SqliteFile | PostgresSchema:
    """Where the cache of a model identity is: the schema of the file's name in `$LONGTAIL_ROW_CACHE`, else the file."""
    if address := os.environ.get(DATABASE):
        return PostgresSchema(address, f"row_cache_{path.stem}", _OF_POSTGRES, log)
    return SqliteFile(path, _OF_SQLITE, log, waits_on=True)


def merge(folder: Path, other: Path, log: logging.Logger) -> int:
    """Add the results in another machine's cache, `other`, to the cache in `folder`; return how many were read.

    A whole result that is there stays. Errors: `LakeError` where `other` has no row cache, or one that cannot be read.
    """
    # An empty file is of a process that was killed before it made the table.
    paths = [path for path in sorted(other.glob("*.sqlite")) if path.stat().st_size]
    mode = "rw" if os.access(other, os.W_OK) else "ro"  # what a killed process had begun is then rolled back
    if other.resolve() == folder.resolve() and not os.environ.get(DATABASE):
        raise LakeError(f"{other}: this is the machine's own row cache; give a copy of another machine's")
    if not paths:
        raise LakeError(
            f"{other}: no row cache; give the folder row_cache of another machine, which has *.sqlite"
        )
    n_read = 0
    for path in paths:
        into = _store(folder / path.name, log)
        try:
            with contextlib.closing(
                sqlite3.connect(f"{path.absolute().as_uri()}?mode={mode}", uri=True)
            ) as source:
                rows = source.execute("select key, text, accounts, origin, checksum from generations")
                while chunk := rows.fetchmany(_KEYS_PER_QUERY):
                    whole = [row for row in chunk if row[-1] == _checksum(*row[:-1])]
                    _put(into, {row[0]: row for row in sorted(whole)})
                    n_read += len(whole)
        except sqlite3.Error as error:
            raise LakeError(f"{path}: {error}; copy it again, after its process has ended") from error
        finally:
            into.close()
    return n_read


def _select(connection: Any, keys: list[bytes]) -> dict[bytes, CachedRow]:
    rows: dict[bytes, CachedRow] = {}
    for start in range(0, len(keys), _KEYS_PER_QUERY):
        chunk = keys[start : start + _KEYS_PER_QUERY]
        marks = ",".join("?" * len(chunk))
        query = f"select key, text, accounts, origin, checksum from generations where key in ({marks})"  # noqa: S608
        for key, text, accounts, origin, checksum in connection.execute(query, chunk):
            if checksum == _checksum(key, text, accounts, origin):
                row = _row(text, accounts, origin)
                if row is not None:
                    rows[key] = row
    return rows


def _put(
    store: SqliteFile | PostgresSchema, rows: Mapping[bytes, Sequence[object]]
) -> dict[bytes, CachedRow]:
    """Write the rows, in the order of their keys, that are not there whole; return what was there, if not all are new."""
    if isinstance(store, PostgresSchema) and rows and store.add("generations", list(rows.values())):
        return {}
    return store.write(partial(_add, rows=rows))


def _add(connection: Any, rows: Mapping[bytes, Sequence[object]]) -> dict[bytes, CachedRow]:
    if connection.executemany(_ADD, list(rows.values())).rowcount == len(rows):
        return {}
    there = _select(connection, list(rows))
    connection.executemany(_REPLACE, [row for key, row in rows.items() if key not in there])
    return there


def _values(key: bytes, row: CachedRow) -> tuple[bytes, bytes, bytes, bytes, int]:
    """The columns of a row; scores and confidence stand among the accounts."""
    fields = {name: value for name, value in vars(row.result).items() if value != _DEFAULTS[name]}
    text = str(fields.pop("text", "")).encode("utf-8", "surrogatepass")
    accounts, origin = json.dumps(fields | {"engine": row.engine}, default=vars).encode(), row.origin.encode()
    return key, text, accounts, origin, _checksum(key, text, accounts, origin)


def _row(text: bytes, accounts: bytes, origin: bytes) -> CachedRow | None:
    """The row; None where another version of this program kept less or more of it."""
    fields = json.loads(accounts) | {"text": text.decode("utf-8", "surrogatepass")}
    engine = sys.intern(fields.pop("engine"))
    result: Result
    try:
        if "scores" in fields:
            fields["scores"] = tuple(CandidateScore(**score) for score in fields["scores"])
            result = Scored(**fields)
        else:
            confidence = fields.pop("confidence", None)
            result = Generation(confidence=Confidence(**confidence) if confidence else None, **fields)
    except TypeError:
        return None
    return CachedRow(result, engine, sys.intern(origin.decode()))


def _checksum(*parts: object) -> int:
    """CRC-32; -1 where damage has left something that is not bytes."""
    whole = [part for part in parts if isinstance(part, bytes)]
    return zlib.crc32(b"\0".join(whole)) if len(whole) == len(parts) else -1
