"""What makes a published warehouse out of date, and what does not."""

from __future__ import annotations

import dataclasses
import os
from importlib.metadata import version
from pathlib import Path

import pytest

from longtail.study.imports import NO_LICENCE, Import, Place
from longtail.study.study import Study
from longtail.warehouse import build
from longtail.warehouse.build import project_version, warehouse_inputs
from tests.lakes import LakePlan, make_study


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Study:
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
