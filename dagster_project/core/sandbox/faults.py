"""Faults for tests: a script of how a service fails.

What belongs here: the faults, and the queue for each path. What does not: how they are performed (`sandbox.server`).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field


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
