"""The streams that replace the terminal's while a stage runs."""

from __future__ import annotations

import contextlib
import io
import time

from longtail.commands.display import Calm, Condensed
from longtail.progress import current


def test_dbt_is_condensed_to_progress_and_failures() -> None:
    said: list[str] = []
    since = time.monotonic()
    with contextlib.closing(Condensed(said.append)) as condensed:
        condensed.write(
            "1 of 9 OK created sql table model\n4 of 9 ERROR creating sql table model\nDone. ERROR=1\n"
        )
        condensed.write("3 of 9 PASS not_null\n")
        (progress,) = current(since)
        assert (progress.step().done, progress.step().total) == (2, 9)
        condensed.write("1 of 4 PASS unique\n")  # another run of dbt
        (progress,) = current(since)
        assert (progress.step().done, progress.step().total) == (1, 4)
    assert not current(since)
    assert said == ["      dbt: 4 of 9 ERROR creating sql table model"]


def test_log_events_rejected_by_a_full_disk_are_not_printed_one_by_one() -> None:
    terminal = io.StringIO()
    calm = Calm(terminal)
    calm.write(
        "Exception while writing logger call to event log: (sqlite3.OperationalError) database or disk is full\n"
        "[SQL: INSERT INTO event_logs]\n(Background on this error at: https://sqlalche.me/e/21/e3q8)\n"
    )
    calm.write("a warning\n")
    calm.write("Exception while writing logger call to event log: cannot pickle\n")
    assert terminal.getvalue() == (
        "a warning\nException while writing logger call to event log: cannot pickle\n"
    )
