"""What `make run` shows while it works: a live display on a terminal, a line from time to time in a log."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import IO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from dagster_project.stages import Stage
from longtail.commands.stage_times import Left, StageTimes
from longtail.errors import printable
from longtail.progress import EVERY_S, MARK, Progress, Step, current, duration

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
            self.ended(seconds)
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

    def ended(self, seconds: float) -> None:
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
            told = (duration(self._clock() - self._began), step, str(self.left(steps)))
            self.say(f"      {'; '.join(filter(None, told))}")

    def left(self, steps: Sequence[Progress]) -> Left:
        """Of the stage under way and of the study."""
        if not self._number:
            return Left(None, None)
        stage, after = self._stages[self._number - 1], self._stages[self._number :]
        return self._times.left(stage, self._clock() - self._began, steps, after)

    @contextlib.contextmanager
    def shown(self) -> Iterator[Display]:
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

    def ended(self, seconds: float) -> None:
        self.say(
            f"{self.title}: {seconds:.1f} s" if seconds < _LONG_S else f"{self.title}: {duration(seconds)}"
        )

    def write_line(self, line: str) -> None:
        self.console.print(Text(line), soft_wrap=True)

    def __rich__(self) -> RenderableType:
        """The stage with its times, and the step that advanced last with its bar."""
        steps = current(self._began)
        seconds = duration(self._clock() - self._began)
        told = [self.title or "starting", seconds, str(self.left(steps))]
        head = Text(
            printable(" · ".join(filter(None, told))),
            style="bold",
            no_wrap=True,
            overflow="ellipsis",
        )
        return Group(head, _line(steps[-1].step())) if steps else head

    @contextlib.contextmanager
    def shown(self) -> Iterator[Display]:
        with (
            _listening(self),
            Live(
                console=self.console,
                get_renderable=self.__rich__,
                transient=True,
                redirect_stderr=sys.stderr.isatty(),
                vertical_overflow="crop",
            ),
            _without_children(),
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
def _without_children() -> Iterator[None]:
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
