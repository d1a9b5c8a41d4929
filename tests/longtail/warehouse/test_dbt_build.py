"""dbt on a study: what makes it out of date, its manifest, what a run leaves, and what is known of a build."""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path

import duckdb
import pytest

from longtail.errors import PublishError
from longtail.storage.files import STAGING
from longtail.study.imports import NO_LICENCE, Import, Place
from longtail.study.study import Study
from longtail.warehouse import build
from longtail.warehouse.build import (
    BuildVerdict,
    clear_build,
    project_version,
    read_verdict,
    warehouse_inputs,
)
from tests.in_process_dbt import invoke_dbt
from tests.lakes import LakePlan, make_study
from tests.warehouses import UNANSWERED, copied_study


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Study:
    """A study with two tables, of which nothing is built."""
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path / "home"))
    study = make_study(tmp_path, LakePlan())
    for name in ("answers/all.parquet", "questions/all.parquet"):
        put(study, name)
    return study


def put(study: Study, name: str) -> None:
    path = study.home.lake / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"rows")


@pytest.mark.parametrize(
    "name",
    [
        ".staging/1-all.parquet",
        "answers/.hidden/all.parquet",
        "adaptive_gains/all.parquet",
        "answers/notes.txt",
    ],
)
def test_what_is_no_table_and_what_is_unfinished_count_for_nothing(study: Study, name: str) -> None:
    before = warehouse_inputs(study)
    put(study, name)
    assert warehouse_inputs(study) == before


def test_a_file_that_vanishes_while_it_is_looked_at_is_passed_over(study: Study) -> None:
    before = warehouse_inputs(study)
    # A name that is listed and cannot be looked up, as when another process has just removed the file.
    (study.home.lake / "answers/gone.parquet").symlink_to(study.home.lake / "nowhere.parquet")
    assert warehouse_inputs(study) == before


