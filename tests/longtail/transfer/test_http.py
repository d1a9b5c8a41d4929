"""Parts that all HTTP clients share: Retry-After, backoff, addresses of this machine."""

from __future__ import annotations

from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longtail.transfer.http import RetryPolicy, is_loopback, retry_after_seconds, snippet


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


def test_no_header() -> None:
    assert retry_after_seconds(None, 0.0) is None
    assert retry_after_seconds("soon", 0.0) is None
    assert retry_after_seconds("-3", 0.0) is None


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
