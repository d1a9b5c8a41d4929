"""What `make run` shows while it works: a live display on a terminal, a line from time to time in a log."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import re
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
from longtail.progress import EVERY_S, MARK, Progress, Step, current, duration
from longtail.storage.files import STAGING, atomic_file

_CURRENT_SHARE = 0.2


class StageTimes:
    """The seconds that stages took: the last time, in any earlier run, or for another model in this run."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last = _read(path)
        self._of_kind: dict[tuple[str, ...], float] = {}

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
        of_stage, *of_others = (self.of(one) for one in (stage, *after))
        known = [time for time in of_others if time is not None]
        if of_stage is not None:
            known.append(max(0.0, of_stage - seconds))
        if not known:
            return ""
        return f"study {'at least' if len(known) <= len(after) else 'about'} {duration(sum(known))} left"


def _read(path: Path) -> dict[str, float]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return {str(title): float(seconds) for title, seconds in found.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


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


LOGGERS = ("longtail", "dagster_project")  # dagster.yaml shows the same ones in the UI
_BAR_WIDTH = 28
_LONG_S = 10.0
"""A log tells the time of a stage that took longer."""


class Display(logging.Handler):
    """A log: a line when a stage begins, what modules log, and every 30 s without another line how far it is.

    As a handler it shows what modules log (waits, retries, halved batches), each line of information once.
    """

    is_live = False

    def __init__(self, out: IO[str], times: StageTimes, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(logging.INFO)
        self.out, self._times, self._clock = out, times, clock
        self._stages: Sequence[Stage] = ()
        self._number = 0
        self._began = self._said_at = clock()
        self._heard: set[str] = set()

    def plan(self, stages: Sequence[Stage]) -> None:
        """Which stages there are."""
        self._stages = stages

    def begin(self, number: int) -> None:
        """Stage `number` (from 1) begins."""
        self._number, self._began = number, self._clock()
        self.begun()

    def end(self, *, is_done: bool) -> None:
        """The stage has ended; if it `is_done`, its time is told and noted."""
        seconds = self._clock() - self._began
        if is_done:
            self.report_end(seconds)
            self._times.note(self._stages[self._number - 1], seconds)
        self._number = 0

    @property
    def title(self) -> str:
        """The stage under way, `[5/18] answers of …`; empty between stages."""
        if not self._number:
            return ""
        return f"[{self._number}/{len(self._stages)}] {self._stages[self._number - 1].title}"

    def begun(self) -> None:
        """Show that a stage has begun."""
        self.say(self.title)

    def report_end(self, seconds: float) -> None:
        """Show that the stage has ended."""
        if seconds >= _LONG_S:
            self.say(f"{self.title}: done in {duration(seconds)}")

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
            self.write_line(printable(line))

    def write_line(self, line: str) -> None:
        """Show one printable line."""
        print(line, file=self.out, flush=True)

    def beat(self) -> None:
        """Tell how far it is if nothing was said for a while."""
        if self._clock() - self._said_at >= EVERY_S:
            steps = current(self._began)
            step = str(steps[-1].step()) if steps else ""
            told = (duration(self._clock() - self._began), step, self.remaining())
            self.say(f"      {'; '.join(filter(None, told))}")

    def remaining(self) -> str:
        """What is left of the study; empty between stages."""
        if not self._number:
            return ""
        stage, *after = self._stages[self._number - 1 :]
        return self._times.remaining(stage, self._clock() - self._began, after)

    @contextlib.contextmanager
    def listen(self) -> Iterator[Display]:
        """Listen to what modules log, and tell how far it is, until the context ends."""
        over = threading.Event()

        def beats() -> None:
            while not over.wait(1.0):
                self.beat()

        thread = threading.Thread(target=beats, name="display", daemon=True)
        with _listening(self):
            thread.start()
            try:
                yield self
            finally:
                over.set()
                thread.join()


class LiveDisplay(Display):
    """A terminal: two lines that change four times a second below all that stays."""

    is_live = True

    def __init__(
        self, console: Console, times: StageTimes, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(console.file, times, clock)
        self.console = console

    def begun(self) -> None:
        """The live lines say so."""

    def report_end(self, seconds: float) -> None:
        self.say(
            f"{self.title}: {seconds:.1f} s" if seconds < _LONG_S else f"{self.title}: {duration(seconds)}"
        )

    def write_line(self, line: str) -> None:
        self.console.print(Text(line), soft_wrap=True)

    def __rich__(self) -> RenderableType:
        """The stage with its times, and the step that advanced last with its bar."""
        steps = current(self._began)
        seconds = duration(self._clock() - self._began)
        told = [self.title or "starting", seconds, self.remaining()]
        head = Text(
            printable(" · ".join(filter(None, told))),
            style="bold",
            no_wrap=True,
            overflow="ellipsis",
        )
        return Group(head, _line(steps[-1].step())) if steps else head

    @contextlib.contextmanager
    def listen(self) -> Iterator[Display]:
        with (
            _listening(self),
            Live(
                console=self.console,
                get_renderable=self.__rich__,
                transient=True,
                redirect_stderr=sys.stderr.isatty(),
                vertical_overflow="crop",
            ),
            _hide_children(),
        ):
            self.console.show_cursor(True)  # so that no way of ending leaves a terminal without one
            yield self


def _line(step: Step) -> Table:
    """The bar of a step with its numbers."""
    line = Table.grid(padding=(0, 1))
    line.add_column(width=_BAR_WIDTH)
    line.add_column(no_wrap=True, overflow="ellipsis")
    share = step.share if step.share is not None else 0.0
    bar = ProgressBar(total=1.0, completed=share, pulse=step.share is None, width=_BAR_WIDTH)
    line.add_row(bar, Text(printable(str(step))))
    return line


@contextlib.contextmanager
def _hide_children() -> Iterator[None]:
    """Keep what other processes print as errors off the terminal: Dagster's watchers show a trace after each Ctrl-C.

    Errors of this process come through the display. With `make run 2>file`, the file has all.
    """
    if not sys.__stderr__ or not sys.__stderr__.isatty():
        yield
        return
    descriptor = sys.__stderr__.fileno()
    kept = os.dup(descriptor)
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), descriptor)
    try:
        yield
    finally:
        os.dup2(kept, descriptor)
        os.close(kept)


@contextlib.contextmanager
def _listening(handler: logging.Handler) -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in LOGGERS]
    levels = [log.level for log in loggers]
    for log in loggers:
        log.setLevel(logging.INFO)
        log.addHandler(handler)
    try:
        yield
    finally:
        for log, level in zip(loggers, levels, strict=True):
            log.removeHandler(handler)
            log.setLevel(level)


def display_on(out: IO[str], times: StageTimes) -> Display:
    """The display that suits `out`: a live one on a terminal that can move its cursor, else a log."""
    console = Console(file=out, highlight=False)
    is_live = out.isatty() and not console.is_dumb_terminal
    return LiveDisplay(console, times) if is_live else Display(out, times)
