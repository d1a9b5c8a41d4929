"""Dead runs and their locks; which study owns a home; errors of the disk as one line."""

from __future__ import annotations

import errno
import fcntl
import sqlite3
from pathlib import Path

import dagster as dg
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool

from dagster_project.operations import (
    claim_home,
    ease_history,
    error_line,
    open_instance,
    prepare_dagster_home,
    reap_dead_runs,
    studies_of_home,
)
from longtail.errors import LakeError, LongtailError, StudyError
from longtail.storage.home import PROJECT_ROOT, StudyHome
from longtail.storage.ownership import forget_run, hold_run, list_dead_runs, only_one
from longtail.study.file import load_study
from tests.journeys.commands import small_study
from tests.small_disk import files_up_to


def test_only_runs_of_this_home_whose_process_is_gone_are_marked_and_lose_their_slots(tmp_path: Path) -> None:
    """The others are alive, or belong to another home that shares the history."""
    home = StudyHome(tmp_path, tmp_path / "study")
    home.runs.mkdir(parents=True)
    started, success = dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.SUCCESS
    with dg.instance_for_test() as instance:
        ended, killed, living, elsewhere = (
            instance.create_run_for_job(_job, status=status).run_id
            for status in (success, started, started, started)
        )
        storage = instance.event_log_storage
        storage.set_concurrency_slots("gpu", 3)
        for run_id in (killed, ended, elsewhere):
            assert storage.claim_concurrency_slot("gpu", run_id, "step").is_claimed
        for run_id in (ended, killed, "unknown"):
            (home.runs / f"{run_id}.lock").touch()
        hold_run(home.runs, living)
        try:
            assert reap_dead_runs(instance, home) == [killed]
            assert [path.stem for path in home.runs.iterdir()] == [living]
        finally:
            forget_run(home.runs, living)
        assert [slot.run_id for slot in storage.get_concurrency_info("gpu").claimed_slots] == [elsewhere]
        statuses = {run.run_id: run.status for run in instance.get_runs()}
        assert [statuses[run_id] for run_id in (ended, killed, living, elsewhere)] == [
            success, dg.DagsterRunStatus.FAILURE, started, started,
        ]  # fmt: skip


def test_no_start_sees_the_lock_file_of_a_new_run_before_it_is_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, dead = fcntl.flock, list[list[str]]()

    def look_and_lock(descriptor: int, how: int) -> None:
        if how == fcntl.LOCK_SH:
            dead.append(list_dead_runs(tmp_path))
        lock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", look_and_lock)
    hold_run(tmp_path, "new")
    forget_run(tmp_path, "new")
    assert (dead, list(tmp_path.iterdir())) == ([[]], [])


def test_the_studies_of_a_home_are_those_that_ran_in_it_and_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path / "home"))
    for name in ("a", "broken", "gone"):
        (tmp_path / name).mkdir()
        path = small_study(tmp_path / name, "fake:digest", edit={"name: small\ndesc": f"name: {name}\ndesc"})
        claim_home(load_study(path))
    (tmp_path / "broken/small.yaml").write_text("name: [")
    (tmp_path / "gone/small.yaml").unlink()
    (tmp_path / "home/study_file").write_bytes(b"")  # a full disk
    assert studies_of_home() == {"a": tmp_path / "a/small.yaml"}


@dg.op
def _nothing() -> None: ...


@dg.job
def _job() -> None:
    _nothing()


def test_only_one_process_at_a_time_makes_the_tables_of_the_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path / "home"))
    study = load_study(small_study(tmp_path, "fake:digest"))

    def opened(*_: str) -> None:
        with only_one(study.home.home / "locks/history.lock", "is held"):
            pass

    monkeypatch.setattr(dg.DagsterInstance, "from_config", opened)
    with pytest.raises(LongtailError, match="is held"), open_instance(study):
        pass
    opened()


