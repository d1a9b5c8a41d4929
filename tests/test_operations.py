"""Dead runs and their locks; which study owns a home; errors of the disk as one line."""

from __future__ import annotations

import errno
import shutil
import sqlite3
import time
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.storage.event_log import SqliteEventLogStorage
from sqlalchemy import create_engine, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.pool import NullPool

from dagster_project.operations import (
    claim_home,
    ease_history,
    error_line,
    open_instance,
    prepare_dagster_home,
    reap_dead_runs,
)
from longtail.errors import LakeError, LongtailError, StudyError
from longtail.storage.home import PROJECT_ROOT, StudyHome
from longtail.storage.ownership import (
    PLACE,
    forget_run,
    hold_run,
    is_run_dead,
    list_runs,
    only_one,
    place_of,
)
from longtail.study.file import load_study
from tests.journeys.commands import small_study
from tests.small_disk import files_up_to


def test_locks_of_ended_runs_are_removed_and_those_of_living_and_others_runs_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONGTAIL_DAGSTER_YAML", "several homes share this history")
    home = StudyHome(tmp_path, tmp_path)
    (home.locks / "runs").mkdir(parents=True)
    started, here = dg.DagsterRunStatus.STARTED, place_of(home.locks)
    with dg.DagsterInstance.ephemeral() as instance:
        ended, killed, living, elsewhere = (
            instance.create_run_for_job(_job, status=status, tags={PLACE: place}).run_id
            for status, place in (
                (dg.DagsterRunStatus.SUCCESS, here), (started, here), (started, here), (started, f"other{here}")
            )
        )  # fmt: skip
        for run_id in (ended, killed, "unknown"):
            (home.locks / "runs" / f"{run_id}.lock").touch()
        hold_run(home.locks, living)
        try:
            assert reap_dead_runs(instance, home) == [killed]
            assert list_runs(home.locks) == [living]
        finally:
            forget_run(home.locks, living)
        found = {run.run_id: run.status for run in instance.get_runs()}
        assert (found[killed], found[living], found[elsewhere]) == (
            dg.DagsterRunStatus.FAILURE,
            started,
            started,
        )


def test_a_home_keeps_its_id_and_its_copy_gets_another(tmp_path: Path) -> None:
    """Two machines may have one host name, and a home in the same folder."""
    here, copy = (StudyHome(tmp_path / name, tmp_path / name).locks for name in ("here", "copy"))
    found = place_of(here)
    assert place_of(here) == found
    shutil.copytree(here, copy)
    assert place_of(copy) == place_of(copy) != found
    (here / "place").write_bytes(b"")  # a full disk
    assert place_of(here) == place_of(here) != found


@pytest.mark.parametrize(("age_s", "is_dead"), [(5.0, False), (90_000.0, True), (-90_000.0, True)])
def test_a_run_that_began_long_ago_or_after_now_without_a_lock_is_dead(
    tmp_path: Path, age_s: float, is_dead: bool
) -> None:
    """The start of a run that was killed before the clock went back by a day lies in the future."""
    assert is_run_dead(tmp_path, "unknown", time.time() - age_s) == is_dead


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

    def opened() -> None:
        with only_one(study.home.locks / "history.lock", "is held"):
            pass

    monkeypatch.setattr(dg.DagsterInstance, "get", opened)
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
        assert not [path for path in study.home.root.rglob("*") if path.is_file()]
    claim_home(study)
    prepare_dagster_home(study.home)
    settings = study.home.dagster / "dagster.yaml"
    assert settings.read_bytes() == (PROJECT_ROOT / "dagster.yaml").read_bytes()
    assert sorted(path.name for path in study.home.root.rglob("*") if path.is_file()) == [
        "dagster.yaml",
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


def test_settings_that_were_removed_from_a_home_are_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DAGSTER_HOME", "set by prepare_dagster_home")
    study = load_study(small_study(tmp_path, "fake:digest"))
    for _ in range(2):
        prepare_dagster_home(study.home)
        (study.home.dagster / "dagster.yaml").unlink()


def test_a_limit_that_another_machine_sets_at_the_same_time_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DAGSTER_HOME", "set by open_instance")
    study = load_study(small_study(tmp_path, "fake:digest"))

    def was_later(self: object, *limit: object) -> None:
        raise IntegrityError("insert", {}, Exception("duplicate key"))

    monkeypatch.setattr(SqliteEventLogStorage, "set_concurrency_slots", was_later)
    with open_instance(study) as instance:
        assert instance.get_runs() == []


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
