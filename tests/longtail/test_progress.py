"""How far a step is: rates in sensible units, a time left that has a basis, and few lines in the log."""

from __future__ import annotations

import logging

import pytest

from longtail.progress import EVERY_S, MARK, Progress, current, duration, rate

LOG = logging.getLogger("progress")


class Clock:
    """A clock that tests turn."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.mark.parametrize(
    ("n", "seconds", "told"),
    [
        (10, 52.0, "5.2 s each"), (1, 1.0, "1.0/s"), (34, 10.0, "3.4/s"), (1, 150.0, "2 min each"),
        (8_420, 10.0, "842/s"), (999, 10.0, "99.9/s"), (9, 10.0, "1.1 s each"),
    ],
)  # fmt: skip
def test_rates_have_sensible_units(n: int, seconds: float, told: str) -> None:
    assert rate(n, seconds) == told


@pytest.mark.parametrize(
    ("seconds", "told"), [(8.4, "8 s"), (89, "89 s"), (180, "3 min"), (5_040, "84 min"), (5_400, "1.5 h")]
)
def test_durations_are_as_precise_as_an_estimate(seconds: float, told: str) -> None:
    assert duration(seconds) == told


def test_the_time_left_follows_the_work_and_has_a_basis(clock: Clock) -> None:
    with Progress(LOG, "answers m|bm25", 100, work=1000.0, clock=clock) as progress:
        clock.now += 1
        progress.add(10, work=50.0, tokens=600)
        assert str(progress) == "answers m|bm25: 10 of 100"  # one second is no basis
        clock.now += 9
        progress.add(10, work=150.0, tokens=600)
        assert str(progress) == "answers m|bm25: 20 of 100, 2.0/s (120 tokens/s), about 40 s left"
        clock.now += 30  # a long batch: the rate stays, the time left is counted down
        assert str(progress) == "answers m|bm25: 20 of 100, 2.0/s (120 tokens/s), about 10 s left"
        clock.now += 30
        assert str(progress) == "answers m|bm25: 20 of 100, 2.0/s (120 tokens/s)"


def test_a_step_without_a_count_tells_its_time(clock: Clock) -> None:
    with Progress(LOG, "tiny: loading", clock=clock) as progress:
        clock.now += 12
        assert str(progress) == "tiny: loading: 12 s"
    with Progress(LOG, "bytes of a dump", clock=clock) as progress:
        clock.now += 10
        progress.add(5_000_000)
        assert str(progress) == "bytes of a dump: 5,000,000, 500,000/s"


def test_the_log_hears_of_a_step_every_thirty_seconds_and_of_its_end(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    progress = Progress(LOG, "entities", 1_000, clock=clock)
    for _ in range(100):
        clock.now += 1
        progress.add(10)
    progress.done()
    assert len(caplog.messages) == 100 // EVERY_S + 1
    assert caplog.messages[0] == "entities: 300 of 1,000, 10.0/s, about 70 s left"
    assert caplog.messages[-1] == "entities: 1,000 of 1,000 in 100.0 s"
    assert all(getattr(record, MARK) for record in caplog.records)


def test_the_step_that_advanced_last_is_the_last_until_it_ends(clock: Clock) -> None:
    clock.now = 1e12  # later than any other step of this process
    with Progress(LOG, "outer", 2, clock=clock) as outer:
        clock.now += 1
        inner = Progress(LOG, "inner", 2, clock=clock)
        assert current(1e12) == [outer, inner]
        clock.now += 1
        outer.add(1)
        assert current(1e12) == [inner, outer]
        assert current(1e12 + 1) == [inner]
        inner.done()
        assert current(1e12) == [outer]
    assert current(1e12) == []
