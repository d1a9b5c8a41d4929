"""The monthly refresh, executed: new page views reach the published warehouse, and no answer is generated again."""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from tests.journeys.commands import PROJECT, environment, run_study, small_study

pytestmark = [pytest.mark.journey, pytest.mark.xdist_group("small")]

TODAY = datetime.date.today()
NEWEST = f"{TODAY.replace(day=1) - datetime.timedelta(days=1):%Y-%m}"
BEFORE = f"{datetime.date.fromisoformat(NEWEST + '-01') - datetime.timedelta(days=1):%Y-%m}"
REFRESH = """\
import datetime, json, sys
import dagster as dg
from dagster_project.definitions import defs

definitions = defs()
with dg.DagsterInstance.get() as instance:
    # the study's changed window first, as `make run` or the UI would do it
    window = definitions.resolve_implicit_global_asset_job_def().execute_in_process(
        instance=instance,
        asset_selection=[
            dg.AssetKey(["lake", name])
            for name in ("datasets", "methods", "model_prices", "models", "popularity_windows", "prompts")
        ],
    )
    context = dg.build_schedule_context(
        instance=instance,
        scheduled_execution_time=datetime.datetime.fromisoformat(sys.argv[1]),
        repository_def=definitions.get_repository_def(),
    )
    [request] = definitions.resolve_schedule_def("monthly_popularity").evaluate_tick(context).run_requests
    job = definitions.resolve_job_def("refresh_popularity")
    done = job.execute_in_process(
        instance=instance, partition_key=request.partition_key, tags=request.tags, raise_on_error=False
    )
    materialised = ["/".join(e.asset_key.path) for e in done.get_asset_materialization_events()]
    print(json.dumps([window.success, done.success, request.partition_key, materialised]))
"""


def published(home: Path, query: str) -> list[tuple[object, ...]]:
    with duckdb.connect(str(home / "small/published/warehouse.duckdb"), read_only=True) as warehouse:
        return warehouse.sql(query).fetchall()


def written(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.glob("*.parquet")}


def refresh(home: Path, study: Path) -> tuple[str, list[str]]:
    """Evaluate the schedule on the third of this month and execute what it asks for; month and assets."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", REFRESH, f"{TODAY:%Y-%m}-03T06:00:00+00:00"],
        cwd=PROJECT,
        env=environment(home, study, DAGSTER_HOME=str(home / "small/dagster")),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    window, success, month, materialised = json.loads(done.stdout.strip().splitlines()[-1])
    assert window
    assert success, done.stderr[-4000:]
    return month, materialised


def test_a_refresh_moves_popularity_and_touches_no_answer(tmp_path: Path) -> None:
    pinned = f'n_months: 2, last_month: "{BEFORE}"'
    study = small_study(
        tmp_path,
        "fake:passage",
        facts=8,
        edit={
            'snapshot: "2026-10"': f'snapshot: "{NEWEST}"',
            'n_months: 2, last_month: "2026-10"': pinned,
            "[closed_book, genread, bm25, oracle]": "[closed_book, bm25]",
            "  - {name: zero_shot_popqa_tp, format: question_answer, asks: [paraphrases, samples]}\n": "",
        },
    )
    home = tmp_path / "home"
    done = run_study(home, study)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    answers = written(home / "small/lake/answers")
    newest_month = "select max(month) from marts.fct_popularity_history"
    popularity = (
        "select question_id, any_value(subject_popularity) from marts.fct_answers group by question_id"
    )
    before = dict(published(home, popularity))
    assert published(home, newest_month) == [(BEFORE,)]

    study.write_text(study.read_text(encoding="utf-8").replace(pinned, "n_months: 2"), encoding="utf-8")
    month, materialised = refresh(home, study)

    assert month == NEWEST
    assert (home / f"small/lake/page_views/{NEWEST}.parquet").exists()
    assert "lake/page_views" in materialised
    assert "published_warehouse" in materialised
    assert "lake/answers" not in materialised
    assert written(home / "small/lake/answers") == answers
    assert published(home, newest_month) == [(NEWEST,)]
    after = dict(published(home, popularity))
    assert before.keys() == after.keys()
    assert any(before[question] != after[question] for question in before)
