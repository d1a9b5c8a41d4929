"""A database in Postgres that several machines write, in place of a file of SQLite (`sqlite_file`).

What belongs here: connecting, waiting for a server that restarts, transactions. What does not: what is stored (the row
cache of generation).

Statements are those that SQLite reads, too, with ? for their values. One writer at a time holds the lock of a schema, so
that what it has read stays true until it has written.
"""

from __future__ import annotations

import contextlib
import logging
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from dagster_project.core.errors import LakeError, single_line
from dagster_project.core.storage.sqlite_file import PATIENCE_S

if TYPE_CHECKING:
    import psycopg2.extensions

_PAUSE_S = 0.5
_CONNECT_S = 10
_ROWS_AT_ONCE = 500
_VALUES = re.compile(r"\(\?(, \?)*\)")
_BYTEA = 17  # Postgres's number of the type
Answer = TypeVar("Answer")


class Connection:
    """A connection that is used as one of SQLite."""

    def __init__(self, raw: psycopg2.extensions.connection, schema: str) -> None:
        self.raw, self._schema = raw, schema

    def execute(self, query: str, values: Sequence[Any] = ()) -> Any:
        """Run a statement; the result can be read row by row."""
        cursor = self.raw.cursor()
        cursor.execute(query.replace("?", "%s"), values)
        return cursor

    def executemany(self, query: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run an insertion for each of the rows, many at a time."""
        from psycopg2.extras import execute_values

        with self.raw.cursor() as cursor:
            execute_values(cursor, _VALUES.sub("%s", query), rows, page_size=_ROWS_AT_ONCE)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """All changes of the body or none; no other process writes to the schema meanwhile."""
        try:
            self.execute("begin; select pg_advisory_xact_lock(hashtext(?))", [self._schema])
            yield
            self.execute("commit")
        except BaseException:
            if not self.raw.closed:
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
        """The result of `act`. If the connection breaks, it is called again once the server answers: it changes all or
        nothing. Errors: `LakeError` in one line, if the server does not answer at first or refuses the statement."""
        import psycopg2

        with self._lock:
            was_connected, told_at = self._connection is not None, time.monotonic()
            while True:
                try:
                    self._connection = self._connection or self._connect()
                    was_connected = True
                    return act(self._connection)
                except psycopg2.Error as error:
                    is_broken = self._connection is None or bool(self._connection.raw.closed)
                    if not was_connected or not is_broken:
                        raise LakeError(single_line(f"the row cache in Postgres: {error}")) from error
                    self._connection = None
                if time.monotonic() - told_at > PATIENCE_S:
                    self._log.warning(
                        "the row cache in Postgres does not answer; waiting, since results must be stored"
                    )
                    told_at = time.monotonic()
                time.sleep(_PAUSE_S)

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
        from psycopg2 import BINARY, extensions

        raw = connect(self._address)
        to_bytes = extensions.new_type((_BYTEA,), "BYTES", lambda value, cursor: bytes(BINARY(value, cursor)))
        extensions.register_type(to_bytes, raw)
        raw.autocommit = True
        connection = Connection(raw, self._name)
        with connection.transaction():
            connection.execute(f'create schema if not exists "{self._name}"')
            connection.execute(f'set search_path = "{self._name}"')
            for statement in self._setup:
                connection.execute(statement)
        connection.execute(f'set search_path = "{self._name}"')
        return connection


def connect(address: str) -> psycopg2.extensions.connection:
    """A new connection. Errors: `psycopg2.Error`, which does not show the address."""
    import psycopg2

    try:
        return psycopg2.connect(address.replace("+psycopg2", "", 1), connect_timeout=_CONNECT_S)
    except psycopg2.ProgrammingError:
        raise psycopg2.OperationalError(
            "the address is not of the form postgresql://user:password@host/database"
        ) from None


def check_postgres(address: str) -> None:
    """Errors: `LakeError` in one line, if the database does not let us in."""
    import psycopg2

    try:
        connect(address).close()
    except psycopg2.Error as error:
        raise LakeError(single_line(str(error))) from error
