"""A database in Postgres that several machines write, in place of a file of SQLite (`sqlite_file`).

Statements are those that SQLite reads, too, with ? for their values. In `write`, one process at a time holds the lock of
a schema, so that what it has read stays true until it has written; `add` reads nothing, and does without.
"""

from __future__ import annotations

import contextlib
import logging
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from longtail.errors import LakeError, single_line
from longtail.storage.sqlite_file import PATIENCE_S

if TYPE_CHECKING:
    import psycopg

_PAUSE_S = 0.5
_BROKEN_AT_MOST = 5
_AWAY = {"08", "53", "57"}
"""Classes of Postgres's errors: the connection is lost, there is no room for one more, the server stops."""
_OPTIONS: Any = {
    "connect_timeout": 10, "keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}  # fmt: skip
_SESSION = """
    set lock_timeout = 1000;  -- ms; Ctrl-C is noticed only between statements
    set statement_timeout = 0;
    set idle_in_transaction_session_timeout = 0;
    set default_transaction_isolation = 'read committed';
    set default_transaction_read_only = off;
    select set_config('synchronous_commit', 'on', false) where current_setting('synchronous_commit') = 'off'
"""
"""What a role or server may have set otherwise, so that a batch would be given up, or lost after it was stored."""
_MAY_WRITE = "select has_database_privilege(current_database(), 'CREATE') and not pg_is_in_recovery()"
_ADDRESS = re.compile(r"[^:]+://([^@/]*@)?[^@]*")
_REACHED: set[str] = set()
"""Addresses that have let this process in: from then on it waits for their server."""
_ROWS_AT_ONCE = 100
_AMONG = re.compile(r"in \([?,]+\)")
Answer = TypeVar("Answer")


class Connection:
    """A connection that is used as one of SQLite."""

    def __init__(self, raw: psycopg.Connection, schema: str) -> None:
        self.raw, self._schema = raw, schema

    def execute(self, query: str, values: Sequence[Any] = ()) -> Any:
        """Run a statement; the result can be read row by row."""
        cursor = self.raw.cursor(binary=True)
        if _AMONG.search(query):  # rows are read while the server looks for more
            among = _AMONG.sub("= any(%b)", query)
            return cursor.stream(among.encode(), [list(values)], size=_ROWS_AT_ONCE)
        return cursor.execute(query.replace("?", "%s").encode(), values or None)

    def executemany(self, query: str, rows: Sequence[Sequence[Any]]) -> Any:
        """Run an insertion for all rows; the result has their `rowcount`."""
        cursor = self.raw.cursor()
        cursor.executemany(query.replace("?", "%s").encode(), rows)
        return cursor

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """All changes of the body or none; no other process writes to the schema meanwhile."""
        import psycopg

        try:
            begin = "begin; select pg_advisory_xact_lock(hashtext(%s))"  # two statements, in one request
            psycopg.ClientCursor(self.raw).execute(begin, [self._schema])
            yield
            self.execute("commit")
        except BaseException:
            with contextlib.suppress(psycopg.Error):  # of a connection that is broken
                self.execute("rollback")
            raise


class PostgresSchema:
    """The schema `name` of the database at `address` (postgresql://user:password@host/database), made if it is missing.

    `setup`: statements that make its tables. Threads may share it.
    """

    def __init__(self, address: str, name: str, setup: Sequence[str], log: logging.Logger) -> None:
        self._address, self._name, self._setup, self._log = address, name, setup, log
        self._lock = threading.Lock()
        self._connection: Connection | None = None

    def run(self, act: Callable[[Any], Answer]) -> Answer:
        """The result of `act`, which is called again after a broken connection or a lock: it changes all or nothing.

        Errors: `LakeError` in one line, if the server does not answer the first time or refuses the statement.
        """
        import psycopg

        with self._lock:
            told_at, n_broken = time.monotonic(), 0
            while True:
                try:
                    self._connection = self._connection or self._connect()
                    return act(self._connection)
                except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
                    cause = "another process keeps it locked"
                except psycopg.Error as error:
                    cause, used = single_line(str(error)), self._connection
                    is_away = bool(used.raw.closed) if used else (error.sqlstate or "08")[:2] in _AWAY
                    n_broken += used is not None
                    if self._address not in _REACHED or not is_away or n_broken > _BROKEN_AT_MOST:
                        raise LakeError(f"the row cache in Postgres: {cause}") from error
                    self._connection = None
                if time.monotonic() - told_at > PATIENCE_S:
                    self._log.warning(
                        "the row cache in Postgres does not answer; waiting, since results must be stored: %s",
                        cause,
                    )
                    told_at = time.monotonic()
                time.sleep(_PAUSE_S)

    def add(self, table: str, rows: Sequence[Sequence[Any]]) -> bool:
        """Insert rows of bytes and whole numbers at once; False, and no row is there, if a key of theirs was.

        The rows must be in the order of their keys: processes that add the same ones then do not block each other.
        """
        import psycopg

        types = ["bytea" if isinstance(value, bytes) else "int8" for value in rows[0]]

        def copy(connection: Connection) -> bool:
            try:
                with connection.raw.cursor().copy(f"copy {table} from stdin (format binary)") as into:
                    into.set_types(types)
                    for row in rows:
                        into.write_row(row)
            except psycopg.errors.UniqueViolation:
                return False
            return True

        return self.run(copy)

    def write(self, act: Callable[[Any], Answer]) -> Answer:
        """As `run`, in a transaction."""

        def whole(connection: Connection) -> Answer:
            with connection.transaction():
                return act(connection)

        return self.run(whole)

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.raw.close()
                self._connection = None

    def _connect(self) -> Connection:
        raw = connect(self._address)
        connection, schema = Connection(raw, self._name), f'"{self._name.replace(chr(34), 2 * chr(34))}"'
        raw.execute(_SESSION)
        with connection.transaction():
            connection.execute(f"create schema if not exists {schema}")
            connection.execute(f"set search_path = {schema}")
            for statement in self._setup:
                connection.execute(statement)
        return connection


def connect(address: str) -> psycopg.Connection:
    """A new connection. Errors: `psycopg.Error`, which does not show the password."""
    import psycopg

    try:
        if "://" in address and not _ADDRESS.fullmatch(address):
            raise psycopg.ProgrammingError  # messages would show what follows an @ or / of the password
        raw = psycopg.connect(re.sub(r"^(\w+)\+psycopg2?:", r"\1:", address), autocommit=True, **_OPTIONS)
    except (psycopg.ProgrammingError, UnicodeError):
        raise psycopg.OperationalError(
            "the address is not of the form postgresql://user:password@host/database, in which a password has its"
            " special characters as %40"
        ) from None
    _REACHED.add(address)
    return raw


def check_postgres(address: str) -> None:
    """Errors: `LakeError` in one line, if the database does not let us in, or we may not make a schema there."""
    import psycopg

    try:
        with contextlib.closing(connect(address)) as raw, raw.cursor() as cursor:
            cursor.execute(_MAY_WRITE)
            may_write = cursor.fetchone()
    except psycopg.Error as error:
        raise LakeError(single_line(str(error))) from error
    if may_write != (True,):
        raise LakeError(
            "the server is a read-only copy, or the role may not create a schema: grant it CREATE on the database"
        )