def test_a_home_belongs_to_one_study_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path / "home"))
    folders = [tmp_path / name for name in ("a", "b")]
    for folder in folders:
        folder.mkdir()
    first, second = (load_study(small_study(folder, "fake:digest")) for folder in folders)
    claim_home(first)
    claim_home(first)
    with pytest.raises(StudyError, match=r"b/small\.yaml: name: 'small' .*/a/small\.yaml"):
        claim_home(second)
    first.path.write_text(first.path.read_text().replace("name: small\ndesc", "name: renamed\ndesc"))
    claim_home(second)
    second.path.unlink()
    claim_home(first)
    assert (first.home.root / "study_file").read_text() == f"{first.path}\n"


@pytest.mark.parametrize("cut_to", [0, 1, 3])
def test_a_home_with_a_truncated_owner_file_is_claimed_again(
    cut_to: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path / "home"))
    study = load_study(small_study(tmp_path, "fake:digest"))
    claim_home(study)
    note = study.home.root / "study_file"
    whole = note.read_bytes()
    note.write_bytes(whole[:cut_to])
    claim_home(study)
    assert note.read_bytes() == whole


def test_small_files_of_a_home_are_whole_or_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DAGSTER_HOME", "set by prepare_dagster_home")
    study = load_study(small_study(tmp_path, "fake:digest"))
    for write in (lambda: claim_home(study), lambda: prepare_dagster_home(study.home)):
        with files_up_to(1), pytest.raises(LakeError, match="could not be written"):
            write()
        assert not [path for path in study.home.home.rglob("*") if path.is_file()]
    claim_home(study)
    prepare_dagster_home(study.home)
    settings = study.home.dagster / "dagster.yaml"
    assert settings.read_bytes() == (PROJECT_ROOT / "dagster.yaml").read_bytes()
    assert sorted(path.name for path in study.home.home.rglob("*") if path.is_file()) == [
        "dagster.yaml",
        "run.yaml",
        "study_file",
    ]


def test_a_failing_disk_is_one_line_that_names_the_place() -> None:
    full = error_line(OSError(errno.ENOSPC, "No space left on device", "/home/x/lake"))
    locked = error_line(sqlite3.OperationalError("database\nis locked"))
    assert "/home/x/lake: No space left on device" in full
    assert "LONGTAIL_HOME" in locked
    assert "database is locked" in locked
    assert "\n" not in full + locked


def test_a_file_that_is_missing_or_forbidden_does_not_blame_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path / "home"))
    missing = FileNotFoundError(errno.ENOENT, "No such file or directory", str(tmp_path / "home"))
    assert "the folder of all state cannot be made there; choose another" in error_line(missing)
    (tmp_path / "home").mkdir()
    lines = {
        "fetch the program's files again": error_line(
            FileNotFoundError(errno.ENOENT, "No such file or directory", str(PROJECT_ROOT / "dagster.yaml"))
        ),
        "something removed it; run again": error_line(
            FileNotFoundError(
                errno.ENOENT, "No such file or directory", str(tmp_path / "home/x/dagster.yaml")
            )
        ),
        "let this user read and write it": error_line(
            PermissionError(errno.EACCES, "Permission denied", "/x")
        ),
        "choose another folder: LONGTAIL_HOME": error_line(
            OSError(errno.EROFS, "Read-only file system", "/x")
        ),
    }
    assert all(words in line and "room" not in line for words, line in lines.items()), lines
    assert "make room" in error_line(OSError(errno.EIO, "Input/output error", "/x"))


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


def test_only_the_databases_of_the_folder_are_ease_history(tmp_path: Path) -> None:
    history, other = tmp_path / "history", tmp_path / "other"
    history.mkdir()
    other.mkdir()
    mine, theirs = history / "index.db", other / "index.db"
    with ease_history(history):
        assert [add(mine) for _ in range(3)] == [1, 1, 1]
        assert [add(theirs) for _ in range(3)] == [2, 2, 2]
        # SQLite tidies up, and waits, when the last connection has closed: one stays open
        assert mine.with_name("index.db-wal").exists()
        assert not theirs.with_name("index.db-wal").exists()
    assert not mine.with_name("index.db-wal").exists()
    assert add(mine) == 2
    assert (rows(mine), rows(theirs)) == (4, 3)
