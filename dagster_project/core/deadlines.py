"""One wall-clock deadline a request: connecting, TLS, sending, status line, headers, body and trailers, all redirects.

What belongs here: the deadline, and sessions whose connections look at it before they wait. What does not: how long a
request may take (`http.RetryPolicy`), and what is asked.

`requests` and `urllib3` bound each single wait. A server that sends one byte a minute of a header, a chunk's extension
or a trailer, or "100 Continue" again and again, never lets a wait run out. So every wait on a socket here lasts at most
as long as the request has left: reading goes through `_Reader`, sending and connecting through `_Timed`. A system's
look-up of a host's name alone ends by the system's own rules.
"""

from __future__ import annotations

import functools
import http.client
import io
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf
from typing import Any

import requests
import urllib3
from requests.adapters import HTTPAdapter

_SENT_AT_ONCE = 1 << 14  # bytes, as many as a record of TLS holds
_SHORTEST_WAIT_S = 0.001
_LENGTH = re.compile(r"[0-9]{1,18}")


class OverdueError(requests.ReadTimeout):
    """The request's time is over, whatever the server was still sending."""


class Deadline:
    """When a request must have ended. With `renewed_by`, so many bytes of a body start the time anew.

    Sockets wait in real time: `now` is another clock in tests alone that use none.
    """

    def __init__(
        self, seconds: float, renewed_by: int | None = None, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._seconds, self._renewed_by, self._now = seconds, renewed_by, now
        self._ends, self._came = now() + seconds, 0

    def left_s(self) -> float:
        """The seconds left, below 0 where it is over."""
        return self._ends - self._now()

    def at_most(self, patience: float | None) -> float:
        """`patience`, or the seconds left where they are fewer. Errors: `TimeoutError` where none are."""
        left = self.left_s()
        if left <= 0:
            raise TimeoutError(str(self))
        return left if patience is None else min(patience, left)

    def came(self, n_bytes: int) -> None:
        """So much of a body has come."""
        self._came += n_bytes
        if self._renewed_by is not None and self._came >= self._renewed_by:
            self._ends, self._came = self._now() + self._seconds, 0

    def __str__(self) -> str:
        if self._renewed_by is None:
            return f"no end after {self._seconds:g} s"
        return f"fewer than {self._renewed_by:,} bytes in {self._seconds:g} s"


_DEADLINE: ContextVar[Deadline] = ContextVar("deadline")
"""That of the request under way in this thread; a `timed_session` sends nothing without one."""


@contextmanager
def deadline(seconds: float, renewed_by: int | None = None) -> Iterator[None]:
    """The one request that is sent and read in this context takes at most `seconds`.

    With `renewed_by`, for downloads, `seconds` bound the wait for the headers and for each so many bytes of the body.
    Errors: `OverdueError`.
    """
    own = Deadline(seconds, renewed_by)
    token = _DEADLINE.set(own)
    try:
        yield
    except requests.ConnectTimeout:
        raise
    except requests.RequestException as error:
        if own.left_s() <= 0:
            raise OverdueError(str(own)) from error
        raise
    finally:
        _DEADLINE.reset(token)


def body_parts(response: requests.Response, size: int) -> Iterator[bytes]:
    """The body of the request under way, unpacked, in parts of `size` bytes."""
    own = _DEADLINE.get()
    for part in response.iter_content(size):
        own.came(len(part))
        yield part


def timed_session(*, follows_redirects: bool, trusts_environment: bool) -> requests.Session:
    """A session that sends only within a `deadline`. `trusts_environment`: takes proxies from there."""
    session = _Session(follows_redirects)
    session.trust_env = trusts_environment
    for scheme in ("http://", "https://"):
        session.mount(scheme, _Adapter())
    return session


class _Session(requests.Session):
    """Reads no body of a redirect, which `requests` does, whole, even where it does not follow."""

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
    manager.pool_classes_by_scheme = {scheme: _timed_pool(pool) for scheme, pool in pools.items()}


@functools.cache
def _timed_pool(pool: type[Any]) -> type[Any]:
    """`pool`, also one of a proxy, with connections that keep to the deadline."""
    if issubclass(pool.ConnectionCls, _Timed):
        return pool
    connection = type(f"Timed{pool.ConnectionCls.__name__}", (_Timed, pool.ConnectionCls), {})
    return type(f"Timed{pool.__name__}", (pool,), {"ConnectionCls": connection})


class _Reader(io.RawIOBase):
    """What a socket receives, each wait for it no longer than the request has left."""

    def __init__(self, sock: socket.socket, raw: io.RawIOBase) -> None:
        self._sock, self._raw, self._deadline = sock, raw, _DEADLINE.get()
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
        """Read status line and headers. Errors: `HTTPException` where the length is no number, or two (RFC 9112, 6.3).

        Equal ones are one, says the RFC; http.client does not know the length where they stand in one line.
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


class _Options(list[Any]):
    """Socket options; urllib3 looks at them before it tries the next of a host's addresses, and so at the time."""

    def __iter__(self) -> Iterator[Any]:
        _DEADLINE.get().at_most(None)
        return super().__iter__()


class _Timed:
    """A connection that keeps to the deadline, mixed into one of urllib3.

    It does not print its headers, which may hold a key, where a program sets `http.client.HTTPConnection.debuglevel`.
    """

    debuglevel = 0
    response_class = _Response
    sock: socket.socket | None
    timeout: float | None

    def __init__(self, *args: Any, **keys: Any) -> None:
        super().__init__(*args, **keys)
        self.socket_options = _Options(getattr(self, "socket_options", None) or ())

    def _new_conn(self) -> socket.socket:
        own, patience = _DEADLINE.get(), self.timeout
        # where no time is left it fails in urllib3's own words: they tell that nothing was reached
        self.timeout = max(_SHORTEST_WAIT_S, min(patience or inf, own.left_s()))
        sock: socket.socket = super()._new_conn()  # type: ignore[misc]
        sock.settimeout(own.at_most(patience))  # of TLS's handshake, which is one wait
        return sock

    def send(self, data: bytes) -> None:
        own, rest = _DEADLINE.get(), memoryview(data)
        while rest:
            if self.sock is not None:
                self.sock.settimeout(own.at_most(self.timeout))
            super().send(rest[:_SENT_AT_ONCE])  # type: ignore[misc]
            rest = rest[_SENT_AT_ONCE:]
