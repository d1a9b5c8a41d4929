"""kill -9 through Dagster, in the middle of generation: the next run starts at once and nothing is lost or doubled."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.journeys.commands import PROJECT, command, environment, run_study, small_study

pytestmark = [pytest.mark.journey, pytest.mark.xdist_group("kill")]

KILLS = 10
ROWS = ("dataset", "question_id", "model", "method", "prompt", "prediction", "raw_text", "prompt_hash")


def rows(home: Path) -> pa.Table:
    """The generated rows without what tells of the run."""
    files = sorted((home / "small/lake/answers").glob("scripted__*.parquet"))
    assert len(files) == 4  # one a method
    return pa.concat_tables([pq.read_table(file, columns=list(ROWS), partitioning=None) for file in files])


def kill_in_generation(home: Path, study: Path, seconds: float, said: list[str]) -> bool:
    """Start a run, kill it `seconds` after its generation began; whether it was still generating then.

    What it printed until then goes to `said`.
    """
    process = subprocess.Popen(
        command("dagster_project.run"),
        cwd=PROJECT,
        env=environment(home, study),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        said.append(line)
        if "answers of scripted" in line:
            break
    else:
        raise AssertionError(f"the run ended before it generated: {process.wait()}")
    time.sleep(seconds)
    alive = process.poll() is None
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    return alive


def test_ten_kills_lose_and_double_nothing(tmp_path: Path) -> None:
    slow = small_study(tmp_path, "fake:passage?seconds_per_prompt=0.03", facts=10)
    home = tmp_path / "killed"
    moments = random.Random(7)
    said: list[str] = []
    landed = sum(kill_in_generation(home, slow, moments.uniform(0.1, 1.2), said) for _ in range(KILLS))
    assert landed == KILLS

    done = run_study(home, slow)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    # A kill between two of Dagster's runs leaves none behind, so that not every start finds a dead one.
    assert "was dead" in "".join([*said, done.stdout])

    fast = small_study(tmp_path, "fake:passage", facts=10)
    assert run_study(tmp_path / "whole", fast).returncode == 0
    resumed, whole = rows(home), rows(tmp_path / "whole")
    assert resumed.equals(whole)
    keys = resumed.select(["question_id", "method", "prompt"]).to_pylist()
    assert len({tuple(key.values()) for key in keys}) == len(keys)
