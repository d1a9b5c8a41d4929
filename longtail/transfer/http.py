"""What HTTP clients share: clock, retries, sessions, deadlines, Retry-After, and what comes back in place of an answer.

`requests` limits each single wait. A body that comes so slowly that no wait times out ends by its `deadline`.
"""

from __future__ import annotations

import ipaddress
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from importlib import metadata
from typing import Any
from urllib.parse import quote, quote_plus, urlsplit

import requests
import urllib3

from longtail.errors import SourceError, printable

CONTACT = "LONGTAIL_CONTACT"
"""The variable with the operator's address."""
_SNIPPET = 160
_SHORTEST_TELLING = 6  # characters: a shorter part of a secret does not reveal it
_BAN = re.compile(r"\b(banned|blocked)\b", re.IGNORECASE)
_TIME_LIMIT = ("timeoutexception", "timed out", "timeout", "time limit")


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
    """Sessions by thread, closed together: `requests` does not promise that threads can share a session."""

    def __init__(self) -> None:
        self._local = threading.local()
        self._lock = threading.Lock()
        self._open: list[requests.Session] = []

    def get(self, url: str) -> requests.Session:
        """This thread's session for an address. One for this machine uses no proxy of the environment."""
        name = "near" if is_loopback(url) else "far"
        session: requests.Session | None = getattr(self._local, name, None)
        if session is None:
            session = requests.Session()
            session.trust_env = name == "far"
            setattr(self._local, name, session)
            with self._lock:
                self._open.append(session)
        return session

    def close(self) -> None:
        """Close the sessions of all threads."""
        with self._lock:
            for session in self._open:
                session.close()
            self._open.clear()


def longtail_version() -> str:
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


class OverdueError(requests.ReadTimeout):
    """The request's time is over, although the server was still sending."""


