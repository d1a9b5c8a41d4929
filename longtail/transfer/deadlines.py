"""One wall-clock deadline per request: it covers connecting, TLS, sending, the whole answer, and all redirects.

`requests` and `urllib3` limit each single wait. A server can get around this: it sends one byte per minute of a
header, a chunk's extension or a trailer, or repeats "100 Continue", so that no wait ever times out. Therefore every
wait on a socket here lasts at most as long as the request has left. `_Reader` limits reading; `_Timed` limits sending
and connecting. Only the look-up of a host name is not limited here: the operating system ends it.
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

_SENT_AT_ONCE = 1 << 14  # bytes, the size of a TLS record
_SHORTEST_WAIT_S = 0.001
_LENGTH = re.compile(r"[0-9]{1,18}")


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
        self._ends, self._came = now() + seconds, 0

    def left_s(self) -> float:
        """The seconds left; negative after the deadline."""
        return self._ends - self._now()

    def at_most(self, patience: float | None) -> float:
        """The smaller of `patience` and the seconds left. Errors: `TimeoutError` where no time is left."""
        left = self.left_s()
        if left <= 0:
            raise TimeoutError(str(self))
        return left if patience is None else min(patience, left)

    def came(self, n_bytes: int) -> None:
        """Count `n_bytes` of a body as received."""
        self._came += n_bytes
        if self._renewed_by is not None and self._came >= self._renewed_by:
            self._ends, self._came = self._now() + self._seconds, 0

    def __str__(self) -> str:
        if self._renewed_by is None:
            return f"no end after {self._seconds:g} s"
        return f"fewer than {self._renewed_by:,} bytes in {self._seconds:g} s"


_DEADLINE: ContextVar[Deadline] = ContextVar("deadline")
"""The deadline of the request that this thread is sending. A `timed_session` sends nothing without one."""


@contextmanager
def deadline(seconds: float, renewed_by: int | None = None) -> Iterator[None]:
    """Limit the one request that is sent and read in this context to `seconds`.

    With `renewed_by` (for downloads), `seconds` limit the wait for the headers and for each so many bytes of the body.
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
    """The body of the current request, decompressed, in parts of `size` bytes."""
    own = _DEADLINE.get()
    for part in response.iter_content(size):
        own.came(len(part))
        yield part


def timed_session(*, follows_redirects: bool, trusts_environment: bool) -> requests.Session:
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
    manager.pool_classes_by_scheme = {scheme: _timed_pool(pool) for scheme, pool in pools.items()}


@functools.cache
def _timed_pool(pool: type[Any]) -> type[Any]:
    """`pool` (also a proxy's) with connections that keep the deadline."""
    if issubclass(pool.ConnectionCls, _Timed):
        return pool
    connection = type(f"Timed{pool.ConnectionCls.__name__}", (_Timed, pool.ConnectionCls), {})
    return type(f"Timed{pool.__name__}", (pool,), {"ConnectionCls": connection})


class _Reader(io.RawIOBase):
    """Reads from a socket; no wait is longer than the request has left."""

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


class _Options(list[Any]):
    """Socket options that check the deadline. urllib3 reads them before it tries the next address of a host."""

    def __iter__(self) -> Iterator[Any]:
        _DEADLINE.get().at_most(None)
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
        self.socket_options = _Options(getattr(self, "socket_options", None) or ())

    def _new_conn(self) -> socket.socket:
        own, patience = _DEADLINE.get(), self.timeout
        # without time left, urllib3 itself raises the error: its message says that nothing was reached
        self.timeout = max(_SHORTEST_WAIT_S, min(patience or inf, own.left_s()))
        sock: socket.socket = super()._new_conn()  # type: ignore[misc]
        sock.settimeout(own.at_most(patience))  # for the TLS handshake, which is a single wait
        return sock

    def send(self, data: bytes) -> None:
        own, rest = _DEADLINE.get(), memoryview(data)
        while rest:
            if self.sock is not None:
                self.sock.settimeout(own.at_most(self.timeout))
            super().send(rest[:_SENT_AT_ONCE])  # type: ignore[misc]
            rest = rest[_SENT_AT_ONCE:]
