"""SQLite files that several processes write: opening them, waiting for locks, starting anew after damage.

SQLite's own timeout does not cover every lock: the switch of a new file to WAL fails at once while another process
writes it, and a recovery after kill -9 may end as a protocol error. So whatever meets a lock here is tried again. A file
that SQLite calls damaged is renamed together with its log, and a new one is started.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import sqlite3
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from longtail.errors import LakeError
from longtail.storage.files import has_no_room, is_disk_full

PATIENCE_S = 60.0
"""How long a lock of another process is waited for, before an error or a warning names it."""
_BUSY_S = 1.0  # SQLite's own wait; it does not notice Ctrl-C
_PAUSE_S = 0.02
_LOCKED = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL})
_UNAVAILABLE = frozenset({
    sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISUSE,
})  # fmt: skip
"""SQLite's primary error codes that blame the machine or the program; all others but locks blame the file."""
Answer = TypeVar("Answer")


class SqliteFile:
    """The database `path`, opened when it is first used; threads and processes may share it.

    `setup`: pragmas and `create ... if not exists`, run at each opening. `waits_on`: a lock is waited for without end,
    with a warning every `PATIENCE_S`; otherwise it is an error by then. After damage the new file gets what comes next.
    """

    def __init__(
        self, path: Path, setup: tuple[str, ...], log: logging.Logger, *, waits_on: bool = False
    ) -> None:
        self.path = path
        self._setup, self._log, self._waits_on = setup, log, waits_on
        self._lock = threading.Lock()
        self._database: sqlite3.Connection | None = None
        self._inode: int | None = None  # of the open file

    @property
    def exists(self) -> bool:
        return self._database is not None or self.path.exists()

    def run(self, act: Callable[[sqlite3.Connection], Answer]) -> Answer:
        """The result of `act`, which is called again after a lock or damage: it changes all or nothing.

        Errors: `LakeError` where the file is locked for long, or cannot be read or written; its content is unchanged.
        """
        with self._lock:
            asked, was_damaged = time.monotonic(), False
            while True:
                try:
                    return act(self._open())
                except (sqlite3.Error, OSError) as error:
                    self._close()
                    if _code(error) in _LOCKED:
                        asked = self._wait(asked)
                    elif _is_damage(error) and not was_damaged:
                        was_damaged = self._set_aside(error)
                    else:
                        raise self._failure(error) from error

    def write(self, act: Callable[[sqlite3.Connection], Answer]) -> Answer:
        """As `run`, in a transaction."""

        def whole(connection: sqlite3.Connection) -> Answer:
            with transaction(connection):
                return act(connection)

        return self.run(whole)

    def close(self) -> None:
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    def _open(self) -> sqlite3.Connection:
        if self._database is not None and _inode(self.path) != self._inode:
            self._close()  # another process has set the file aside
        if self._database is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.touch()
            self._inode = _inode(self.path)
            database = sqlite3.connect(
                self.path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False
            )
            try:
                for statement in self._setup:
                    database.execute(statement).close()
            except sqlite3.Error:
                database.close()
                raise
            self._database = database
        return self._database

    def _wait(self, asked: float) -> float:
        """Wait a little for a lock that was met at `asked`; the time from which the next wait counts."""
        if time.monotonic() - asked > PATIENCE_S:
            line = f"{self.path}: another process has kept it locked for {PATIENCE_S:g} s"
            if not self._waits_on:
                raise LakeError(f"{line}; what was there is unchanged: end that process, then run again")
            self._log.warning("%s; waiting for it, since what was computed or paid for must be stored", line)
            asked = time.monotonic()
        time.sleep(_PAUSE_S)
        return asked

    def _set_aside(self, error: Exception) -> bool:
        """Rename a damaged file, after its log: a new file must not meet that. False if another process has done so."""
        with contextlib.suppress(FileNotFoundError), self.path.open("rb") as damaged:
            fcntl.flock(damaged, fcntl.LOCK_EX)
            if _inode(self.path) == self._inode:
                aside = f"{self.path}.damaged-{uuid.uuid4().hex}"
                for suffix in ("-wal", "-shm", "-journal", ""):
                    with contextlib.suppress(FileNotFoundError):
                        os.replace(f"{self.path}{suffix}", aside + suffix)
                self._log.warning(
                    "%s: damaged (%s): set aside as %s, and a new file is started", self.path, error, aside
                )
                return True
        return False

    def _failure(self, error: Exception) -> LakeError:
        cause = f"could not be used ({error})"
        if is_disk_full(error) or has_no_room(self.path.parent):
            cause = "the disk is full"
        return LakeError(
            f"{self.path}: {cause}; what was there is unchanged: free space or mend the folder, then run again"
        )


@contextlib.contextmanager
def transaction(database: sqlite3.Connection) -> Iterator[None]:
    """All changes of the body or none. It begins with the lock, since SQLite does not wait once the body has read."""
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return None


def _code(error: Exception) -> int | None:
    """SQLite's primary error code."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def _is_damage(error: Exception) -> bool:
    if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_IOERR_SHORT_READ:
        return True
    return isinstance(error, sqlite3.Error) and _code(error) is not None and _code(error) not in _UNAVAILABLE
