"""Leases of runs in a history that machines share: only the runs of a machine that is gone are taken."""

from __future__ import annotations

import os
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import pytest
from sqlalchemy import create_engine, text

from benchmarks.cluster import postgres_programs, postgres_server
from dagster_project import operations
from dagster_project.operations import Lease, log_pool_holders, open_instance, reap_dead_runs
from longtail.storage.home import PROJECT_ROOT
from longtail.storage.ownership import PLACE, place_of
from longtail.study.file import load_study
from longtail.study.study import Study
from tests import fork_server
from tests.fork_server import Started
from tests.journeys.commands import small_study

History = tuple[str, Callable[[str], None]]
"""The address of a database, and what starts, stops and restarts its server."""
HOLDER = """
import sys, time
import dagster as dg
from dagster_project import operations
operations.EVERY_S = 0.1
with dg.DagsterInstance.get() as instance:
    lease = operations.Lease(instance, sys.argv[1], "elsewhere:/locks", lambda: None)
    print("held", flush=True)
    try:
        time.sleep(60)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


@pytest.fixture(scope="module")
def history() -> Iterator[History]:
    if not postgres_programs():
        pytest.skip("no postgresql on this machine: leases were not tried")
    pytest.importorskip("dagster_postgres")
    with postgres_server("-c fsync=off") as (address, control):
        yield address.replace("://", "+psycopg2://"), control


@pytest.fixture
def study(history: History, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Study:
    (tmp_path / "mine.yaml").write_text("storage: {postgres: {postgres_url: {env: HISTORY}}}")
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LONGTAIL_DAGSTER_YAML", str(tmp_path / "mine.yaml"))
    monkeypatch.setenv("HISTORY", history[0])
    monkeypatch.setenv("DAGSTER_HOME", "set by open_instance")
    monkeypatch.setattr(
        operations, "LEASE_S", 0.0
    )  # how long the server must be there, as far as this process knows
    monkeypatch.setattr(operations, "EVERY_S", 0.1)
    return load_study(small_study(tmp_path, "fake:digest"))


def run_of(place: str) -> dg.DagsterRun:
    return dg.DagsterRun("job", str(uuid.uuid4()), status=dg.DagsterRunStatus.STARTED, tags={PLACE: place})


def run_elsewhere(instance: dg.DagsterInstance) -> str:
    """A run of another machine that holds the slot of the warehouse."""
    run = run_of("elsewhere:/locks")
    instance.add_run(run)
    claim = instance.event_log_storage.claim_concurrency_slot("warehouse", run.run_id, "step")
    assert claim.is_claimed
    return run.run_id


@contextmanager
def holder(run: str) -> Iterator[Started]:
    """The process of another machine that renews the lease."""
    process = fork_server.start_piped(["-c", HOLDER, run], PROJECT_ROOT, os.environ)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
    finally:
        process.kill()


def ends(history: History, run: str) -> str:
    with create_engine(history[0]).connect() as connection:
        found = connection.execute(text("select ends from longtail_leases where run_id = :run"), {"run": run})
        return str(found.scalar_one())


def wait_for_renewal(history: History, run: str) -> None:
    before = ends(history, run)
    while ends(history, run) == before:
        time.sleep(0.05)


def let_it_end(history: History, run: str) -> None:
    """As if the time of the lease had passed."""
    past = text("update longtail_leases set ends = clock_timestamp() where run_id = :run")
    with create_engine(history[0]).begin() as connection:
        connection.execute(past, {"run": run})


def test_a_run_is_taken_only_from_a_machine_that_is_gone(history: History, study: Study) -> None:
    with open_instance(study) as instance:
        run = run_elsewhere(instance)
        with holder(run):
            wait_for_renewal(history, run)
            assert reap_dead_runs(instance, study.home) == []
        assert reap_dead_runs(instance, study.home) == []  # killed, but its lease has not ended
        let_it_end(history, run)
        assert reap_dead_runs(instance, study.home) == [run]
        found = instance.get_run_by_id(run)
        assert found is not None
        assert found.status == dg.DagsterRunStatus.FAILURE
        assert instance.event_log_storage.claim_concurrency_slot("warehouse", "mine", "step").is_claimed
        instance.event_log_storage.free_concurrency_slots_for_run("mine")


def test_a_machine_that_wakes_up_stops(history: History, study: Study) -> None:
    with open_instance(study) as instance:
        run = run_elsewhere(instance)
        with holder(run) as process:
            os.kill(process.pid, signal.SIGSTOP)
            let_it_end(history, run)
            assert reap_dead_runs(instance, study.home) == [run]
            os.kill(process.pid, signal.SIGCONT)
            assert process.stdout is not None
            said, last = process.stdout.read().splitlines()
            assert said.startswith(
                f"run {run[:8]}: this machine was silent for so long that another has marked it"
            )
            assert last == "interrupted"


def test_after_a_restart_of_the_server_a_lease_can_first_be_renewed(
    history: History, study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_instance(study) as instance:
        run = run_elsewhere(instance)
        with holder(run):
            history[1]("restart")
            wait_for_renewal(history, run)
        let_it_end(history, run)
        monkeypatch.setattr(operations, "LEASE_S", 3600.0)
        assert reap_dead_runs(instance, study.home) == []
        monkeypatch.setattr(operations, "LEASE_S", 0.0)
        assert reap_dead_runs(instance, study.home) == [run]


def test_a_run_that_waits_for_a_slot_says_so_and_looks_for_the_dead(
    history: History, study: Study, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "longtail")
    with open_instance(study) as instance:
        unknown = run_elsewhere(instance)
        assert reap_dead_runs(instance, study.home) == []  # without a lease it is not judged
        instance.event_log_storage.free_concurrency_slots_for_run(unknown)
        dead, reaped = run_elsewhere(instance), threading.Event()
        with holder(dead):
            pass
        let_it_end(history, dead)

        def reap() -> None:
            if reap_dead_runs(instance, study.home):
                reaped.set()

        storage = instance.event_log_storage
        assert not storage.claim_concurrency_slot("warehouse", "own", "step").is_claimed
        told = set[str]()
        for _ in range(2):
            log_pool_holders(instance, "own", told)
        assert caplog.messages.count(f"waiting for pool warehouse, whose slot run {dead[:8]} holds") == 1
        own = Lease(instance, "own", "here", reap)
        assert reaped.wait(60)
        own.release()
        assert storage.claim_concurrency_slot("warehouse", "own", "step").is_claimed
        log_pool_holders(instance, "own", set())
        assert not caplog.messages[-1].startswith("waiting")
        storage.free_concurrency_slots_for_run("own")
        starting = run_of(place_of(study.home.locks))
        (study.home.locks / "runs").mkdir(parents=True, exist_ok=True)
        (study.home.locks / "runs" / f"{starting.run_id}.lock").touch()
        instance.add_run(starting)
        assert reap_dead_runs(instance, study.home, only_elsewhere=True) == []
        assert reap_dead_runs(instance, study.home) == [starting.run_id]
        assert not any(thread.name == "lease of own" for thread in threading.enumerate())
