"""kill -9 in the middle of generation, SIGTERM in dbt: the next run starts at once and nothing is lost or doubled."""

from __future__ import annotations

import os
import shutil
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

FEW_STAGES = {**ANSWERS_ALONE, 'page_views, n_months: 2, last_month: "2026-10"': "sitelinks"}
"""An edit of the study: the fewer stages before generation, the shorter each of the starts."""
ROWS = ("dataset", "question_id", "model", "method", "prompt", "prediction", "raw_text", "prompt_hash")


def rows(home: Path) -> pa.Table:
    """The generated rows without what tells of the run."""
    files = sorted((home / "small/lake/answers").glob("scripted__*.parquet"))
    assert len(files) == 4  # one a method
    return pa.concat_tables([pq.read_table(file, columns=list(ROWS), partitioning=None) for file in files])


def kill_in_generation(home: Path, study: Path) -> None:
    """Start a run, and kill it when it has put answers into the row cache."""
    process = start_study(home, study)
    read_until(process, "answers of scripted", [])
    before = size(home / "row_cache")
    for _ in range(600):
        if size(home / "row_cache") > before:
            break
        time.sleep(0.1)
    assert process.kill()


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*.sqlite*"))


def end_in_dbt(home: Path, study: Path) -> str:
    """Run the study and end it by SIGTERM where dbt begins: one line, no trace, nothing that goes on. What it printed
    before."""
    process, said = start_study(home, study), list[str]()
    assert process.stdout is not None
    try:
        read_until(process, "models and tests are current", said)
        os.kill(process.pid, signal.SIGTERM)
        rest = process.stdout.read()  # up to the end of the last process that holds it
        assert process.wait(60) == 128 + signal.SIGTERM
    finally:
        process.kill()
    assert rest == "stopped; finished rows are kept, the same command continues from here\n"
    return "".join(said)


def test_kills_lose_and_double_nothing(tmp_path: Path) -> None:
    study, home = (
        small_study(tmp_path, "fake:passage?seconds_per_prompt=0.03", 10, FEW_STAGES),
        tmp_path / "home",
    )
    put_parsed(home, study)
    kill_in_generation(home, study)
    assert "was dead" in end_in_dbt(home, study)
    resumed = rows(home)
    for folder in ("row_cache", "small/lake/answers"):
        shutil.rmtree(home / folder)
    small_study(tmp_path, "fake:passage", 10, FEW_STAGES)
    run_up_to_the_warehouse(home, study)
    assert resumed.equals(rows(home))
    keys = resumed.select(["question_id", "method", "prompt"]).to_pylist()
    assert len({tuple(key.values()) for key in keys}) == len(keys)
