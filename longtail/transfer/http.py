"""What all HTTP clients share: clock, retries, sessions with deadlines, Retry-After, printable excerpts of answers.

A request has one wall-clock deadline: it covers connecting, TLS, sending, the whole answer, and all redirects.
`requests` and `urllib3` limit each single wait. A server can get around this: it sends one byte per minute of a
header, a chunk's extension or a trailer, or repeats "100 Continue", so that no wait ever times out. Therefore every
wait on a socket here lasts at most as long as the request has left. `_Reader` limits reading; `_Timed` limits sending
and connecting. Only the look-up of a host name is not limited here: the operating system ends it.
"""

from __future__ import annotations

import functools
import http.client
import io
import ipaddress
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from importlib import metadata
from math import inf
from typing import Any
from urllib.parse import urlsplit

import requests
import urllib3
from requests.adapters import HTTPAdapter

from longtail.errors import printable

_SNIPPET = 160
_SEND_AT_ONCE = 1 << 14  # bytes, the size of a TLS record
_SHORTEST_WAIT_S = 0.001
_LENGTH = re.compile(r"[0-9]{1,18}")


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
        self._open: list[requests.Session] = []

    def get(self, name: str, make: Callable[[], requests.Session]) -> requests.Session:
        """This thread's session with that name; `make` makes it at the first call."""
        session: requests.Session | None = getattr(self._local, name, None)
        if session is None:
            session = make()
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
    """The time at which a request must have ended. With `renewed_by`, each so many bytes of a body restart the time.

    Sockets wait in real time. Only tests that use no socket pass another clock as `now`.
    """

    def __init__(
        self, seconds: float, renewed_by: int | None = None, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._seconds, self._renewed_by, self._now = seconds, renewed_by, now
        self._ends, self._n_bytes = now() + seconds, 0

    def left_s(self) -> float:
        """The seconds left; negative after the deadline."""
        return self._ends - self._now()

    def at_most(self, patience: float | None) -> float:
        """The smaller of `patience` and the seconds left. Errors: `TimeoutError` where no time is left."""
        left = self.left_s()
        if left <= 0:
            raise TimeoutError(str(self))
        return left if patience is None else min(patience, left)

    def count_bytes(self, n_bytes: int) -> None:
        """Count `n_bytes` of a body as received."""
        self._n_bytes += n_bytes
        if self._renewed_by is not None and self._n_bytes >= self._renewed_by:
            self._ends, self._n_bytes = self._now() + self._seconds, 0

    def __str__(self) -> str:
        if self._renewed_by is None:
            return f"no end after {self._seconds:g} s"
        return f"fewer than {self._renewed_by:,} bytes in {self._seconds:g} s"


_CURRENT: ContextVar[Deadline] = ContextVar("deadline")
"""The deadline of the request that this thread is sending. A `open_session` sends nothing without one."""


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
    """The body of the current request, decompressed, in parts of `size` bytes."""
    limit = _CURRENT.get()
    for part in response.iter_content(size):
        limit.count_bytes(len(part))
        yield part


def open_session(*, follows_redirects: bool, trusts_environment: bool) -> requests.Session:
    """A session that sends only within a `deadline`. `trusts_environment`: use the environment's proxies."""
    session = _Session(follows_redirects)
    session.trust_env = trusts_environment
    for scheme in ("http://", "https://"):
        session.mount(scheme, _Adapter())
    return session


class _Session(requests.Session):
    """Does not read the body of a redirect. `requests` reads it whole, even where it does not follow the redirect."""

    def __init__(self, follows_redirects: bool) -> None:
        super().__init__()
        self._follows_redirects = follows_redirects

    def get_redirect_target(self, resp: requests.Response) -> str | None:
        target = super().get_redirect_target(resp) if self._follows_redirects else None
        if target is not None:
            resp.raw.close()
        return target


class _Adapter(HTTPAdapter):
    def init_poolmanager(self, *args: Any, **keys: Any) -> None:
        super().init_poolmanager(*args, **keys)
        _time(self.poolmanager)

    def proxy_manager_for(self, proxy: str, **keys: Any) -> Any:
        manager = super().proxy_manager_for(proxy, **keys)
        _time(manager)
        return manager


def _time(manager: urllib3.PoolManager) -> None:
    pools = manager.pool_classes_by_scheme
    manager.pool_classes_by_scheme = {scheme: _pool_with_deadlines(pool) for scheme, pool in pools.items()}


@functools.cache
def _pool_with_deadlines(pool: type[Any]) -> type[Any]:
    """`pool` (also a proxy's) with connections that keep the deadline."""
    if issubclass(pool.ConnectionCls, _Timed):
        return pool
    connection = type(f"Timed{pool.ConnectionCls.__name__}", (_Timed, pool.ConnectionCls), {})
    return type(f"Timed{pool.__name__}", (pool,), {"ConnectionCls": connection})


class _Reader(io.RawIOBase):
    """Reads from a socket; no wait is longer than the request has left."""

    def __init__(self, sock: socket.socket, raw: io.RawIOBase) -> None:
        self._sock, self._raw, self._deadline = sock, raw, _CURRENT.get()
        self._patience = sock.gettimeout()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(self._deadline.at_most(self._patience))
        return self._raw.readinto(buffer)

    def fileno(self) -> int:
        return self._raw.fileno()

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Response(http.client.HTTPResponse):
    """An answer whose status line, headers, chunks and trailers are all read through `_Reader`."""

    def __init__(self, sock: socket.socket, *args: Any, **keys: Any) -> None:
        super().__init__(sock, *args, **keys)
        self.fp = io.BufferedReader(_Reader(sock, self.fp.detach()))

    def begin(self) -> None:
        """Read status line and headers.

        Errors: `HTTPException` where Content-Length is not a number, or there are two different ones (RFC 9112, 6.3).
        The RFC takes several equal lengths as one; http.client does not parse them where they are in one line.
        """
        super().begin()
        lines = self.headers.get_all("Content-Length", [])
        lengths = {value.strip() for line in lines for value in line.split(",")}
        if self.chunked or not lengths:
            return
        if len(lengths) > 1 or not all(_LENGTH.fullmatch(length) for length in lengths):
            raise http.client.HTTPException(f"Content-Length is {', '.join(sorted(lengths))[:80]!r}")
        if self.length is None:
            self.length = int(lengths.pop())


class _CheckedOptions(list[Any]):
    """Socket options that check the deadline. urllib3 reads them before it tries the next address of a host."""

    def __iter__(self) -> Iterator[Any]:
        _CURRENT.get().at_most(None)
        return super().__iter__()


class _Timed:
    """A connection that keeps the deadline; a mixin for urllib3's connections.

    It never prints its headers, which may hold a key, even if a program sets `http.client.HTTPConnection.debuglevel`.
    """

    debuglevel = 0
    response_class = _Response
    sock: socket.socket | None
    timeout: float | None

    def __init__(self, *args: Any, **keys: Any) -> None:
        super().__init__(*args, **keys)
        self.socket_options = _CheckedOptions(getattr(self, "socket_options", None) or ())

    def _new_conn(self) -> socket.socket:
        limit, patience = _CURRENT.get(), self.timeout
        # without time left, urllib3 itself raises the error: its message says that nothing was reached
        self.timeout = max(_SHORTEST_WAIT_S, min(patience or inf, limit.left_s()))
        sock: socket.socket = super()._new_conn()  # type: ignore[misc]
        sock.settimeout(limit.at_most(patience))  # for the TLS handshake, which is a single wait
        return sock

    def send(self, data: bytes) -> None:
        limit, rest = _CURRENT.get(), memoryview(data)
        while rest:
            if self.sock is not None:
                self.sock.settimeout(limit.at_most(self.timeout))
            super().send(rest[:_SEND_AT_ONCE])  # type: ignore[misc]
            rest = rest[_SEND_AT_ONCE:]
