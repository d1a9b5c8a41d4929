"""What all HTTP clients share: clock, retries, sessions, Retry-After, and printable excerpts of answers."""

from __future__ import annotations

import ipaddress
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from importlib import metadata
from urllib.parse import urlsplit

import requests

from longtail.errors import printable

_SNIPPET = 160


@dataclass(frozen=True)
class Clock:
    """The time as a client sees it; tests pass a clock that does not wait. `now` is in Unix seconds."""

    monotonic: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True)
class RetryPolicy:
    """How long to try: `attempts` in all, with pauses of `base_s` × 2ⁿ up to `cap_s` and jitter.

    If a service asks for a pause longer than `longest_wait_s`, the client stops. `connect_s` and `read_s` limit the
    wait for a connection and for the next bytes. `read_s` exceeds the 60 seconds after which Wikimedia's query service
    stops by itself, so that its own message arrives first.

    A request may take `answer_s` in all, from connecting to the last byte, and its answer may have `largest_answer`
    bytes after decompression. A download may take hours, but its headers and each `stretch` bytes of its body may take
    at most `stretch_s`: it needs at least 9 kB per second.

    After a 429 without Retry-After, all clients pause, `refused_factor` times longer. After `refusals` such answers in
    a row, no request is sent for `after_refusals_s`.
    """

    attempts: int = 6
    base_s: float = 1.0
    cap_s: float = 60.0
    longest_wait_s: float = 300.0
    connect_s: float = 10.0
    read_s: float = 75.0
    refused_factor: float = 5.0
    refusals: int = 5
    after_refusals_s: float = 900.0
    largest_answer: int = 1 << 29
    answer_s: float = 300.0
    stretch_s: float = 120.0
    stretch: int = 1 << 20

    def backoff_s(self, number: int, jitter: float) -> float:
        """The pause after attempt `number` (from 1), in seconds; `jitter` in [0, 1) spreads the clients over time."""
        return min(self.cap_s, self.base_s * 2.0 ** (number - 1)) * (0.5 + jitter / 2)


class Sessions:
    """Sessions by thread and name, closed together: `requests` does not promise that threads can share a session."""

    def __init__(self) -> None:
        self._local = threading.local()
        self._lock = threading.Lock()
        self._made: list[requests.Session] = []

    def get(self, name: str, make: Callable[[], requests.Session]) -> requests.Session:
        """This thread's session with that name; `make` makes it at the first call."""
        session: requests.Session | None = getattr(self._local, name, None)
        if session is None:
            session = make()
            setattr(self._local, name, session)
            with self._lock:
                self._made.append(session)
        return session

    def close(self) -> None:
        """Close the sessions of all threads."""
        with self._lock:
            for session in self._made:
                session.close()
            self._made.clear()


def own_version() -> str:
    """Longtail's version, which clients send as part of their name."""
    try:
        return metadata.version("longtail")
    except metadata.PackageNotFoundError:  # the package is not installed
        return "0"


def retry_after_seconds(header: str | None, now: float) -> float | None:
    """The wait in a Retry-After header, which holds seconds or an HTTP date; None for anything else."""
    if header is None:
        return None
    text = header.strip()
    if text.isascii() and text.isdecimal():
        return float(text)
    moment = unix_seconds(text)
    return None if moment is None else max(0.0, moment - now)


def unix_seconds(http_date: str | None) -> float | None:
    """An HTTP date in Unix seconds; None if it is not a date."""
    try:
        return parsedate_to_datetime(http_date).timestamp() if http_date else None
    except (ValueError, TypeError, OverflowError, OSError):
        return None


def is_loopback(url: str) -> bool:
    """Whether `url` stays on this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def snippet(text: str) -> str:
    """The beginning of a text as one printable line."""
    return printable(" ".join(text[: 4 * _SNIPPET].split())[:_SNIPPET])
