"""Workers of a Ray cluster, which runs here as processes of its own: whatever dies, the rows are those of one process."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from small_study import LOG, answer, fill_lake, small_study

from benchmarks.cluster import ray_head, ray_node
from longtail.errors import BackendError
from longtail.generation.backends.base import Decoding, Failure, identify
from longtail.generation.backends.fake import FakeBackend
from longtail.generation.engine.session import Answers, Call, OnRay
from longtail.models import workers as ray_workers
from longtail.models.workers import map_in_processes
from longtail.storage.lake import Lake
from longtail.study.models import Model

RUN_COLUMNS = ["run_id", "latency_ms", "shared_tokens", "device_seconds"]
TINY = Model("tiny", "fake:digest", backend="fake")
GREEDY = Decoding(5)
PROGRAM = "from longtail.models.workers import _connect\n_connect()"


@dataclasses.dataclass
class Cluster:
    """The processes of one session."""

    session: int

    def processes(self, name: str) -> list[int]:
        """Those whose title begins with `name`, or that run the program of that name."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                title = (entry / "cmdline").read_bytes().decode().split("\0")[0]
                if os.getsid(int(entry.name)) == self.session and (
                    title.startswith(name) or title.endswith(f"/{name}")
                ):
                    found.append(int(entry.name))
            except (OSError, UnicodeDecodeError):
                continue  # it has ended
        return found

    def kill(self, name: str) -> None:
        for process in self.processes(name):
            with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
                os.kill(process, signal.SIGKILL)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with ray_head() as (address, process, token), pytest.MonkeyPatch.context() as patch:
        for name, value in (
            ("LONGTAIL_RAY", address),
            ("LONGTAIL_RAY_WORKERS", "2"),
            ("RAY_AUTH_TOKEN", token),
        ):
            patch.setenv(name, value)
        own = Cluster(process.pid)
        yield own
        own.kill("ray::")  # they outlive a head that was killed


def rows(folder: Path, path: str, patch: pytest.MonkeyPatch) -> tuple[pa.Table, dict[str, object]]:
    patch.setenv("LONGTAIL_HOME", str(folder / "home"))
    study = small_study(folder, path, batch_tokens=24)
    lake = Lake(study.home.lake)
    fill_lake(lake, 12)
    outcome = answer(study)
    table = lake.read("answers", outcome.partition).drop_columns(RUN_COLUMNS)
    return table.replace_schema_metadata(None), dict(outcome.notes)


