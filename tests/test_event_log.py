"""The history's databases are written without waiting for the disk, others as ever, and nothing is lost."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool

from dagster_project.event_log import written_at_leisure


def add(file: Path) -> int:
    """Add a row as Dagster does, by a connection of its own; return how SQLite waits: 1 = normal, 2 = full."""
    with create_engine(f"sqlite:///{file}", poolclass=NullPool).connect() as connection:
        connection.execute(text("pragma journal_mode = wal"))
        connection.execute(text("create table if not exists events (n integer)"))
        connection.execute(text("insert into events values (1)"))
        connection.commit()
        return int(connection.execute(text("pragma synchronous")).scalar_one())


def rows(file: Path) -> int:
    with create_engine(f"sqlite:///{file}", poolclass=NullPool).connect() as connection:
        return int(connection.execute(text("select count(*) from events")).scalar_one())


def test_only_the_databases_of_the_folder_are_written_at_leisure(tmp_path: Path) -> None:
    history, other = tmp_path / "history", tmp_path / "other"
    history.mkdir()
    other.mkdir()
    mine, theirs = history / "index.db", other / "index.db"
    with written_at_leisure(history):
        assert [add(mine) for _ in range(3)] == [1, 1, 1]
        assert [add(theirs) for _ in range(3)] == [2, 2, 2]
        # SQLite tidies up, and waits, when the last connection has closed: one stays open
        assert mine.with_name("index.db-wal").exists()
        assert not theirs.with_name("index.db-wal").exists()
    assert not mine.with_name("index.db-wal").exists()
    assert add(mine) == 2
    assert (rows(mine), rows(theirs)) == (4, 3)
