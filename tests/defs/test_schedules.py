"""The monthly refresh names the complete month, asks for it alone, and changes nothing else in the lake; a failed run is
told to an address.

`test_definitions` checks which assets the refresh includes; the journey `test_schedule` checks that answers stay.
"""

from __future__ import annotations

import contextlib
import datetime
import http.server
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import dagster as dg
import pytest

from dagster_project.defs.resources import chosen_study
from dagster_project.defs.schedules import failed_runs
from longtail.study.source import newest_past_month
from tests.journeys.commands import run_python


@pytest.mark.parametrize(
    ("day", "month"),
    [
        ("2026-11-03", "2026-10"),
        ("2026-01-03", "2025-12"),
        ("2024-03-31", "2024-02"),
        ("2026-10-01", "2026-09"),
    ],
)
def test_the_month_before(day: str, month: str) -> None:
    assert newest_past_month(datetime.date.fromisoformat(day)) == month


class Receiver(http.server.BaseHTTPRequestHandler):
    """Keeps what is posted to it, and answers with `code`."""

    posted: ClassVar[list[dict[str, str]]] = []
    code = 200

    def do_POST(self) -> None:
        self.posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(self.code)
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Receiver]]:
    fresh = type("Fresh", (Receiver,), {"posted": []})
    with http.server.HTTPServer(("127.0.0.1", 0), fresh) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("LONGTAIL_WEBHOOK", f"http://127.0.0.1:{server.server_port}/secret")
        yield fresh
        server.shutdown()


@contextlib.contextmanager
def failed_run(problem: Exception) -> Iterator[dg.RunFailureSensorContext]:
    @dg.op
    def broken() -> None:
        raise problem

    @dg.job
    def some_job() -> None:
        broken()

    with dg.DagsterInstance.ephemeral() as instance:
        done = some_job.execute_in_process(
            instance=instance, raise_on_error=False, tags={"longtail/stage": "answers of one"}
        )
        yield dg.build_run_status_sensor_context(
            sensor_name="failed_runs",
            dagster_event=done.get_run_failure_event(),
            dagster_instance=instance,
            dagster_run=done.dagster_run,
        ).for_run_failure()


@pytest.mark.parametrize(
    ("problem", "told"),
    [
        (dg.Failure("lake/answers: no such model\n\x00"), "lake/answers: no such model \\x00"),
        (ValueError("three 🎈"), "ValueError: three 🎈"),
        (ValueError("x" * 9_000), "ValueError: xxx"),
    ],
)
def test_a_failed_run_is_posted_in_one_line(receiver: type[Receiver], problem: Exception, told: str) -> None:
    with failed_run(problem) as context:
        failed_runs(context)
        (posted,) = receiver.posted
        assert posted["text"].startswith(
            f"Longtail, study {chosen_study().name}: answers of one failed (run {context.dagster_run.run_id}): {told}"
        )
    assert "\n" not in posted["text"]
    assert "Traceback" not in posted["text"]
    assert len(posted["text"]) <= 1_000


def test_an_address_that_refuses_is_an_error_without_the_address(receiver: type[Receiver]) -> None:
    receiver.code = 403
    with failed_run(ValueError("x")) as context, pytest.raises(dg.Failure) as refused:
        failed_runs(context)
    assert refused.value.description == "the address in LONGTAIL_WEBHOOK answered 403"


def test_an_address_that_nobody_answers_is_an_error_without_the_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LONGTAIL_WEBHOOK", "http://127.0.0.1:9/secret")
    with failed_run(ValueError("x")) as context, pytest.raises(dg.Failure) as refused:
        failed_runs(context)
    assert "secret" not in str(refused.value)
    assert refused.value.__cause__ is None


def test_without_an_address_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LONGTAIL_WEBHOOK", raising=False)
    with failed_run(ValueError("x")) as context:
        assert isinstance(failed_runs(context), dg.SkipReason)


STUDY = """\
name: live
description: for tests
source: {kind: wikidata, snapshot: "2026-08", views_from: api}
datasets: [{name: all, relations: [occupation, color]}]
prompts: [{name: zero_shot}]
models: [{name: m, path: fake, backend: fake}]
methods: [closed_book]
popularity: {measure: page_views, n_months: 60}
"""
CHILD = """
import json
import dagster as dg
from longtail.sandbox.world import World
from longtail.wikimedia import services
from dagster_project.defs.ingest import entities, page_views, triples
from dagster_project.defs.resources import chosen_study
from dagster_project.defs.resources import StudyResource
from tests.longtail.wikimedia.conftest import LIVE
from tests.faults import FaultyServer

assets, lake = [triples, entities, page_views], chosen_study().home.lake

def materialise(month, selection, instance):
    before = {path: path.stat().st_mtime_ns for path in lake.rglob("*.parquet")}
    server.requests.clear()
    done = dg.materialize(
        assets, instance=instance, selection=selection, partition_key=month, resources={"study": StudyResource()}
    )
    changed = [p for p in lake.rglob("*.parquet") if before.get(p) != p.stat().st_mtime_ns]
    return done.success, [r.path for r in server.requests], sorted(str(p.relative_to(lake)) for p in changed)

with FaultyServer(World(3, 8)) as server, dg.DagsterInstance.ephemeral() as instance:
    for name, path in LIVE.items():
        setattr(services, name, server.base_url + path)
    steps = [materialise("2026-08", assets, instance)]
    steps += [materialise("2026-09", [page_views], instance) for _ in range(2)]
    print(json.dumps(steps))
"""


def test_a_refresh_changes_only_the_new_month(tmp_path: Path) -> None:
    (tmp_path / "live.yaml").write_text(STUDY, encoding="utf-8")
    more = {
        "LONGTAIL_HOME": str(tmp_path / "home"),
        "LONGTAIL_STUDY": str(tmp_path / "live.yaml"),
        "LONGTAIL_CONTACT": "mailto:someone@example.org",
    }
    done = run_python("-c", CHILD, env={**os.environ, **more})
    assert done.returncode == 0, done.stderr[-3000:]
    first, refresh, again = json.loads(done.stdout.strip().splitlines()[-1])
    assert [first[0], refresh[0], again[0]] == [True, True, True]
    assert "page_views/2026-08.parquet" in first[2]
    n_articles = sum("/per-article/" in path for path in first[1])
    assert n_articles > 20
    assert len(refresh[1]) == n_articles + -(-n_articles // 50)  # their views, and where their titles lead
    assert sum(path.endswith("/2026090100/2026093000") for path in refresh[1]) == n_articles
    assert refresh[2] == ["page_views/2026-09.parquet"]
    assert again[1:] == [[], []]
