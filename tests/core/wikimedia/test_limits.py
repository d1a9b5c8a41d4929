"""The limiter and Retry-After."""

from __future__ import annotations

from email.utils import formatdate

from hypothesis import given
from hypothesis import strategies as st

from dagster_project.core.wikimedia.limits import Limiter, retry_after_seconds


@given(st.text(max_size=40))
def test_any_header_is_read_without_an_error(text: str) -> None:
    seconds = retry_after_seconds(text, now=0.0)
    assert seconds is None or seconds >= 0


@given(st.integers(0, 10**9))
def test_seconds(seconds: int) -> None:
    assert retry_after_seconds(f" {seconds} ", now=5.0) == seconds


@given(st.integers(0, 2_000_000_000), st.integers(-100_000, 100_000))
def test_dates(now: int, ahead: int) -> None:
    assert retry_after_seconds(formatdate(now + ahead, usegmt=True), now) == max(0, ahead)


def test_nothing_asked() -> None:
    assert retry_after_seconds(None, 0.0) is None
    assert retry_after_seconds("soon", 0.0) is None
    assert retry_after_seconds("-3", 0.0) is None


def test_a_pause_holds_whoever_comes_next(fake_time) -> None:
    limiter = Limiter(0.0, 3, fake_time.clock())
    limiter.pause(12.0)
    for _ in range(2):
        with limiter.slot():
            pass
    assert fake_time.sleeps == [12.0]
