"""A real full disk while the warehouse, its export, the report and its documentation are published."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.in_process_dbt import put_parsed
from tests.longtail.warehouse.publishing_on_a_small_disk import FREE
from tests.small_disk import run_with_small_disk
from tests.warehouses import UNANSWERED, copied_study


def test_each_step_ends_in_one_line_and_goes_on_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = copied_study(UNANSWERED, monkeypatch, tmp_path / "disk/study")
    put_parsed(study.home.home, study.path)  # as of the disk, which will be in its place
    (tmp_path / "disk").rename(tmp_path / "source")
    module = "tests.longtail.warehouse.publishing_on_a_small_disk"
    done = run_with_small_disk(module, str(tmp_path / "source/study"), str(tmp_path))
    assert done.returncode == 0, done.stderr[-3000:]
    shown = json.loads(done.stdout.splitlines()[-1])
    for name, lines in shown["said"].items():
        assert len(lines) == len(FREE[name])
        for line in lines:
            assert "\n" not in line
            assert "disk is full" in line or "No space left" in line, (name, lines)
            assert line.endswith("make room and run again: finished work is kept"), (name, line)
    assert shown["left"] == []
    assert shown["rows"] > 40
