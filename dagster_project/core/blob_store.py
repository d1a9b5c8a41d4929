"""Bytes kept on disk by key, in one SQLite file: answers of services, and vectors that need not be computed again.

What belongs here: atomic writes, use by several threads and processes, the limit of size, and recovery from damage.
What does not: what is stored (`wikimedia.transport.response_cache`, `wikimedia.transport.finished`,
`reference.link_cache`, `embedding.vectors`).

SQLite's own log makes each entry whole or absent, also after kill -9. SQLite does not detect a changed byte inside an
entry, so each entry has a checksum. A damaged entry is dropped. A file that is no longer a database is renamed, and a
new one is started.
"""

from __future__ import annotations

import hashlib
import logging
import os
import sqlite3
import threading
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from dagster_project.core.errors import LakeError

_LOG = logging.getLogger(__name__)
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS blobs"
    " (key TEXT PRIMARY KEY, used_at REAL NOT NULL, size INTEGER NOT NULL, checksum BLOB NOT NULL, data BLOB NOT NULL)",
    "CREATE INDEX IF NOT EXISTS by_use ON blobs (used_at, size)",
)
_BUSY_S = 30.0
_LOOK_EVERY = 32  # writes between two checks of the size
_AFTER_SHRINKING = 0.8
_FRESH_USE_S = 86_400.0  # the time of use is updated at most once per day, so that most reads do not write
_KEYS_PER_QUERY = 500
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
Result = TypeVar("Result")


