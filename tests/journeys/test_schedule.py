"""The monthly refresh, executed: new page views reach the marts, and no answer is generated again. Of the warehouse, two
marts are built, with all that they are made from; what else the refresh includes: `tests/defs/test_definitions.py`.
"""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest

from tests.journeys.commands import environment, run_python
from tests.journeys.small_world import LAST, NEWEST, PINNED, TODAY, Small

pytestmark = [pytest.mark.journey, pytest.mark.xdist_group("small_study")]

REFRESH = """\
import datetime, json, os, sys
from pathlib import Path
import dagster as dg
from longtail.study import file, source
from longtail.study.tables import STUDY_TABLES
from longtail.wikimedia import page_views
from dagster_project.definitions import defs
from dagster_project.defs.resources import asset_key
from dagster_project.operations import ease_history

day = datetime.datetime.fromisoformat(sys.argv[1])

class Clock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return day

for module in (file, source, page_views):
    module.datetime = Clock
definitions = defs()
with ease_history(Path(os.environ["DAGSTER_HOME"])), dg.DagsterInstance.get() as instance:
    # the study's changed window first, as `make run` or the UI would do it
    changed = definitions.resolve_implicit_global_asset_job_def().execute_in_process(
        instance=instance,
        asset_selection=[asset_key("lake", name) for name in STUDY_TABLES],
    )
    context = dg.build_schedule_context(
        instance=instance,
        scheduled_execution_time=day,
        repository_def=definitions.get_repository_def(),
    )
    [request] = definitions.resolve_schedule_def("monthly_popularity").evaluate_tick(context).run_requests
    job = definitions.resolve_job_def("refresh_popularity")
    marts = dg.AssetSelection.assets(*(asset_key("marts", name) for name in sys.argv[2:])).upstream()
    done = job.execute_in_process(
        instance=instance, partition_key=request.partition_key, tags=request.tags, raise_on_error=False,
        asset_selection=[*marts.resolve(job.asset_layer.asset_graph) & job.asset_layer.executable_asset_keys],
    )
    materialised = ["/".join(e.asset_key.path[1:]) for e in done.get_asset_materialization_events()]
    print(json.dumps([changed.success, done.success, request.partition_key, materialised]))
"""


def built(small: Small, query: str) -> list[tuple[object, ...]]:
    with duckdb.connect(str(small.root / "build/warehouse.duckdb"), read_only=True) as warehouse:
        return warehouse.sql(query).fetchall()


def written(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.glob("*.parquet")}


def refresh(small: Small) -> tuple[str, list[str]]:
    """Evaluate the schedule on the third of this month and execute what it asks for; month and assets."""
    day = f"{TODAY:%Y-%m}-03T06:00:00+00:00"
    of_small = environment(small.home, small.study, DAGSTER_HOME=str(small.home / "dagster"))
    done = run_python("-c", REFRESH, day, "fct_popularity_history", "fct_answers", env=of_small, timeout=600)
    assert done.returncode == 0, done.stderr[-4000:]
    window, success, month, materialised = json.loads(done.stdout.strip().splitlines()[-1])
    assert window
    assert success, done.stderr[-4000:]
    return month, materialised


def test_a_refresh_moves_popularity_and_touches_no_answer(changing: Small) -> None:
    answers = written(changing.root / "lake/answers")
    assert answers
    newest_month = "select max(month) from marts.fct_popularity_history"
    popularity = (
        "select question_id, any_value(subject_popularity) from marts.fct_answers group by question_id"
    )
    before = dict(built(changing, popularity))
    assert built(changing, newest_month) == [(LAST,)]

    study = changing.study.read_text(encoding="utf-8")
    changing.study.write_text(study.replace(PINNED, "n_months: 2"), encoding="utf-8")
    month, materialised = refresh(changing)

    assert month == NEWEST
    assert (changing.root / f"lake/page_views/{NEWEST}.parquet").exists()
    assert "lake/page_views" in materialised
    assert "lake/answers" not in materialised
    assert written(changing.root / "lake/answers") == answers
    assert built(changing, newest_month) == [(NEWEST,)]
    after = dict(built(changing, popularity))
    assert before.keys() == after.keys()
    assert any(before[question] != after[question] for question in before)
