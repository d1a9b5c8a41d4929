"""What the terminal shows while a stage runs: dbt's progress and failures, without a line per event on a full disk.

What belongs here: streams that replace the terminal's. What does not: what `make run` itself prints (`run`).
"""

from __future__ import annotations

import io
import re
import time
from typing import IO

_DBT_PROGRESS = re.compile(r"(?:\S+\s+)?(\d+) of (\d+) (?:PASS|OK)")
_DBT_TROUBLE = re.compile(r"\b(?:ERROR|FAIL|WARN)\b(?!=)|Database Error|Compilation Error|Runtime Error")
_EVENT_NOT_TAKEN = "Exception while writing logger call to event log: (sqlite3."


class Condensed(io.TextIOBase):
    """Replaces dbt's hundreds of lines by a line of progress every two seconds; failures are shown whole."""

    def __init__(self, terminal: IO[str]) -> None:
        self._terminal = terminal
        self._shown_at = time.monotonic()

    def write(self, text: str) -> int:
        for line in text.splitlines():
            progress = _DBT_PROGRESS.match(line)
            if _DBT_TROUBLE.search(line):
                print(f"      dbt: {line.strip()}", file=self._terminal, flush=True)
            elif progress and time.monotonic() - self._shown_at > 2:
                self._shown_at = time.monotonic()
                print(
                    f"      dbt: {progress[1]} of {progress[2]} models and tests",
                    file=self._terminal,
                    flush=True,
                )
        return len(text)


class Calm(io.TextIOBase):
    """Standard error without Dagster's line for each log event that a full disk rejects: one line at the end reports
    it."""

    def __init__(self, terminal: IO[str]) -> None:
        self._terminal = terminal

    def write(self, text: str) -> int:
        if not text.startswith(_EVENT_NOT_TAKEN):
            self._terminal.write(text)
        return len(text)

    def flush(self) -> None:
        self._terminal.flush()

    def fileno(self) -> int:
        return self._terminal.fileno()  # which Dagster copies to its own log of the step
