"""The events of a dbt invocation in which one model succeeds and another fails."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
import duckdb
import pytest
from dagster_dbt import DbtCliInvocation, DbtProject
from dagster_dbt.errors import DagsterDbtCliRuntimeError

from dagster_project.defs.resources import dbt_resource
from dagster_project.defs.warehouse.dbt_events import add_row_counts
from longtail.study.study import Study
from longtail.warehouse.build import DBT_PROJECT, dbt_environment
from tests.in_process_dbt import put_parsed
from tests.lakes import fill, make_study
from tests.warehouses import UNANSWERED, copied_study, lake_of

LOG = logging.getLogger("tests.dbt_events")


def _invocation(study: Study, monkeypatch: pytest.MonkeyPatch, *args: str) -> DbtCliInvocation:
    for name, value in dbt_environment(study).items():
        monkeypatch.setenv(name, value)
    dbt = dbt_resource(DbtProject(project_dir=DBT_PROJECT))
    return dbt.cli([*args], manifest=study.home.build / "dbt/target/manifest.json")


def _collect(events: Iterable[object], into: list[object]) -> None:
    """Collects events in `into`; the events before an error stay there."""
    for event in events:
        into.append(event)


@dataclass(frozen=True)
class _Failing:
    """An invocation whose dbt process has ended with an error, after these events."""

    said: str
    events: tuple[object, ...] = ()

    def stream(self) -> Iterator[object]:
        yield from self.events
        raise DagsterDbtCliRuntimeError(self.said)


def test_dbt_on_a_full_disk_fails_with_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path / "home"))
    study = make_study(tmp_path, UNANSWERED)
    full = (
        'Runtime Error\n  IO Error: Could not write file "warehouse.duckdb": No space left on device\n' * 300
    )
    with pytest.raises(dg.Failure) as failed:
        list(add_row_counts(_Failing(full), study, LOG))  # type: ignore[arg-type]
    said = failed.value.description
    assert said is not None
    assert said.startswith(f"dbt build: {study.home.build}: the disk is full")
    assert "\n" not in said
    with pytest.raises(DagsterDbtCliRuntimeError, match="table_is_valid"):
        list(add_row_counts(_Failing("table_is_valid failed"), study, LOG))  # type: ignore[arg-type]


def test_a_failing_build_reports_its_models_and_then_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    study = copied_study(UNANSWERED, monkeypatch, tmp_path / "study")
    lake = lake_of(study)
    questions = lake.read("questions").to_pylist()
    lake.write("questions", [*questions, fill("questions", questions[0])], fingerprint="doubled")
    chosen = "stg_study__prompts dim_prompts stg_questions__questions int_questions dim_questions"
    put_parsed(study.home.home, study.path)
    invocation = _invocation(study, monkeypatch, "build", "--select", chosen)

    seen: list[object] = []
    with pytest.raises(DagsterDbtCliRuntimeError, match="table_is_valid"):
        _collect(add_row_counts(invocation, study, LOG), seen)

    (failed,) = (event for event in seen if isinstance(event, dg.AssetCheckEvaluation) and not event.passed)
    # in an asset, the same is an AssetCheckResult
    check = dg.AssetCheckResult(
        passed=False, asset_key=failed.asset_key, check_name=failed.check_name, metadata=failed.metadata
    )
    told: list[object] = []
    with pytest.raises(DagsterDbtCliRuntimeError):
        _collect(add_row_counts(_Failing("failed", (check,)), study, LOG), told)  # type: ignore[arg-type]
    assert isinstance(told[0], dg.AssetCheckResult)
    assert told[0].check_name == "table_is_valid_stg_questions__questions"
    assert "unique (dataset, question_id) does not hold in 2 rows, such as" in (told[0].description or "")

    built = {event.asset_key.path[-1]: event for event in seen if isinstance(event, dg.AssetMaterialization)}
    assert "dagster/row_count" not in built["stg_study__prompts"].metadata  # a view
    with duckdb.connect(str(study.home.build_warehouse)) as connection:
        count = connection.sql("select count(*) from marts.dim_prompts").fetchall()
    assert count == [(built["dim_prompts"].metadata["dagster/row_count"].value,)]