class Deadline:
    """The time at which a request must have ended. With `renewed_by`, each so many bytes of a body restart the time."""

    def __init__(
        self, seconds: float, renewed_by: int | None = None, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._seconds, self._renewed_by, self._now = seconds, renewed_by, now
        self._ends, self._n_bytes = now() + seconds, 0

    def left_s(self) -> float:
        """The seconds left; negative after the deadline."""
        return self._ends - self._now()

    def count_bytes(self, n_bytes: int) -> None:
        """Count `n_bytes` of a body as received. Errors: `OverdueError` where no time is left."""
        if self.left_s() <= 0:
            raise OverdueError(str(self))
        self._n_bytes += n_bytes
        if self._renewed_by is not None and self._n_bytes >= self._renewed_by:
            self._ends, self._n_bytes = self._now() + self._seconds, 0

    def __str__(self) -> str:
        if self._renewed_by is None:
            return f"no end after {self._seconds:g} s"
        return f"fewer than {self._renewed_by:,} bytes in {self._seconds:g} s"


_CURRENT: ContextVar[Deadline] = ContextVar("deadline")
"""The deadline of the request that this thread is sending."""


@contextmanager
def deadline(seconds: float, renewed_by: int | None = None) -> Iterator[None]:
    """Limit the one request that is sent and read in this context to `seconds`.

    With `renewed_by` (for downloads), `seconds` limit the wait for the headers and for each so many bytes of the body.
    Errors: `OverdueError`.
    """
    limit = Deadline(seconds, renewed_by)
    token = _CURRENT.set(limit)
    try:
        yield
    except requests.ConnectTimeout:
        raise
    except requests.RequestException as error:
        if limit.left_s() <= 0:
            raise OverdueError(str(limit)) from error
        raise
    finally:
        _CURRENT.reset(token)


def body_parts(response: requests.Response, size: int) -> Iterator[bytes]:
    """The body of the current request, decompressed, in parts of at most `size` bytes, each as soon as it is there."""
    limit = _CURRENT.get()
    try:
        while part := response.raw.read1(size, decode_content=True):
            limit.count_bytes(len(part))
            yield part
    except urllib3.exceptions.HTTPError as error:
        raise requests.ConnectionError(error) from error


class SlowAnswerError(SourceError):
    """The service stopped a query, or did not answer in time: ask for less at once."""


class RefusedRequestError(SourceError):
    """The service refuses this request with `status` (4xx): another attempt would fail in the same way."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Failure:
    """What came back instead of an answer.

    `wait_s`: the pause that the service asks for; `is_refused`: the status is 429; `is_banned`: the service refuses
    this operator.
    """

    what: str
    is_slow: bool = False
    wait_s: float | None = None
    is_refused: bool = False
    is_banned: bool = False


def catch_failure(attempt: Callable[[], Any], secret: str | None = None) -> Any:
    """The attempt's result, or a `Failure` for a lost connection or a time-out.

    `secret` is removed from the message of a failure, since a service may repeat it.
    """
    try:
        outcome = attempt()
    except requests.Timeout as error:
        is_slow = isinstance(error, requests.ReadTimeout)
        reason = str(error) if isinstance(error, OverdueError) else type(error).__name__
        outcome = Failure(f"did not answer in time ({reason})", is_slow)
    except requests.RequestException as error:
        # A read time-out inside a body comes as a ConnectionError.
        outcome = Failure(f"could not be reached ({_reason(error)})", "Read timed out" in str(error))
    except SourceError as error:
        error.args = (hide(str(error), secret),)
        raise error from None
    return replace(outcome, what=hide(outcome.what, secret)) if isinstance(outcome, Failure) else outcome


def hide(text: str, secret: str | None) -> str:
    """`text` without `secret`, plain or quoted, and without the beginning of a secret that was cut off."""
    for form in {secret, quote(secret), quote_plus(secret), quote(secret, safe="")} if secret else ():
        for length in range(len(form), min(len(form), _SHORTEST_TELLING) - 1, -1):
            text = text.replace(form[:length], "…")
    return text


def refusal(response: requests.Response, content: bytes, now: float) -> Failure | None:
    """A failure worth another attempt (429, 5xx), or a ban (403); None for a good answer. `now` is in Unix seconds.

    Errors: `RefusedRequestError` where another attempt is useless.
    """
    status = response.status_code
    if status == 200:
        return None
    body = content[:4096].decode("utf-8", "replace")
    what = f"answered {status} ({snippet(body)})" if body.strip() else f"answered {status}"
    wait_s = retry_after_seconds(response.headers.get("Retry-After"), now)
    if status == 403 and (wait_s is not None or _BAN.search(body)):
        return Failure(what, wait_s=wait_s, is_banned=True)
    if status == 429 or status >= 500:
        is_slow = status == 504 or (status >= 500 and any(sign in body.lower() for sign in _TIME_LIMIT))
        return Failure(what, is_slow, wait_s, is_refused=status == 429)
    message = f"{short(response.url)}: {what}; trying again would not help, check the request"
    raise RefusedRequestError(message, status)


def unreadable(content_type: str, content: bytes) -> Failure:
    """The failure of an answer with status 200 that is not JSON."""
    body = content.decode("utf-8", "replace")
    if "html" in content_type or body.lstrip()[:1] == "<":
        return Failure(f"answered 200 with a web page in place of JSON ({snippet(body)})")
    # The query service starts an answer with status 200 and writes its time-out in the middle of it.
    is_slow = _TIME_LIMIT[0] in body[-8192:].lower()
    return Failure(
        f"answered 200 with broken JSON of {len(content):,} bytes (… {snippet(body[-80:])})", is_slow
    )


def missing_contact(service: str) -> str:
    """The message for an operator who has given no contact."""
    return (
        f"{service}: Wikimedia asks every operator for a contact; set the environment variable {CONTACT} "
        "to an e-mail address or a web page, then run again (nothing was requested)"
    )


def short(url: str) -> str:
    return url if len(url) <= 200 else f"{url[:200]}…"


def _reason(error: Exception) -> str:
    cause = getattr(error.args[0], "reason", error.args[0]) if error.args else error
    return f"{type(error).__name__}: {snippet(str(cause))}"
