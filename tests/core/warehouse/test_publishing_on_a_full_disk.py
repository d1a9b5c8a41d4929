"""A real full disk while the warehouse, its export, the report and its documentation are published."""

from __future__ import annotations

import json
from pathlib import Path

from tests.core.warehouse.publishing_on_a_small_disk import FREE
from tests.small_disk import run_with_small_disk
from tests.warehouses import UNANSWERED, folder_of


def test_each_step_ends_in_one_line_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    module = "tests.core.warehouse.publishing_on_a_small_disk"
    done = run_with_small_disk(module, str(folder_of(UNANSWERED)), str(tmp_path))
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
