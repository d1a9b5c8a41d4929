"""What takes the terminal's place while a stage runs: dbt's progress and failures, without a line per event on a full
disk.
"""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Callable
from typing import IO

from longtail.progress import Progress

_LOG = logging.getLogger("longtail")
_DBT_PROGRESS = re.compile(r"(?:\S+\s+)?(\d+) of (\d+) (?:PASS|OK)")
_DBT_TROUBLE = re.compile(r"\b(?:ERROR|FAIL|WARN)\b(?!=)|Database Error|Compilation Error|Runtime Error")
_EVENT_NOT_TAKEN = "Exception while writing logger call to event log: (sqlite3."


class Condensed(io.TextIOBase):
    """Takes dbt's hundreds of lines as a step's progress; `say` shows failures whole."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._total = 0
        self._progress: Progress | None = None

    def write(self, text: str) -> int:
        for line in text.splitlines():
            progress = _DBT_PROGRESS.match(line)
            if _DBT_TROUBLE.search(line):
                self._say(f"      dbt: {line.strip()}")
            elif progress:
                self._advance(int(progress[2]))
        return len(text)

    def close(self) -> None:
        """dbt prints nothing more."""
        self._finish()
        super().close()

    def _advance(self, total: int) -> None:
        """One more of `total` nodes; another total means another run of dbt."""
        if self._progress is None or total != self._total:
            self._finish()
            self._total, self._progress = total, Progress(_LOG, "dbt: models and tests", total)
        self._progress.add(1)
        if self._progress.step().done == total:  # what follows is no work of dbt
            self._finish()

    def _finish(self) -> None:
        if self._progress is not None:
            self._progress.done()
            self._progress = None


class Calm(io.TextIOBase):
    """Standard error without Dagster's line for each log event that a full disk rejects: one line at the end reports
    it.

    Where it `is_copied`, Dagster also writes it to its own log of the step. That takes processes which write to the
    terminal themselves, so a live display does without.
    """

    def __init__(self, terminal: IO[str], *, is_copied: bool = True) -> None:
        self._terminal, self._is_copied = terminal, is_copied

    def write(self, text: str) -> int:
        if not text.startswith(_EVENT_NOT_TAKEN):
            self._terminal.write(text)
        return len(text)

    def flush(self) -> None:
        self._terminal.flush()

    def fileno(self) -> int:
        if not self._is_copied:
            raise io.UnsupportedOperation("no descriptor to copy")
        return self._terminal.fileno()
