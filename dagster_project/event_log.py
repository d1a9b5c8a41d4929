"""Dagster's history in SQLite, written without waiting for the disk at every event.

Dagster opens and closes a database for each of a run's thousand events. SQLite then waits for the disk twice: for the
event, and since the last connection has closed. Here one connection to each database stays open, and SQLite waits only
where it tidies up. A killed process loses nothing, and a power cut at most the last events of the history; the lake
does not depend on them. A lock of another process is waited for as long as in the project's own files.

Dagster also makes an SQLAlchemy engine for each of these connections. A new engine asks SQLite what it can do, and
compiles every statement again. Here each database has one engine.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dagster._core.storage.event_log.sqlite import sqlite_event_log
from dagster._core.storage.runs.sqlite import sqlite_run_storage
from dagster._core.storage.schedules.sqlite import sqlite_schedule_storage
from sqlalchemy import create_engine, event
from sqlalchemy.engine import Engine

from longtail.storage.sqlite_file import PATIENCE_S

_STORAGES: tuple[Any, ...] = (sqlite_event_log, sqlite_run_storage, sqlite_schedule_storage)


@contextlib.contextmanager
def written_at_leisure(folder: Path) -> Iterator[None]:
    """Until this ends, SQLite does not wait for the disk at every change of the databases below `folder`."""
    kept: dict[str, sqlite3.Connection] = {}
    real = folder.resolve()

    def ease(connection: object, _record: object) -> None:
        if not isinstance(connection, sqlite3.Connection):
            return
        file = connection.execute("pragma database_list").fetchone()[2]
        if not Path(file).is_relative_to(real):
            return
        connection.execute("pragma synchronous = normal")
        connection.execute(f"pragma busy_timeout = {PATIENCE_S * 1000:.0f}")
        if file not in kept:
            kept[file] = sqlite3.connect(file, timeout=0, check_same_thread=False)
        with contextlib.suppress(
            sqlite3.OperationalError
        ):  # a new database may be locked; the next time will do
            kept[file].execute("pragma schema_version").fetchone()

    event.listen(Engine, "connect", ease)
    try:
        with _one_engine_per_database():
            yield
    finally:
        event.remove(Engine, "connect", ease)
        for connection in kept.values():
            connection.close()


@contextlib.contextmanager
def _one_engine_per_database() -> Iterator[None]:
    """Until this ends, Dagster's storages get the same engine for the same database."""
    engines: dict[str, Engine] = {}

    def engine_of(url: str, **options: Any) -> Engine:
        if url not in engines:
            engines[url] = create_engine(url, **options)
        return engines[url]

    before = [storage.create_engine for storage in _STORAGES]
    for storage in _STORAGES:
        storage.create_engine = engine_of
    try:
        yield
    finally:
        for storage, own in zip(_STORAGES, before, strict=True):
            storage.create_engine = own
