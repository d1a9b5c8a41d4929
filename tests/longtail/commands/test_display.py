"""What `make run` shows while it works: lines in a log, two live lines on a terminal, nothing raw from outside."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from dagster_project.stages import Stage
from longtail.commands.display import Calm, Display, StageTimes
from longtail.progress import MARK, Progress

LOG = logging.getLogger("longtail")
STAGES = (
    Stage("questions", ("lake/questions",)),
    Stage("answers of one", ("lake/answers",), model="one"),
    Stage("answers of two", ("lake/answers",), model="two"),
    Stage("warehouse", ("published_warehouse",), is_output=True),
)


class Clock:
    """A clock that tests turn; it begins after all other steps of this process."""

    def __init__(self) -> None:
        self.now = 1e12

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def times(tmp_path: Path) -> StageTimes:
    return StageTimes(tmp_path / "times.json")


@pytest.fixture
def log(times: StageTimes, clock: Clock) -> Iterator[Display]:
    """A display in a log that listens, its thread aside."""
    display = Display(Console(file=io.StringIO()), times, clock)
    display.plan(STAGES)
    LOG.addHandler(display)
    level = LOG.level
    LOG.setLevel(logging.INFO)
    yield display
    LOG.removeHandler(display)
    LOG.setLevel(level)


def lines(display: Display) -> list[str]:
    assert isinstance(display.console.file, io.StringIO)
    return display.console.file.getvalue().splitlines()


def test_a_log_tells_stages_and_after_thirty_silent_seconds_how_far_it_is(log: Display, clock: Clock) -> None:
    log.begin(2)
    with Progress(LOG, "partitions", 2, clock=clock), Progress(LOG, "rows", 100, 100, clock) as rows:
        for _ in range(60):
            clock.now += 1
            rows.add(1)
            log.beat()
    log.end(is_done=True)
    assert lines(log) == [
        "[2/4] answers of one",
        "      30 s; rows: 30 of 100, 1.0/s, about 70 s left",
        "      60 s; rows: 60 of 100, 1.0/s, about 40 s left",
        "[2/4] answers of one: done in 60 s",
    ]


def test_lines_of_modules_are_shown_once_warnings_always_and_no_progress(log: Display, clock: Clock) -> None:
    log.begin(1)
    for _ in range(2):
        LOG.info("%s: waiting for a GPU", "tiny")
        LOG.warning("rows put aside")
        LOG.info("rows: 3 of 9", extra={MARK: True})
    log.end(is_done=True)
    rejected = "      rows put aside"
    assert lines(log) == ["[1/4] questions", "      tiny: waiting for a GPU", rejected, rejected]


def test_nothing_from_outside_reaches_a_terminal_raw(log: Display, clock: Clock, times: StageTimes) -> None:
    evil = "bad\x00label\x1b[31m\x9b2J"
    LOG.info("%s\nsecond line", evil)
    assert lines(log) == ["      bad\\x00label\\x1b[31m\\x9b2J", "      second line"]
    out = Terminal()
    console = Console(file=out, force_terminal=True, width=100, color_system=None)
    live = Display(console, times, clock)
    live.plan(STAGES)
    live.begin(1)
    with Progress(LOG, evil, 10, clock=clock):
        live.say(evil)
        console.print(live)
    assert "bad\\x00label\\x1b[31m\\x9b2J: 0 of 10" in out.getvalue()
    assert not {"\x00", "\x1b", "\x9b"} & set(out.getvalue())


def test_the_live_lines_tell_stage_step_and_what_is_left(clock: Clock, times: StageTimes) -> None:
    times.note(STAGES[2], 40.0)
    times.note(STAGES[3], 60.0)
    console = Console(file=Terminal(), force_terminal=True, width=120, color_system=None)
    live = Display(console, times, clock)
    assert str(live.__rich__()) == "starting · 0 s"
    live.plan(STAGES)
    live.begin(2)
    with Progress(LOG, "answers one|bm25", 100, 100, clock) as rows:
        clock.now += 10
        rows.add(50, tokens=4_000)
        console.print(live)
    assert isinstance(console.file, Terminal)
    head, bar = console.file.getvalue().splitlines()
    assert head.rstrip() == "[2/4] answers of one · 10 s · study about 2 min left"
    assert "━" * 14 in bar
    assert bar.endswith(
        "answers one|bm25: 50 of 100, 5.0/s (400 tokens/s), about 10 s left".ljust(len(bar[29:]))
    )
    for number, after in ((2, "between stages"), (4, "finishing")):
        live.begin(number)
        clock.now += 7
        live.end(is_done=False)
        clock.now += 3
        assert str(live.__rich__()) == f"{after} · 3 s"


def test_a_terminal_is_left_with_its_cursor_and_without_live_lines(times: StageTimes) -> None:
    out = Terminal()
    display = Display(Console(file=out, force_terminal=True, width=80), times)

    def interrupted() -> None:
        with display.listen():
            display.plan(STAGES)
            display.begin(1)
            display.say("a line that stays")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    text = out.getvalue()
    assert "a line that stays" in text
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")
    assert text.rindex("\x1b[2K") > text.rindex("[1/4]")  # the live line is erased
    assert display not in LOG.handlers


@pytest.mark.parametrize(
    ("out", "term", "is_live"),
    [(Terminal, "xterm", True), (Terminal, "dumb", False), (io.StringIO, "xterm", False)],
)
def test_only_a_terminal_that_can_move_its_cursor_is_live(
    out: type[io.StringIO], term: str, is_live: bool, times: StageTimes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", term)
    monkeypatch.setenv("FORCE_COLOR", "1")  # asks for colours, not for a terminal
    assert Display(Console(file=out()), times).is_live == is_live


def test_stage_times_are_kept_over_runs_and_a_current_stage_forgets_none(
    tmp_path: Path, clock: Clock
) -> None:
    path = tmp_path / "home" / "times.json"
    StageTimes(path).note(STAGES[3], 42.0)
    assert [one.name for one in tmp_path.iterdir()] == ["home"]  # nothing is written beside the home
    times = StageTimes(path)
    times.note(STAGES[3], 1.0)  # nothing was computed
    times.note(STAGES[1], 10.0)
    assert json.loads(path.read_text()) == {"warehouse": 42.0, "answers of one": 10.0}
    assert times.of(STAGES[2]) == 10.0  # as the other model took
    assert times.of(STAGES[0]) is None
    assert times.remaining(STAGES[2], 4.0, STAGES[3:]) == "study about 48 s left"
    assert times.remaining(STAGES[0], 4.0, STAGES[1:]) == "study at least 62 s left"
    assert StageTimes(tmp_path / "none").remaining(STAGES[0], 4.0, STAGES[1:]) == ""
    path.write_text("{broken")
    assert StageTimes(path).of(STAGES[3]) is None


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
