"""The monthly refresh names the complete month; a failed run is told to an address."""

from __future__ import annotations

import contextlib
import datetime
import http.server
import json
import threading
from collections.abc import Iterator
from typing import ClassVar

import dagster as dg
import pytest

from dagster_project.defs.resources import chosen_study
from dagster_project.defs.schedules import failed_runs, last_complete_month


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
    assert last_complete_month(datetime.datetime.fromisoformat(day)) == month


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
