"""Begins the database of each Dagster run as a copy of one that Dagster made.

A copy takes a fifth of a study's start.
"""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from dagster._core.storage.event_log import SqliteEventLogStorage
from sqlalchemy import text
from sqlalchemy.engine import Engine


def begin_as_copies() -> None:
    """From now on, Dagster's databases of runs begin as copies in this process and in its forks."""
    begun, make = _first_history(), SqliteEventLogStorage._initdb

    def copy(storage: SqliteEventLogStorage, engine: Engine, for_index_shard: bool = False) -> None:
        with engine.connect() as connection:
            empty = not connection.execute(text("select count(*) from sqlite_master")).scalar_one()
            if empty and not for_index_shard:
                begun.backup(connection.connection.driver_connection)
                connection.execute(text("pragma journal_mode = wal"))
                return
        make(storage, engine, for_index_shard)

    SqliteEventLogStorage._initdb = copy  # type: ignore[method-assign]


def _first_history() -> sqlite3.Connection:
    """The database that Dagster makes for a run, in memory."""
    begun = sqlite3.connect(":memory:", check_same_thread=False)
    with tempfile.TemporaryDirectory() as folder:
        storage = SqliteEventLogStorage(folder)
        with storage.run_connection("run"):
            pass
        with closing(sqlite3.connect(Path(folder) / "run.db")) as made:
            made.execute("pragma journal_mode = delete")  # a log beside it cannot be copied
            made.backup(begun)
    return begun
