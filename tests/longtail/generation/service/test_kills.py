"""kill -9 in the middle of a run: what was committed stays, what was under way is not bought again."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import served_run
from flaky_server import FAULTS, FlakyServer

FOLDER = Path(__file__).parent
N = 120


def _start(server: FlakyServer, cache: Path, n_samples: int, budget: str = "-") -> subprocess.Popen[str]:
    command = [sys.executable, "served_run.py", server.base_url, str(cache), str(N), str(n_samples), budget]
    paths = f"{Path.cwd()}:{FOLDER}:{FOLDER.parent}"
    return subprocess.Popen(
        command,
        cwd=FOLDER,
        env={"PYTHONPATH": paths, "PATH": "/usr/bin:/bin"},
        stdout=subprocess.PIPE,
        text=True,
    )


def _kill_after(server: FlakyServer, process: subprocess.Popen[str], n_more: int) -> None:
    until, deadline = server.books.requests + n_more, time.monotonic() + 60
    while server.books.requests < until and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()


@pytest.mark.parametrize("n_samples", [0, 3])
def test_killed_runs_answer_every_row_and_buy_none_twice(tmp_path: Path, n_samples: int) -> None:
    rates = {
        fault: 0.02 for fault in FAULTS if fault not in ("limit", "limit_date")
    }  # their waits are real ones
    with FlakyServer(seed=n_samples, rates=rates, seconds=0.004) as server:
        for n_more in (7, 40):
            _kill_after(server, _start(server, tmp_path, n_samples), n_more)
        last = _start(server, tmp_path, n_samples)
        out, _ = last.communicate(timeout=60)
        assert last.returncode == 0
        n_rows, dollars = out.split()
        billed = server.usd(**served_run.PRICES)
    assert int(n_rows) == N * max(1, n_samples)
    assert set(server.books.sold.values()) == {1}
    assert {prompt for prompt, _ in server.books.sold} == set(served_run.prompts(N))
    assert server.books.requests > len(server.books.sold)
    # usage that the server left out is counted at its upper bound
    assert float(dollars) >= billed - 1e-12


def test_a_budget_holds_over_killed_runs_and_all_that_is_billed_is_in_the_rows(tmp_path: Path) -> None:
    one = (7 * 1.5 + 4 * 2.0) / 1e6
    budget = 60 * one
    with FlakyServer(seconds=0.004) as server:
        for n_more in (5, 25, 9):
            _kill_after(server, _start(server, tmp_path, 0, str(budget)), n_more)
        n_rows, dollars = served_run.run(server.base_url, tmp_path, N, 0, budget)
        assert server.usd(**served_run.PRICES) <= budget
        assert 50 < n_rows < 61
        assert dollars == pytest.approx(server.usd(**served_run.PRICES))
        n_rows, _ = served_run.run(server.base_url, tmp_path, N, 0, 3 * budget)
    assert n_rows == N
    assert set(server.books.sold.values()) == {1}
