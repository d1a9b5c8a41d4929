"""Metadata tables: a label from outside is text, never markup."""

from __future__ import annotations

import errno
import sqlite3

import dagster as dg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_project.defs.results import clear_errors, markdown_table
from longtail.errors import LakeError


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        sqlite3.OperationalError("database or disk is full"),
        LakeError("answers.parquet: could not be written (No space left on device)"),
    ],
)
def test_a_full_disk_fails_with_one_line_that_says_what_to_do(error: Exception) -> None:
    with pytest.raises(dg.Failure) as failed, clear_errors():
        raise error
    assert failed.value.description is not None
    assert failed.value.description.endswith("make room and run again: finished work is kept")
    assert "\n" not in failed.value.description


def test_a_bug_keeps_its_trace() -> None:
    with pytest.raises(PermissionError), clear_errors():
        raise PermissionError(errno.EACCES, "Permission denied")


def test_markup_in_a_label_is_escaped() -> None:
    table = markdown_table([{"label": "<script>alert(1)</script> | [a](javascript:b) `c` *d*", "n": 2}])
    assert (
        table.splitlines()[-1] == r"| \<script\>alert(1)\</script\> \| \[a\](javascript:b) \`c\` \*d\* | 2 |"
    )


@given(st.lists(st.text(max_size=200), min_size=1, max_size=5))
def test_any_text_stays_in_its_cell(labels: list[str]) -> None:
    lines = markdown_table([{"label": label} for label in labels]).split("\n")
    assert len(lines) == 2 + len(labels)
    for line in lines[2:]:
        inner = line[2:-2]
        assert line.startswith("| ")
        assert line.endswith(" |")
        assert "|" not in inner.replace("\\\\", "").replace("\\|", "")
