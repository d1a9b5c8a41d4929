"""Time that passes only when somebody sleeps, for clients and services whose waits tests do not wait for."""

from __future__ import annotations

import threading

from longtail.transfer.http import Clock


class FakeTime:
    """It may be read and slept through by several threads."""

    def __init__(self) -> None:
        self.seconds = 1_000.0
        self.sleeps: list[float] = []
        self._lock = threading.Lock()

    def read(self) -> float:
        with self._lock:
            return self.seconds

    def sleep(self, seconds: float) -> None:
        with self._lock:
            self.sleeps.append(seconds)
            self.seconds += seconds

    def clock(self) -> Clock:
        return Clock(monotonic=self.read, now=self.read, sleep=self.sleep)
