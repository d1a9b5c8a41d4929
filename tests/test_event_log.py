"""The history's databases are written without waiting for the disk, others as ever, and nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.storage.event_log.sqlite import sqlite_event_log
from sqlalchemy import create_engine, text
from sqlalchemy.engine import Engine
from sqlalchemy.pool import NullPool

from dagster_project import event_log
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


def test_each_of_dagsters_databases_has_one_engine_and_the_history_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def counted(url: str, **options: Any) -> Engine:
        made.append(url)
        return create_engine(url, **options)

    @dg.asset(check_specs=[dg.AssetCheckSpec("always", asset="numbers")])
    def numbers() -> Iterator[Any]:
        yield dg.MaterializeResult(metadata={"n": 3}, check_results=[dg.AssetCheckResult(passed=True)])

    monkeypatch.setattr(event_log, "create_engine", counted)
    before = sqlite_event_log.create_engine
    runs = []
    with written_at_leisure(tmp_path), dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        for _ in range(2):
            runs.append(dg.materialize([numbers], instance=instance).run_id)
        kept = [
            [record.event_log_entry for record in instance.get_records_for_run(run).records] for run in runs
        ]
    assert len(made) == len(set(made)) >= 4  # of both runs, of all runs, and the index
    assert sqlite_event_log.create_engine is before
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        assert [
            [record.event_log_entry for record in instance.get_records_for_run(run).records] for run in runs
        ] == kept
        latest = instance.get_latest_materialization_event(dg.AssetKey("numbers"))
        assert latest is not None
        assert latest.run_id == runs[-1]
        assert {run.status for run in instance.get_runs()} == {dg.DagsterRunStatus.SUCCESS}
