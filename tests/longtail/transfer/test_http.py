"""What all HTTP clients share: Retry-After, backoff, addresses; a body ends in time."""

from __future__ import annotations

from email.utils import formatdate

import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st

from longtail.transfer.http import (
    Deadline,
    OverdueError,
    RetryPolicy,
    body_parts,
    deadline,
    is_loopback,
    retry_after_seconds,
    snippet,
)
from tests.dripping import DRIPS, dripping


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


@given(st.integers(1, 40), st.floats(0, 1, exclude_max=True))
def test_the_pause_doubles_up_to_its_cap(number: int, jitter: float) -> None:
    policy = RetryPolicy(base_s=0.5, cap_s=8.0)
    whole = min(8.0, 0.5 * 2 ** (number - 1))
    assert whole / 2 <= policy.backoff_s(number, jitter) <= whole


def test_a_snippet_is_one_printable_line() -> None:
    assert snippet("a\n  b\x00\ud800" + "c" * 999).startswith("a b\\x00\\ud800ccc")
    assert len(snippet("c" * 999)) == 160


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://127.0.0.1:8000/sparql", True),
        ("http://localhost/x", True),
        ("http://[::1]:80/", True),
        ("https://query.wikidata.org/sparql", False),
        ("http://127.0.0.1.example.org/", False),
        ("http://user@127.0.0.1:80@example.org/", False),
        ("not a url", False),
    ],
)
def test_loopback(url: str, expected: bool) -> None:
    assert is_loopback(url) is expected


def read(url: str, seconds: float = 0.4, renewed_by: int | None = None) -> bytes:
    """Reads a whole answer. Each single wait has a limit, but too late for the deadline."""
    with deadline(seconds, renewed_by), requests.get(url, timeout=(6, 6), stream=True) as response:
        return b"".join(body_parts(response, 1024))


@pytest.mark.parametrize("name", DRIPS)
def test_a_slow_body_does_not_outlive_the_deadline(name: str) -> None:
    with dripping(DRIPS[name]) as port, pytest.raises(OverdueError, match=r"no end after 0.4 s"):
        read(f"http://127.0.0.1:{port}/")


def test_a_very_slow_download_fails() -> None:
    slow = pytest.raises(OverdueError, match=r"fewer than 1,000 bytes in 0.4 s")
    with dripping(DRIPS["body"]) as port, slow:
        read(f"http://127.0.0.1:{port}/", renewed_by=1_000)


def test_each_part_of_a_download_has_its_own_time() -> None:
    seconds = [100.0]
    own = Deadline(10.0, renewed_by=1_000, now=lambda: seconds[0])
    for _ in range(20):  # 100 s in all
        seconds[0] += 5.0
        own.count_bytes(999)
        assert own.left_s() == 5.0
        own.count_bytes(1)
        assert own.left_s() == 10.0
    seconds[0] += 10.0
    with pytest.raises(OverdueError):
        own.count_bytes(1)