def test_another_dbt_parses_the_project_again(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    before = project_version(study)
    for package in ("dbt-core", "dbt-duckdb"):
        with monkeypatch.context() as patch:
            patch.setattr(build, "version", lambda name, of=package: "0" if name == of else version(name))
            assert project_version(study) != before


def test_lake_and_study_count(study: Study) -> None:
    before = warehouse_inputs(study)
    described = dataclasses.replace(study, description="in other words")
    assert warehouse_inputs(described) != before
    stated = Import("popqa", Place("questions.tsv"), licence=NO_LICENCE)
    datasets = (dataclasses.replace(study.datasets[0], imported=stated), *study.datasets[1:])
    assert warehouse_inputs(dataclasses.replace(study, datasets=datasets)) != before
    put(study, "triples/all.parquet")
    assert warehouse_inputs(study) != before


def test_other_rows_count_and_another_time_does_not(study: Study) -> None:
    before, path = warehouse_inputs(study), study.home.lake / "answers/all.parquet"
    when = path.stat().st_mtime_ns
    os.utime(path, ns=(when, when - 10**9))
    assert warehouse_inputs(study) == before
    path.write_bytes(b"others")
    os.utime(path, ns=(when, when))
    assert warehouse_inputs(study) != before


WHOLE = json.dumps({"nodes": {}})


def dbt(monkeypatch: pytest.MonkeyPatch, parse: Callable[[Path], object]) -> None:
    """A dbt whose parse writes into the folder that it is given, as `parse` does."""

    def run(_study: Study, *command: str) -> None:
        (folder,) = (Path(after) for word, after in pairwise(command) if "target" in word)
        (folder / "partial_parse.msgpack").write_bytes(b"")
        parse(folder / "manifest.json")

    monkeypatch.setattr(build, "require_dbt", run)


def test_nobody_sees_a_manifest_that_dbt_still_writes(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    dbt(monkeypatch, lambda file: file.write_text(WHOLE))
    path = build.prepare_manifest(study)
    monkeypatch.setattr(build, "project_version", lambda _study: "another")
    path.write_text('{"nodes": {}, "of": "the project before"}')
    before = path.read_bytes()

    def parse(file: Path) -> None:
        file.write_text(WHOLE[:4])
        assert path.read_bytes() == before
        raise PublishError("no room")

    dbt(monkeypatch, parse)
    with pytest.raises(PublishError, match="no room"):
        build.prepare_manifest(study)
    assert path.read_bytes() == before
    assert list((path.parents[1] / STAGING).iterdir()) == []
    dbt(monkeypatch, lambda file: file.write_text(WHOLE))
    assert build.prepare_manifest(study).read_text() == WHOLE


def test_one_process_parses_while_another_waits(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    lock, asked, parses, found = build.only_one, list[Path](), list[Path](), list[str]()
    both = threading.Event()

    def ask(path: Path, message: str | None) -> AbstractContextManager[None]:
        asked.append(path)
        if len(asked) == 2:
            both.set()
        return lock(path, message)

    def prepare() -> None:
        found.append(build.prepare_manifest(study).read_text())

    other = threading.Thread(target=prepare)

    def parse(file: Path) -> None:
        parses.append(file)
        if len(parses) == 1:
            other.start()
            assert both.wait(60)
        file.write_text(WHOLE)

    monkeypatch.setattr(build, "only_one", ask)
    dbt(monkeypatch, parse)
    prepare()
    other.join()
    assert (found, len(parses)) == ([WHOLE, WHOLE], 1)


@pytest.mark.parametrize("damage", [WHOLE[:4], WHOLE + WHOLE, "[]"], ids=["cut", "two", "no object"])
def test_a_damaged_manifest_is_made_again(study: Study, monkeypatch: pytest.MonkeyPatch, damage: str) -> None:
    dbt(monkeypatch, lambda file: file.write_text(WHOLE))
    path = build.prepare_manifest(study)
    path.write_text(damage)
    assert build.prepare_manifest(study).read_text() == WHOLE


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Study:
    return copied_study(UNANSWERED, monkeypatch, tmp_path / "study")


def test_models_that_were_never_built_count_as_failures(built: Study) -> None:
    built.home.build_warehouse.unlink()
    invoke_dbt(built, "build", "--select", "stg_study__models")
    with duckdb.connect() as connection:
        connection.execute(f"attach '{built.home.build_warehouse}' as build (read_only)")
        assert any("fct_adaptive_accuracy: not built yet" in f for f in read_verdict(connection).failures)


def test_a_file_that_dbt_never_wrote_has_no_verdict(tmp_path: Path) -> None:
    with duckdb.connect() as connection:
        connection.execute(f"attach '{tmp_path / 'empty.duckdb'}' as build")
        with pytest.raises(PublishError, match="build the warehouse first"):
            read_verdict(connection)


@pytest.mark.parametrize("n_bytes", [0, 4_096, 8_192, 20_000])
def test_a_build_that_nothing_opens_any_more_is_removed(
    n_bytes: int, built: Study, caplog: pytest.LogCaptureFixture
) -> None:
    """What a disk that is full while DuckDB begins the file leaves."""
    build, log = built.home.build_warehouse, logging.getLogger(__name__)
    clear_build(built, log)
    with duckdb.connect(str(build)):
        clear_build(built, log)  # it is open, in this very process
    assert build.exists()
    build.write_bytes(build.read_bytes()[:n_bytes])
    clear_build(built, log)
    assert not build.exists()
    assert "built again" in caplog.text
    with duckdb.connect(str(build)) as connection:
        connection.execute("create table rows (a integer)")


def test_a_build_that_another_process_holds_is_left_alone(built: Study) -> None:
    build = built.home.build_warehouse
    code = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('open', flush=True); sys.stdin.read()"
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(build)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        clear_build(built, logging.getLogger(__name__))
        assert build.exists()
    finally:
        holder.kill()
        holder.communicate()


def verdict_of(built: Study) -> BuildVerdict:
    with duckdb.connect() as connection:
        connection.execute(f"attach '{built.home.build_warehouse}' as build (read_only)")
        return read_verdict(connection)


def test_marts_older_than_what_they_are_made_from_are_named_until_they_are_built_again(built: Study) -> None:
    assert verdict_of(built).failures == ()
    upstream = "int_adaptive_split_accuracy"
    invoke_dbt(built, "run", "--select", upstream)
    (failure,) = verdict_of(built).failures
    assert f"fct_adaptive_accuracy ({upstream} is newer)" in failure
    assert f"fct_leaderboard ({upstream} is newer)" in failure  # which reads it through fct_adaptive_accuracy
    assert "fct_accuracy " not in failure
    assert "build them again" in failure
    with duckdb.connect(str(built.home.build_warehouse)) as connection:  # before the clock was set back
        connection.execute(
            "update audit.invocations set started_at = '2099-01-01', finished_at = '2099-01-01'"
        )
        before = connection.execute("select max_by(invocation_id, number) from audit.invocations").fetchone()
    invoke_dbt(built, "run", "--select", f"{upstream}+")
    verdict = verdict_of(built)
    assert verdict.failures == ()
    assert (verdict.invocation_id,) != before


def test_after_a_run_that_was_killed_only_what_is_built_again_is_known(built: Study) -> None:
    with duckdb.connect(str(built.home.build_warehouse)) as connection:
        connection.execute("insert into audit.invocations values ('killed', '1', now(), null, 1000)")
    with pytest.raises(PublishError, match="did not finish"):
        verdict_of(built)
    invoke_dbt(built, "run", "--select", "stg_study__models")
    failures = verdict_of(built).failures
    assert any("model fct_accuracy: not known since a dbt run was killed" in failure for failure in failures)
    assert not any("model stg_study__models: " in failure for failure in failures)
