"""What every statistic has in common: it is computed once, and says what it needs."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from dagster_project.core.errors import LakeError
from dagster_project.core.statistics.registry import STATISTICS
from dagster_project.core.statistics.statistic import Rows, Statistic, materialise
from dagster_project.core.statistics.tuned_models import TUNED_MODELS
from dagster_project.core.storage.lake import Lake
from tests.lakes import LakePlan, make_study
from tests.warehouses import AWKWARD, built_study, lake_of

LOG = logging.getLogger(__name__)
each_statistic = pytest.mark.parametrize("statistic", STATISTICS, ids=lambda one: one.name)


@each_statistic
def test_a_second_call_is_current(statistic: Statistic, monkeypatch: pytest.MonkeyPatch) -> None:
    study = built_study(AWKWARD, monkeypatch)
    outcomes = materialise(statistic, study, lake_of(study), LOG)
    assert [outcome.table for outcome in outcomes] == list(statistic.tables)
    assert all(outcome.was_current for outcome in outcomes)


@each_statistic
def test_without_a_build_it_says_what_to_do(
    statistic: Statistic, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path / "home"))
    study = make_study(tmp_path, LakePlan())
    with pytest.raises(LakeError, match="first pass"):
        materialise(statistic, study, Lake(study.home.lake), LOG)


@pytest.mark.parametrize(("recorded", "was_current"), [("first", True), ("second", False)])
def test_a_build_that_recorded_the_same_inputs_is_not_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, recorded: str, was_current: bool
) -> None:
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path / "home"))
    study = make_study(tmp_path, LakePlan())
    one = replace(TUNED_MODELS, models=("int_one",), queries=("select * from one",), compute=no_rows)
    study.home.build_warehouse.parent.mkdir(parents=True)
    with duckdb.connect(str(study.home.build_warehouse)) as build:
        build.execute("create schema audit; create table audit.inputs (unique_id varchar, inputs varchar)")
        build.execute("insert into audit.inputs values ('model.longtail.int_one', 'first')")
        build.execute("create table one as select 1 as number")
    materialise(one, study, Lake(study.home.lake), LOG)
    with duckdb.connect(str(study.home.build_warehouse)) as build:
        build.execute("update audit.inputs set inputs = ?", [recorded])
        build.execute("alter table one add column changed_by_hand integer")
    assert [outcome.was_current for outcome in materialise(one, study, Lake(study.home.lake), LOG)] == [
        was_current
    ]


def test_without_a_record_the_content_decides(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path / "home"))
    study = make_study(tmp_path, LakePlan())
    one = replace(TUNED_MODELS, models=("int_one",), queries=("select * from one",), compute=no_rows)
    study.home.build_warehouse.parent.mkdir(parents=True)
    found = []
    for number in (1, 1, 2):
        with duckdb.connect(str(study.home.build_warehouse)) as build:
            build.execute(f"create or replace table one as select {number} as number")
        found += [outcome.was_current for outcome in materialise(one, study, Lake(study.home.lake), LOG)]
    assert found == [False, True, False]


def no_rows(_read: Sequence[pa.Table], _seed: int, _log: logging.Logger) -> dict[str, Rows]:
    return {table: [] for table in TUNED_MODELS.tables}


no_rows.__module__ = TUNED_MODELS.compute.__module__
