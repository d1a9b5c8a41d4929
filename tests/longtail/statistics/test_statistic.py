"""What every statistic has in common: it is computed once, and says what it needs."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from longtail.statistics.registry import STATISTICS
from longtail.statistics.statistic import Rows, Statistic, materialise
from longtail.statistics.tuned_models import TUNED_MODELS

from longtail.errors import LakeError
from longtail.statistics.signal_quality import SIGNAL_QUALITY
from longtail.storage.lake import Lake
from longtail.tables import TABLES
from tests.lakes import LakePlan, make_study
from tests.warehouses import AWKWARD, built_study, copied_study, lake_of

LOG = logging.getLogger(__name__)
each_statistic = pytest.mark.parametrize("statistic", STATISTICS, ids=lambda one: one.name)


@each_statistic
def test_a_second_call_is_current(statistic: Statistic, monkeypatch: pytest.MonkeyPatch) -> None:
    study = built_study(AWKWARD, monkeypatch)
    outcomes = materialise(statistic, study, lake_of(study), LOG)
    assert list(dict.fromkeys(outcome.table for outcome in outcomes)) == list(statistic.tables)
    assert all(outcome.was_current for outcome in outcomes)


@each_statistic
def test_without_a_build_it_says_what_to_do(
    statistic: Statistic, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path / "home"))
    study = make_study(tmp_path, LakePlan())
    with pytest.raises(LakeError, match="first pass"):
        materialise(statistic, study, Lake(study.home.lake), LOG)


@pytest.mark.parametrize(
    "statistic", [one for one in STATISTICS if TABLES[one.tables[0]].partitioned_by], ids=lambda one: one.name
)
def test_only_models_whose_rows_changed_are_computed_again(
    statistic: Statistic, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    study = copied_study(AWKWARD, monkeypatch, tmp_path / "study")
    lake = lake_of(study)
    before = {table: lake.read_all(table).to_pylist() for table in statistic.tables}
    assert all(before.values())
    gone, changed = "perfect", "small"
    with duckdb.connect(str(study.home.build_warehouse)) as build:
        for name in statistic.models:
            columns = {row[0] for row in build.execute(f"describe intermediate.{name}").fetchall()}
            if "model" in columns:
                build.execute(f"delete from intermediate.{name} where model = ?", [gone])
    for table in statistic.tables:
        lake.discard(table, changed)
    study = replace(study, models=tuple(model for model in study.models if model.name != gone))
    outcomes = materialise(statistic, study, lake, LOG)
    assert {outcome.partition for outcome in outcomes if not outcome.was_current} == {changed}
    for table, rows in before.items():
        assert lake.partitions(table) == sorted(model.name for model in study.models)
        assert lake.read_all(table).to_pylist() == [row for row in rows if row["model"] != gone]


def test_a_partition_that_goes_during_the_computation_is_not_replaced_by_an_empty_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    study = copied_study(AWKWARD, monkeypatch, tmp_path / "study")
    lake = lake_of(study)
    lake.discard("signal_quality", "small")

    def compute(read: Sequence[pa.Table], seed: int, log: logging.Logger) -> Mapping[str, Rows]:
        lake.discard("signal_quality", "large")
        return SIGNAL_QUALITY.compute(read, seed, log)

    compute.__module__ = SIGNAL_QUALITY.compute.__module__
    with pytest.raises(LakeError, match=r"large.parquet was changed meanwhile; run again"):
        materialise(replace(SIGNAL_QUALITY, compute=compute), study, lake, LOG)
    materialise(SIGNAL_QUALITY, study, lake, LOG)
    assert lake.read("signal_quality", "large").num_rows > 0


def test_the_content_of_what_is_read_decides(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
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
