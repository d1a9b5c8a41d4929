"""A sandbox server that fails as a script says, and keeps what it was asked."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from longtail.sandbox.server import Handler, SandboxServer
from longtail.sandbox.services import Reply, from_byte
from longtail.sandbox.world import World

_AT_ONCE = struct.pack("ii", 1, 0)  # unsent bytes are dropped, and the connection is reset


@dataclass(frozen=True)
class Fault:
    """One fault. `keep`: the share of the body that is sent; without a status, the true answer's status is sent.

    `is_cut_off`: the connection closes before the announced length; `is_closed`: the connection closes without any
    answer; `is_reset`: the connection is reset without any answer.
    """

    status: int | None = None
    body: bytes | None = None
    content_type: str = "text/html; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    keep: float = 1.0
    is_cut_off: bool = False
    is_closed: bool = False
    is_reset: bool = False


def too_many(retry_after: str | None = None) -> Fault:
    """429, with this Retry-After text or without one."""
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    return Fault(429, b"Too many requests", headers=headers)


def server_error(status: int = 500, body: bytes = b"<html><h1>Internal error</h1></html>") -> Fault:
    return Fault(status, body)


def web_page() -> Fault:
    """Status 200 and a web page, as from a proxy or a login page."""
    return Fault(200, b"<!DOCTYPE html><html><title>Sign in</title></html>")


def broken_json(keep: float = 0.5) -> Fault:
    """Status 200 and the first part of the true answer, with a matching length."""
    return Fault(keep=keep)


def cut_off(keep: float = 0.5) -> Fault:
    """The connection closes in the middle of the true answer."""
    return Fault(keep=keep, is_cut_off=True)


def slow(seconds: float) -> Fault:
    """The true answer after a delay."""
    return Fault(delay_s=seconds)


def closed() -> Fault:
    """The connection closes without an answer."""
    return Fault(is_closed=True)


def reset() -> Fault:
    """The connection is reset without an answer, as by a middlebox."""
    return Fault(is_closed=True, is_reset=True)


class Faults:
    """Queues of faults by path prefix: a request takes the next fault of the first queue that fits its path."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queues: list[tuple[str, deque[Fault]]] = []

    def add(self, path_prefix: str, *faults: Fault, times: int = 1) -> None:
        """The next requests to paths with this prefix meet `faults`, one each; the list is used `times` times."""
        with self._lock:
            self._queues.append((path_prefix, deque(faults * times)))

    def take(self, path: str) -> Fault | None:
        with self._lock:
            for prefix, queue in self._queues:
                if queue and path.startswith(prefix):
                    return queue.popleft()
            return None

    def clear(self) -> None:
        with self._lock:
            self._queues.clear()


@dataclass(frozen=True)
class Request:
    """One request: its arrival and the moment when its answer was ready (seconds of the monotonic clock), and its
    status."""

    method: str
    path: str
    user_agent: str
    started: float
    ready: float
    status: int = 200


def most_at_once(requests: list[Request]) -> int:
    """How many of the requests were under way at the same moment."""
    return max(
        sum(other.started <= request.started < other.ready for other in requests) for request in requests
    )


class FaultyServer(SandboxServer):
    """A sandbox server whose requests meet the faults in `faults`, and are kept in `requests`."""

    def __init__(self, origin: World | Path, port: int = 0) -> None:
        self.faults = Faults()
        self.requests: deque[Request] = deque(maxlen=10_000)
        super().__init__(origin, port)

    def handler(self) -> type[Handler]:
        return _FaultyHandler


class _FaultyHandler(Handler):
    fault: Fault | None = None

    @property
    def _sandbox(self) -> FaultyServer:
        assert isinstance(self.server.sandbox, FaultyServer)
        return self.server.sandbox

    def serve(self, params: dict[str, str]) -> None:
        self.fault = self._sandbox.faults.take(urlsplit(self.path).path)
        super().serve(params)
        self.fault = None

    def reply(self, path: str, params: dict[str, str]) -> Reply:
        started = time.monotonic()
        if self.fault:
            time.sleep(self.fault.delay_s)
        made = self._made(path, params)
        agent = self.headers.get("User-Agent", "")
        self._sandbox.requests.append(
            Request(self.command, self.path, agent, started, time.monotonic(), made.status)
        )
        return made

    def _made(self, path: str, params: dict[str, str]) -> Reply:
        fault = self.fault
        if fault is None or fault.status is None:
            return super().reply(path, params)
        made = Reply(fault.status, fault.body or b"", fault.content_type, fault.headers)
        return from_byte(made, self.headers.get("Range", ""), self.headers.get("If-Range", ""))

    def send(self, reply: Reply) -> None:
        if self.fault is None or not self.fault.is_closed:
            return super().send(reply)
        self.close_connection = True
        if self.fault.is_reset:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)

    def send_whole(self, body: bytes) -> None:
        sent = body[: int(len(body) * self.fault.keep)] if self.fault else body
        if self.fault is None or not self.fault.is_cut_off:
            return super().send_whole(sent)
        self.send_header("Content-Length", str(len(body)))
        self.close_connection = True
        self.end_headers()
        self.wfile.write(sent)

    def send_pieces(self, pieces: Iterator[bytes]) -> None:
        if self.fault is None or not self.fault.is_cut_off:
            return super().send_pieces(pieces)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        piece = next(pieces)
        self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        self.close_connection = True
