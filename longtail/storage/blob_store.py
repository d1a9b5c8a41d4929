"""Bytes kept on disk by key, in one SQLite file: answers of services, and vectors that need not be computed again.

SQLite's own log makes each entry whole or absent, also after kill -9. SQLite does not detect a changed byte inside an
entry, so each entry has a checksum. A damaged entry is dropped.
"""

from __future__ import annotations

import hashlib
import json
import logging
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from longtail.storage.sqlite_file import SqliteFile

_LOG = logging.getLogger(__name__)
_SETUP = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = NORMAL",
    "CREATE TABLE IF NOT EXISTS entries (key TEXT PRIMARY KEY, checksum BLOB NOT NULL, data BLOB NOT NULL)",
)


class BlobStore:
    """Bytes by key in the file `path`.

    Errors: `LakeError` where the disk is full or cannot be written, or another process keeps the file locked; existing
    entries are unchanged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = SqliteFile(path, _SETUP, _LOG)

    def get(self, key: str) -> bytes | None:
        """The bytes of `key`, or None. A damaged entry is dropped and gives None."""
        return self.get_many([key]).get(key)

    def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        """The entries that are there and whole, by key."""
        if not self._file.exists:
            return {}
        query = "SELECT key, checksum, data FROM entries WHERE key IN (SELECT value FROM json_each(?))"
        rows = self._file.run(lambda database: database.execute(query, [json.dumps(keys)]).fetchall())
        whole = {key: self._whole(key, checksum, data) for key, checksum, data in rows}
        return {key: plain for key, plain in whole.items() if plain is not None}

    def put(self, key: str, plain: bytes) -> None:
        """Store `plain`, compressed, under `key`, unless there is an entry. Errors: `LakeError`."""
        self._put({key: plain}, level=1)

    def put_many(self, entries: Mapping[str, bytes]) -> None:
        """Store the entries that are new, all or none of them, without compression. Errors: `LakeError`."""
        self._put(entries, level=0)

    def _put(self, entries: Mapping[str, bytes], level: int) -> None:
        rows = [(key, _checksum(key, plain), zlib.compress(plain, level)) for key, plain in entries.items()]
        statement = "INSERT OR IGNORE INTO entries VALUES (?, ?, ?)"
        self._file.write(lambda database: database.executemany(statement, rows))

    def _whole(self, key: str, checksum: bytes, data: bytes) -> bytes | None:
        """The plain bytes of an entry; a damaged one is dropped and gives None."""
        try:
            plain = zlib.decompress(data)
        except (zlib.error, TypeError):
            plain = None
        if plain is None or _checksum(key, plain) != checksum:
            _LOG.warning("%s: a damaged entry was dropped", self.path)
            self._file.run(
                lambda database: database.execute("DELETE FROM entries WHERE key = ?", (key,)).close()
            )
            return None
        return plain

    def close(self) -> None:
        self._file.close()


def remove_store(path: Path) -> None:
    """Remove a store's file and SQLite's own files beside it."""
    for suffix in ("-wal", "-shm", ""):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _checksum(key: str, plain: bytes) -> bytes:
    return hashlib.blake2b(plain, digest_size=16, key=key.encode()[:64]).digest()
