"""kill -9 in the middle of generation, SIGTERM in dbt: the next run starts at once and nothing is lost or doubled."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.in_process_dbt import put_parsed
from tests.journeys.commands import (
    ANSWERS_ALONE,
    read_until,
    run_up_to_the_warehouse,
    small_study,
    start_study,
)

pytestmark = [pytest.mark.journey, pytest.mark.xdist_group("kill")]

KILLS = 2  # each costs a start of Dagster
FACTS = 10
FEW_STAGES = {**ANSWERS_ALONE, 'page_views, n_months: 2, last_month: "2026-10"': "sitelinks"}
"""An edit of the study: the fewer stages before generation, the shorter each of the starts."""
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
    process = start_study(home, study)
    read_until(process, "answers of scripted", said)
    time.sleep(seconds)
    return process.kill()


def end_in_dbt(home: Path, study: Path) -> None:
    """Run the study and end it by SIGTERM where dbt begins: one line, no trace, nothing that goes on."""
    process = start_study(home, study)
    assert process.stdout is not None
    try:
        read_until(process, "models and tests are current", [])
        os.kill(process.pid, signal.SIGTERM)
        said = process.stdout.read()  # up to the end of the last process that holds it
        assert process.wait(60) == 128 + signal.SIGTERM
    finally:
        process.kill()
    assert said == "stopped; finished rows are kept, the same command continues from here\n"


def test_kills_lose_and_double_nothing(tmp_path: Path) -> None:
    slow = small_study(tmp_path, "fake:passage?seconds_per_prompt=0.03", FACTS, FEW_STAGES)
    home = tmp_path / "killed"
    put_parsed(home, slow)
    moments = random.Random(7)
    said: list[str] = []
    landed = sum(kill_in_generation(home, slow, moments.uniform(0.1, 1.2), said) for _ in range(KILLS))
    assert landed == KILLS

    said.append(run_up_to_the_warehouse(home, slow))
    # A kill between two of Dagster's runs leaves none behind, so that not every start finds a dead one.
    assert "was dead" in "".join(said)

    fast = small_study(tmp_path, "fake:passage", FACTS, FEW_STAGES)
    put_parsed(tmp_path / "whole", fast)
    end_in_dbt(tmp_path / "whole", fast)
    resumed, whole = rows(home), rows(tmp_path / "whole")
    assert resumed.equals(whole)
    keys = resumed.select(["question_id", "method", "prompt"]).to_pylist()
    assert len({tuple(key.values()) for key in keys}) == len(keys)
