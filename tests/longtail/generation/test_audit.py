"""A first accuracy stands in the log as soon as a partition of answers is written."""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path

import pytest

from longtail.generation.tasks.registry import tell_accuracy
from longtail.storage.lake import Lake, Outcome
from tests.lakes import LakePlan, make_lake

LOG = logging.getLogger("provisional")


def told(lake: Lake, outcome: Outcome, caplog: pytest.LogCaptureFixture) -> list[str]:
    caplog.clear()
    with caplog.at_level(logging.INFO):
        tell_accuracy(lake, outcome, LOG)
    return caplog.messages


def test_every_dataset_and_prompt_has_a_line_when_the_rows_are_new(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plan = LakePlan(datasets=("a", "b"), prompts=("zero_shot", "few_shot"), always_right=("large",))
    lake = make_lake(tmp_path, plan)
    stamp = lake.stamp("answers", "large|closed_book")
    assert stamp is not None
    new = Outcome("answers", "large|closed_book", stamp, was_current=False)
    assert told(lake, new, caplog) == [
        f"large · closed_book · {prompt} · {dataset}: accuracy 100.0 % [96.8, 100.0] of n = 120"
        " (provisional; the mart decides)"
        for dataset in ("a", "b")
        for prompt in ("few_shot", "zero_shot")
    ]
    assert told(lake, dataclasses.replace(new, was_current=True), caplog) == []
    assert told(lake, dataclasses.replace(new, table="generated_passages"), caplog) == []


def test_the_share_is_counted_from_the_lakes_own_verdicts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lake = make_lake(tmp_path, LakePlan(models=("small",)))
    stamp = lake.stamp("answers", "small|bm25")
    assert stamp is not None
    rows = lake.read("answers", "small|bm25", ["is_correct"])["is_correct"].to_pylist()
    (line,) = told(lake, Outcome("answers", "small|bm25", stamp, was_current=False), caplog)
    assert line.startswith(f"small · bm25 · zero_shot: accuracy {100 * sum(rows) / len(rows):.1f} % [")
    assert f"of n = {len(rows)} (" in line


def test_many_empty_predictions_are_told_with_what_helps(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lake = make_lake(tmp_path, LakePlan(models=("small",)))
    partition = "small|closed_book"
    rows = lake.read("answers", partition).to_pylist()
    for n_empty, n_lines in ((len(rows) // 5, 1), (len(rows) // 5 + 1, 2)):
        changed = [{**row, "prediction": " \n"} if at < n_empty else row for at, row in enumerate(rows)]
        stamp = lake.write("answers", changed, fingerprint="f", partition=partition)
        lines = told(lake, Outcome("answers", partition, stamp, was_current=False), caplog)
        assert len(lines) == n_lines
    assert f"zero_shot: {n_empty} of {len(rows)} predictions are empty" in lines[1]
    assert "key shots" in lines[1]
