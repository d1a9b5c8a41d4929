"""Bytes kept on disk by key, in one SQLite file: answers of services, and vectors that need not be computed again.

SQLite's own log makes each entry whole or absent, also after kill -9. SQLite does not detect a changed byte inside an
entry, so each entry has a checksum. A damaged entry is dropped.
"""

from __future__ import annotations

import hashlib
import logging
import sqlite3
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from longtail.storage.sqlite_file import SqliteFile

_LOG = logging.getLogger(__name__)
_SETUP = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = NORMAL",
    "CREATE TABLE IF NOT EXISTS blobs"
    " (key TEXT PRIMARY KEY, used_at REAL NOT NULL, size INTEGER NOT NULL, checksum BLOB NOT NULL, data BLOB NOT NULL)",
    "CREATE INDEX IF NOT EXISTS by_use ON blobs (used_at, size)",
)
_LOOK_EVERY = 32  # writes between two checks of the size
_AFTER_SHRINKING = 0.8
_RECENT_USES = 20
"""An entry among so many that were used last is not noted again: a request that is repeated at once writes nothing."""
_NEXT = "(SELECT coalesce(max(used_at), 0) + 1 FROM blobs)"
"""Uses are numbered: a clock that is set back would make the newest entries the oldest."""
_KEYS_PER_QUERY = 500


class BlobStore:
    """Bytes by key in the file `path`. Above `max_bytes` (compressed), the least recently used entries are removed.

    Errors: `LakeError` where the disk is full or cannot be written, or another process keeps the file locked; existing
    entries are unchanged.
    """

    def __init__(self, path: Path, max_bytes: int | None = None) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._file = SqliteFile(path, _SETUP, _LOG)
        self._until_look = 0

    def get(self, key: str) -> bytes | None:
        """The bytes of `key`, or None. A damaged entry is dropped and gives None."""
        if not self._file.exists:
            return None
        row = self._file.run(lambda database: self._read(database, key))
        if row is None:
            return None
        checksum, data, n_later_uses = row
        plain = self._whole(key, checksum, data)
        if plain is None:
            return None
        if self._max_bytes is not None and n_later_uses > _RECENT_USES:
            self._execute(f"UPDATE blobs SET used_at = {_NEXT} WHERE key = ?", key)  # noqa: S608
        return plain

    def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        """The entries that are there and whole, by key. Their time of use stays as it is."""
        if not self._file.exists:
            return {}
        found: dict[str, bytes] = {}
        for start in range(0, len(keys), _KEYS_PER_QUERY):
            found |= self._get_some(keys[start : start + _KEYS_PER_QUERY])
        return found

    def _get_some(self, keys: Sequence[str]) -> dict[str, bytes]:
        marks = ",".join("?" * len(keys))
        query = f"SELECT key, checksum, data FROM blobs WHERE key IN ({marks})"  # noqa: S608
        rows = self._file.run(lambda database: database.execute(query, keys).fetchall())
        whole = {key: self._whole(key, checksum, data) for key, checksum, data in rows}
        return {key: plain for key, plain in whole.items() if plain is not None}

    def put_many(self, entries: Mapping[str, bytes]) -> None:
        """Store the entries that are new, all or none of them, without compression; existing ones stay.

        `max_bytes` is not looked at. Errors: `LakeError`.
        """
        rows = [
            (key, len(plain), _checksum(key, plain), zlib.compress(plain, 0))
            for key, plain in entries.items()
        ]

        statement = f"INSERT OR IGNORE INTO blobs VALUES (?, {_NEXT}, ?, ?, ?)"  # noqa: S608
        self._file.write(lambda database: database.executemany(statement, rows))

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
        query = "SELECT checksum, data, (SELECT max(used_at) FROM blobs) - used_at FROM blobs WHERE key = ?"
        row: tuple[bytes, bytes, float] | None = database.execute(query, (key,)).fetchone()
        return row

    def put(self, key: str, plain: bytes) -> None:
        """Store `plain` under `key` and replace any earlier entry. Errors: `LakeError`."""
        data = zlib.compress(plain, 1)
        if self._max_bytes is not None and len(data) > self._max_bytes // 4:
            return
        self._execute(
            f"INSERT OR REPLACE INTO blobs VALUES (?, {_NEXT}, ?, ?, ?)",  # noqa: S608
            *(key, len(data), _checksum(key, plain), data),
        )
        if self._max_bytes is not None:
            self._shrink(self._max_bytes)

    def delete(self, key: str) -> None:
        self._execute("DELETE FROM blobs WHERE key = ?", key)

    def delete_prefix(self, prefix: str) -> None:
        """Delete every key that begins with `prefix`."""
        self._execute("DELETE FROM blobs WHERE substr(key, 1, ?) = ?", len(prefix), prefix)

    def close(self) -> None:
        self._file.close()

    def _execute(self, statement: str, *values: object) -> None:
        self._file.run(lambda database: database.execute(statement, values).close())

    def _shrink(self, max_bytes: int) -> None:
        self._until_look -= 1
        if self._until_look <= 0:
            self._until_look = _LOOK_EVERY
            self._file.write(lambda database: _remove_oldest(database, max_bytes))


def _remove_oldest(database: sqlite3.Connection, max_bytes: int) -> None:
    total = database.execute("SELECT coalesce(sum(size), 0) FROM blobs").fetchone()[0]
    excess = total - int(_AFTER_SHRINKING * max_bytes) if total > max_bytes else 0
    oldest = []
    for rowid, size in database.execute("SELECT rowid, size FROM blobs ORDER BY used_at, rowid"):
        if excess <= 0:
            break
        oldest.append((rowid,))
        excess -= size
    database.executemany("DELETE FROM blobs WHERE rowid = ?", oldest)


def remove_store(path: Path) -> None:
    """Remove a store's file and SQLite's own files beside it."""
    for suffix in ("-wal", "-shm", ""):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _checksum(key: str, plain: bytes) -> bytes:
    return hashlib.blake2b(plain, digest_size=16, key=key.encode()[:64]).digest()