class BlobStore:
    """Bytes by key in the file `path`. Above `max_bytes` (compressed), the least recently used entries are removed.

    Errors: `LakeError` where the disk is full or cannot be written; existing entries are unchanged.
    """

    def __init__(
        self, path: Path, max_bytes: int | None = None, now: Callable[[], float] = time.time
    ) -> None:
        self.path = path
        self._max_bytes, self._now = max_bytes, now
        self._lock = threading.Lock()
        self._until_look = 0
        self._database: sqlite3.Connection | None = None
        self._inode = 0  # of the open file

    def get(self, key: str) -> bytes | None:
        """The bytes of `key`, or None. A damaged entry is dropped and gives None."""
        if self._database is None and not self.path.exists():
            return None
        row = self._run(lambda database: self._read(database, key))
        if row is None:
            return None
        checksum, data, used_at = row
        plain = self._whole(key, checksum, data)
        if plain is None:
            return None
        if self._now() - used_at > _FRESH_USE_S:
            self._execute("UPDATE blobs SET used_at = ? WHERE key = ?", self._now(), key)
        return plain

    def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        """The entries that are there and whole, by key. Their time of use stays as it is."""
        if self._database is None and not self.path.exists():
            return {}
        found: dict[str, bytes] = {}
        for start in range(0, len(keys), _KEYS_PER_QUERY):
            found |= self._get_some(keys[start : start + _KEYS_PER_QUERY])
        return found

    def _get_some(self, keys: Sequence[str]) -> dict[str, bytes]:
        marks = ",".join("?" * len(keys))
        query = f"SELECT key, checksum, data FROM blobs WHERE key IN ({marks})"  # noqa: S608
        rows = self._run(lambda database: database.execute(query, keys).fetchall())
        whole = {key: self._whole(key, checksum, data) for key, checksum, data in rows}
        return {key: plain for key, plain in whole.items() if plain is not None}

    def put_many(self, entries: Mapping[str, bytes]) -> None:
        """Store the entries that are new, all or none of them, without compression; existing ones stay.

        `max_bytes` is not looked at. Errors: `LakeError`.
        """
        rows = [
            (key, self._now(), len(plain), _checksum(key, plain), zlib.compress(plain, 0))
            for key, plain in entries.items()
        ]

        def insert(database: sqlite3.Connection) -> None:
            database.execute("BEGIN IMMEDIATE")
            try:
                database.executemany("INSERT OR IGNORE INTO blobs VALUES (?, ?, ?, ?, ?)", rows)
                database.execute("COMMIT")
            except BaseException:
                if database.in_transaction:
                    database.execute("ROLLBACK")
                raise

        self._run(insert)

    def _whole(self, key: str, checksum: bytes, data: bytes) -> bytes | None:
        """The plain bytes of an entry; a damaged one is dropped and gives None."""
        try:
            plain = zlib.decompress(data)
        except (zlib.error, TypeError):
            plain = None
        if plain is None or _checksum(key, plain) != checksum:
            _LOG.warning("%s: a damaged entry was dropped", self.path)
            self.delete(key)
            return None
        return plain

    @staticmethod
    def _read(database: sqlite3.Connection, key: str) -> tuple[bytes, bytes, float] | None:
        query = "SELECT checksum, data, used_at FROM blobs WHERE key = ?"
        row: tuple[bytes, bytes, float] | None = database.execute(query, (key,)).fetchone()
        return row

    def put(self, key: str, plain: bytes) -> None:
        """Store `plain` under `key` and replace any earlier entry. Errors: `LakeError`."""
        data = zlib.compress(plain, 1)
        if self._max_bytes is not None and len(data) > self._max_bytes // 4:
            return
        self._execute(
            "INSERT OR REPLACE INTO blobs VALUES (?, ?, ?, ?, ?)",
            *(key, self._now(), len(data), _checksum(key, plain), data),
        )
        if self._max_bytes is not None:
            self._run(self._shrink)

    def delete(self, key: str) -> None:
        self._execute("DELETE FROM blobs WHERE key = ?", key)

    def delete_prefix(self, prefix: str) -> None:
        """Delete every key that begins with `prefix`."""
        self._execute("DELETE FROM blobs WHERE substr(key, 1, ?) = ?", len(prefix), prefix)

    def close(self) -> None:
        with self._lock:
            if self._database is not None:
                self._database.close()
                self._database = None

    def _execute(self, statement: str, *values: object) -> None:
        self._run(lambda database: database.execute(statement, values).close())

    def _run(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        with self._lock:
            try:
                try:
                    return work(self._open())
                except sqlite3.DatabaseError as error:
                    if not _is_damage(error):
                        raise
                    self._begin_anew(error)
                    return work(self._open())
            except (sqlite3.Error, OSError) as error:
                raise LakeError(
                    f"{self.path}: could not be used ({error}); what was there is unchanged. Is the disk full?"
                ) from error

    def _open(self) -> sqlite3.Connection:
        if self._database is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            database = sqlite3.connect(
                self.path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False
            )
            self._inode = self.path.stat().st_ino
            try:
                database.execute("PRAGMA journal_mode = WAL")
                database.execute("PRAGMA synchronous = NORMAL")
                for statement in _SCHEMA:
                    database.execute(statement)
            except sqlite3.Error:
                database.close()
                raise
            self._database = database
        return self._database

    def _begin_anew(self, error: sqlite3.DatabaseError) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None
        if not self.path.exists() or self.path.stat().st_ino != self._inode:
            return  # another process has replaced the file already
        aside = self.path.with_name(f"{self.path.name}.damaged")
        _LOG.warning(
            "%s: damaged (%s); a new file is started, the old one is now %s", self.path, error, aside.name
        )
        _remove_logs(self.path)
        os.replace(self.path, aside)

    def _shrink(self, database: sqlite3.Connection) -> None:
        self._until_look -= 1
        if self._until_look > 0 or self._max_bytes is None:
            return
        self._until_look = _LOOK_EVERY
        total = database.execute("SELECT coalesce(sum(size), 0) FROM blobs").fetchone()[0]
        if total <= self._max_bytes:
            return
        excess = total - int(_AFTER_SHRINKING * self._max_bytes)
        query = "SELECT rowid, size FROM blobs ORDER BY used_at, rowid"
        oldest = []
        for rowid, size in database.execute(query):
            if excess <= 0:
                break
            oldest.append((rowid,))
            excess -= size
        database.executemany("DELETE FROM blobs WHERE rowid = ?", oldest)


def remove_store(path: Path) -> None:
    """Remove a store's file and SQLite's own files beside it."""
    _remove_logs(path)
    path.unlink(missing_ok=True)


def _remove_logs(path: Path) -> None:
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _is_damage(error: sqlite3.DatabaseError) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGE


def _checksum(key: str, plain: bytes) -> bytes:
    return hashlib.blake2b(plain, digest_size=16, key=key.encode()[:64]).digest()
