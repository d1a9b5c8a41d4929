"""What `make run` shows while it works: a live display on a terminal, a line from time to time in a log."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from dagster_project.stages import Stage
from longtail.errors import LongtailError, printable
from longtail.progress import EVERY_S, MARK, current, duration
from longtail.storage.files import STAGING, atomic_file

_CURRENT_SHARE = 0.2


class StageTimes:
    """The seconds that stages took: the last time, in any earlier run, or for another model in this run."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last: dict[str, float] = {}
        self._of_kind: dict[tuple[str, ...], float] = {}
        with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):
            noted = json.loads(path.read_text(encoding="utf-8"))
            self._last = {str(title): float(seconds) for title, seconds in noted.items()}

    def note(self, stage: Stage, seconds: float) -> None:
        """The stage has ended. Much less time than before means that it was current: then the old time is kept.

        Where the disk fails, only the note is lost.
        """
        if seconds < _CURRENT_SHARE * self._last.get(stage.title, 0.0):
            return
        self._last[stage.title] = round(seconds, 1)
        self._of_kind[stage.keys] = seconds
        staging = self._path.parent / STAGING
        with contextlib.suppress(OSError, LongtailError), atomic_file(self._path, staging) as temporary:
            temporary.write_text(json.dumps(self._last), encoding="utf-8")

    def of(self, stage: Stage) -> float | None:
        """How long the stage may take; None without a basis."""
        return self._last.get(stage.title, self._of_kind.get(stage.keys))

    def remaining(self, stage: Stage, seconds: float, after: Sequence[Stage]) -> str:
        """What is left of the study: of `stage`, which has run for `seconds`, and of those `after` it.

        Empty where no time is known.
        """
        of_stage, *of_others = map(self.of, (stage, *after))
        known = [time for time in of_others if time is not None]
        if of_stage is not None:
            known.append(max(0.0, of_stage - seconds))
        if not known:
            return ""
        return f"study {'at least' if len(known) <= len(after) else 'about'} {duration(sum(known))} left"


_EVENT_NOT_TAKEN = "Exception while writing logger call to event log: (sqlite3."


class Calm(io.TextIOBase):
    """Standard error without Dagster's line for each log event that a full disk rejects: one line at the end reports
    it."""

    def __init__(self, terminal: IO[str]) -> None:
        self._terminal = terminal

    def write(self, text: str) -> int:
        return len(text) if text.startswith(_EVENT_NOT_TAKEN) else self._terminal.write(text)

    def flush(self) -> None:
        self._terminal.flush()


LOGGERS = ("longtail", "dagster_project")  # dagster.yaml shows the same ones in the UI
_BAR_WIDTH = 28
_LONG_S = 10.0
"""A log tells the time of a stage that took longer."""


class Display(logging.Handler):
    """On a terminal that can move its cursor, two lines that change four times a second below all that stays. Elsewhere a
    log: a line when a stage begins or has taken long, and every 30 s without another line how far it is.

    As a handler it shows what modules log (waits, retries, halved batches), each line of information once.
    """

    def __init__(
        self, console: Console, times: StageTimes, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(logging.INFO)
        self.console, self._times, self._clock = console, times, clock
        self.is_live = console.file.isatty() and not console.is_dumb_terminal
        self._stages: Sequence[Stage] = ()
        self._number = 0
        self._began = self._said_at = clock()
        self._heard: set[str] = set()
        self._outside = "starting"  # what it shows where no stage is under way

    def plan(self, stages: Sequence[Stage]) -> None:
        """Which stages there are."""
        self._stages = stages

    def begin(self, number: int) -> None:
        """Stage `number` (from 1) begins."""
        self._number, self._began = number, self._clock()
        if not self.is_live:
            self.say(self._title)

    def end(self, *, is_done: bool) -> None:
        """The stage has ended; if it `is_done`, its time is told and noted."""
        seconds = self._clock() - self._began
        if is_done:
            if seconds >= _LONG_S:
                self.say(f"{self._title}: {'' if self.is_live else 'done in '}{duration(seconds)}")
            elif self.is_live:
                self.say(f"{self._title}: {seconds:.1f} s")
            self._times.note(self._stages[self._number - 1], seconds)
        self._outside = "finishing" if self._number == len(self._stages) else "between stages"
        self._number, self._began = 0, self._clock()

    @property
    def _title(self) -> str:
        """The stage under way, `[5/18] answers of …`; empty between stages."""
        if not self._number:
            return ""
        return f"[{self._number}/{len(self._stages)}] {self._stages[self._number - 1].title}"

    def emit(self, record: logging.LogRecord) -> None:
        """What a module logs. How far a step is, this display shows itself."""
        text = record.getMessage()
        if getattr(record, MARK, False) or (record.levelno < logging.WARNING and text in self._heard):
            return
        self._heard.add(text)
        self.say("\n".join(f"      {line}" for line in text.splitlines()))

    def say(self, text: str) -> None:
        """Show lines that stay."""
        self._said_at = self._clock()
        for line in text.split("\n"):
            self.console.print(Text(printable(line)), soft_wrap=True)

    def beat(self) -> None:
        """Tell how far it is if nothing was said for a while."""
        if self._clock() - self._said_at >= EVERY_S:
            steps = current(self._began)
            step = str(steps[-1]) if steps else ""
            told = (duration(self._clock() - self._began), step, self._remaining())
            self.say(f"      {'; '.join(filter(None, told))}")

    def _remaining(self) -> str:
        """What is left of the study; empty between stages."""
        if not self._number:
            return ""
        stage, *after = self._stages[self._number - 1 :]
        return self._times.remaining(stage, self._clock() - self._began, after)

    def __rich__(self) -> RenderableType:
        """The stage with its times, and the step that advanced last with its bar."""
        told = [self._title or self._outside, duration(self._clock() - self._began), self._remaining()]
        text = printable(" · ".join(filter(None, told)))
        head = Text(text, style="bold", no_wrap=True, overflow="ellipsis")
        steps = current(self._began)
        if not steps:
            return head
        step, line = steps[-1], Table.grid(padding=(0, 1))
        line.add_column(width=_BAR_WIDTH)
        line.add_column(no_wrap=True, overflow="ellipsis")
        share = step.share
        bar = ProgressBar(1.0, share or 0.0, width=_BAR_WIDTH, pulse=share is None)
        line.add_row(bar, Text(printable(str(step))))
        return Group(head, line)

    @contextlib.contextmanager
    def listen(self) -> Iterator[Display]:
        """Listen to what modules log, and tell how far it is, until the context ends."""
        loggers = [logging.getLogger(name) for name in LOGGERS]
        levels = [log.level for log in loggers]
        for log in loggers:
            log.setLevel(logging.INFO)
            log.addHandler(self)
        try:
            with self._live() if self.is_live else self._beating():
                yield self
        finally:
            for log, level in zip(loggers, levels, strict=True):
                log.removeHandler(self)
                log.setLevel(level)

    @contextlib.contextmanager
    def _live(self) -> Iterator[None]:
        shown = Live(
            console=self.console,
            get_renderable=self.__rich__,
            transient=True,
            redirect_stderr=sys.stderr.isatty(),
            vertical_overflow="crop",
        )
        with shown:
            self.console.show_cursor(True)  # so that no way of ending leaves a terminal without one
            yield

    @contextlib.contextmanager
    def _beating(self) -> Iterator[None]:
        over = threading.Event()

        def beat_every_second() -> None:
            while not over.wait(1.0):
                self.beat()

        thread = threading.Thread(target=beat_every_second, name="display", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