def test_rows_are_those_of_one_process_although_workers_are_killed(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A worker is killed while it generates, and the one in its place while it starts or loads; three times."""
    ended, killed, draw = threading.Event(), list[int](), random.Random(3)

    def kill(pid: int) -> None:
        killed.append(pid)
        os.kill(pid, signal.SIGKILL)

    def kill_in_turn() -> None:
        while not ended.wait(0.05) and len(killed) < 6:
            some = cluster.processes("ray::Worker.answer")
            if len(some) == 2:
                time.sleep(draw.uniform(0, 0.3))
                kill(draw.choice(some))
                while not (fresh := {*cluster.processes("ray::Worker")}.difference(some)):
                    time.sleep(0.05)
                time.sleep(draw.uniform(0, 0.3))
                kill(fresh.pop())

    killer = threading.Thread(target=kill_in_turn)
    killer.start()
    try:
        ledger = tmp_path / "ledger"
        found, notes = rows(
            tmp_path / "ray", f"fake:digest?seconds_per_call=0.3&ledger={ledger}", monkeypatch
        )
    finally:
        ended.set()
        killer.join()
    assert len(killed) == 6
    assert "its batch is asked again" in caplog.text
    made = ledger.read_text().splitlines()
    assert len(set(made)) == notes["computed"] == found.num_rows
    assert len(made) - len(set(made)) <= 6  # a kill may fall between a result and its arrival
    assert notes["device"] == "Ray, 2 x none"
    monkeypatch.delenv("LONGTAIL_RAY")
    alone, _ = rows(tmp_path / "alone", "fake:digest", monkeypatch)
    assert found.equals(alone)


def test_work_without_a_model_is_done_in_tasks(cluster: Cluster) -> None:
    powers = map_in_processes(functools.partial(pow, 3), range(40), "powers")
    assert list(powers) == [3**number for number in range(40)]
    with pytest.raises(ZeroDivisionError):
        list(map_in_processes(functools.partial(divmod, 7), [1, 0, 2], "remainders"))
    with pytest.raises(BackendError, match=r"^deaths: Ray lost a task: "):
        list(map_in_processes(os._exit, [1, 1], "deaths"))


def test_errors_in_a_worker_are_one_line_and_leave_no_call_behind(cluster: Cluster) -> None:
    class OddError(Exception):
        """It cannot be unpickled, as many libraries' errors."""

        def __init__(self, one: int, other: int) -> None:
            super().__init__("odd")

    class Odd(Call):
        def __call__(self, backend: object) -> Answers:
            raise OddError(1, 2)

    held = OnRay(TINY, identify(TINY), LOG)
    calls = [Call(GREEDY, [f"Q: {i} A:"], {}) for i in range(9)]
    try:
        with pytest.raises(BackendError, match=r"^model tiny, on a Ray worker: OddError: odd$"):
            list(held.answers([*calls, Odd(GREEDY, ["odd"], {}), *calls]))
        again = dict(held.answers(calls[5:]))
    finally:
        held.close()
    expected = {place: call(FakeBackend(TINY)) for place, call in enumerate(calls[5:])}
    assert {place: texts_of(own) for place, own in again.items()} == {
        place: texts_of(own) for place, own in expected.items()
    }


def texts_of(answers: Answers) -> list[str]:
    return [one.text for own in answers if not isinstance(own, Failure) for one in own]


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        (
            "LONGTAIL_RAY_WORKERS",
            "3",
            r"3 workers with 0 GPUs each do not fit .* have \[0\] GPUs and \[2\] cores",
        ),
        ("LONGTAIL_RAY_WORKERS", "0", "0 workers with 0 GPUs each do not fit"),
        ("LONGTAIL_RAY_GPUS", "1", "2 workers with 1 GPUs"),
        ("LONGTAIL_RAY_GPUS", "half", "LONGTAIL_RAY_GPUS: 'half' is no whole number"),
        ("LONGTAIL_RAY", "127.0.0.1:1", r"no Ray cluster answers at 127.0.0.1:1 \(.*refused"),
        ("LONGTAIL_RAY", "nowhere", "no Ray cluster answers at nowhere"),
    ],
)
def test_settings_that_cannot_be_met(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, said: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(BackendError, match=said):
        OnRay(TINY, identify(TINY), LOG)


def test_without_the_token_nothing_is_asked(cluster: Cluster, tmp_path: Path) -> None:
    """In a process of its own, since Ray reads the token once."""
    home = {"HOME": str(tmp_path), "RAY_AUTH_TOKEN": "0" * 32}
    command = [sys.executable, "-c", PROGRAM]
    ended = subprocess.run(
        command, env={**os.environ, **home}, capture_output=True, text=True, check=False, timeout=30
    )
    assert ended.returncode == 1
    assert re.search("no Ray cluster lets us in.*RAY_AUTH_TOKEN", ended.stderr.splitlines()[-1]), ended.stderr
    assert ".cc:" not in ended.stderr  # as Ray's C++ code says, too, each time that it tries


def test_a_machine_that_dies_takes_only_its_workers_along(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind the tests of settings: the head counts a dead machine for half a minute."""
    slow = dataclasses.replace(TINY, path="fake:digest?seconds_per_call=0.2")
    with ray_node(["--address", os.environ["LONGTAIL_RAY"], "--num-cpus=1"]) as (node, _):
        monkeypatch.setenv("LONGTAIL_RAY_WORKERS", "1")
        OnRay(TINY, identify(TINY), LOG).close()  # it fits a machine: three cores are on none
        monkeypatch.setenv("LONGTAIL_RAY_WORKERS", "3")
        held = OnRay(slow, identify(slow), LOG)
        try:
            found = []
            for place, answers in held.answers(Call(GREEDY, [f"Q: {i} A:"], {}) for i in range(60)):
                found.append((place, texts_of(answers)))
                if len(found) == 12:
                    Cluster(node.pid).kill("")
        finally:
            held.close()
    assert sorted(place for place, texts in found if texts) == list(range(60))


def test_a_dead_head_ends_the_run_and_finished_batches_stay(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last test of this module: the cluster is gone after it."""
    monkeypatch.setattr(ray_workers, "_POLL_SECONDS", 0.2)
    monkeypatch.setattr(ray_workers, "_HEAD_SECONDS", 0.5)
    ledger = tmp_path / "ledger"

    def kill() -> None:
        while not ledger.exists():
            time.sleep(0.05)
        cluster.kill("gcs_server")

    threading.Thread(target=kill).start()
    path = f"fake:digest?seconds_per_call=0.2&ledger={ledger}"
    with pytest.raises(BackendError, match=r"no Ray cluster answers at .*; finished batches are kept"):
        rows(tmp_path, path, monkeypatch)
    n_before = len(ledger.read_text().splitlines())
    monkeypatch.delenv("LONGTAIL_RAY")
    found, notes = rows(tmp_path, path.replace("0.2", "0"), monkeypatch)
    assert 0 < int(str(notes["resumed"])) <= n_before < found.num_rows
