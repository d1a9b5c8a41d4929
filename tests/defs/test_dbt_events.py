"""A run of dbt as Dagster sees it: one model succeeds, another one fails."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import duckdb
import pytest

from longtail.storage.home import PROJECT_ROOT
from longtail.warehouse.build import read_verdict, run_build
from tests.in_process_dbt import put_parsed
from tests.journeys.commands import environment, run_python
from tests.lakes import fill, make_study
from tests.warehouses import UNANSWERED, copied_study, lake_of

MATERIALISE = """
import json, sys
import dagster as dg
from dagster_project.defs.resources import StudyResource, asset_key
from dagster_project.defs.warehouse import warehouse_models
chosen = dg.AssetSelection.assets(*(asset_key(*name.split("/")) for name in sys.argv[1:]))
with dg.DagsterInstance.ephemeral() as instance:
    done = dg.materialize([warehouse_models], instance=instance, selection=chosen,
                          resources={"study": StudyResource()}, raise_on_error=False)
rows = {event.asset_key.path[-1]: {name: value.value for name, value in event.materialization.metadata.items()}
        for event in done.get_asset_materialization_events()}
failed = {check.check_name: (check.severity.value, check.description)
          for check in done.get_asset_check_evaluations() if not check.passed}
failure = done.filter_events(lambda event: event.is_step_failure)[0].step_failure_data.user_failure_data.description
print(json.dumps([done.success, rows, failed, failure]))
"""


def test_a_failing_build_reports_its_models_and_then_fails_and_the_repository_is_as_before(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    study = copied_study(UNANSWERED, monkeypatch, tmp_path / "study")
    before = sorted((PROJECT_ROOT / "dbt").rglob("*"))
    lake = lake_of(study)
    questions = lake.read("questions").to_pylist()
    lake.write("questions", [*questions, fill("questions", questions[0])], fingerprint="doubled")
    put_parsed(study.home.home, study.path)
    chosen = ("staging/stg_study__prompts", "marts/dim_prompts", "staging/stg_questions__questions",
              "intermediate/int_questions", "marts/dim_questions")  # fmt: skip
    done = run_python("-c", MATERIALISE, *chosen, env=environment(study.home.home, study.path))
    assert done.returncode == 0, done.stderr[-3000:]
    success, rows, failed, failure = json.loads(done.stdout.splitlines()[-1])
    assert not success

    name = "table_is_valid_stg_questions__questions"
    example = f"{{'dataset': {questions[0]['dataset']}, 'question_id': {questions[0]['question_id']}}}"
    rule = f"unique (dataset, question_id) does not hold in 2 rows, such as {example}"
    assert failed == {name: ["ERROR", rule]}
    assert f"{name}: {rule}" in done.stdout  # of dbt
    assert rule in failure
    assert rows.keys() == {"stg_study__prompts", "dim_prompts", "stg_questions__questions"}
    assert "dagster/row_count" not in rows["stg_study__prompts"]  # a view
    with duckdb.connect(str(study.home.build_warehouse)) as connection:
        count = connection.sql("select count(*) from marts.dim_prompts").fetchall()
    assert count == [(rows["dim_prompts"]["dagster/row_count"],)]
    with duckdb.connect() as connection:
        connection.execute(f"attach '{study.home.build_warehouse}' as build (read_only)")
        verdict = read_verdict(connection)
    assert f"test {name}: {rule}" in verdict.failures
    assert sorted((PROJECT_ROOT / "dbt").rglob("*")) == before


def test_what_dbt_says_becomes_progress_and_failures_and_one_line_at_the_end(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path / "home"))
    study = make_study(tmp_path, UNANSWERED)
    said: list[str] = []
    for python, reason in (
        ("raise OSError(28, 'No space left on device')", f"dbt build: {study.home.build}: the disk is full"),
        (
            "print('1 of 1 OK hook: longtail.on-run-start.0', '1 of 9 OK created', '4 of 9 ERROR creating',"
            " '3 of 9 PASS valid', 'Done. ERROR=1', sep='\\n'); exit('no such\\noption')",
            "dbt build failed: 1 of 1 OK hook",
        ),
    ):
        monkeypatch.setattr("longtail.warehouse.build.DBT", ("-c", python))
        run = run_build(study, (), said.append)
        assert run.results == {}
        assert run.failure is not None
        assert run.failure.startswith(reason)
        assert "\n" not in run.failure
    assert said[-1] == "option\n"
    told = [record.getMessage() for record in caplog.records if record.name == "longtail.warehouse.build"]
    assert told[-2] == "dbt: 4 of 9 ERROR creating"
    assert told[-1].startswith("dbt: models and tests: 2 of 9 in ")
