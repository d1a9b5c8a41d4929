"""The limiter of all processes of an instance: Wikimedia counts requests by operator, not by process.

What belongs here: slots and turns kept in files, so that they hold between processes and from run to run. What
does not: what the limits are (`limits`).

A slot is a file lock: whoever is killed gives it back. Turns and pauses are two moments in a small file, read
and written under a lock, in seconds of the wall clock, which all processes share; a clock that was set back does
not hold requests up for longer than was meant.
"""

from __future__ import annotations

import fcntl
import os
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dagster_project.core.http import Clock

_STATE = struct.Struct("<dd")  # the earliest next start, the end of the pause
_FARTHEST_TURN_S = 600.0
_LONGEST_PAUSE_S = 7 * 86_400.0
_LOOK_AGAIN_S = 0.02


class SharedLimiter:
    """As `limits.Limiter`, between all processes that name the same `folder` and `quota`."""

    def __init__(
        self, folder: Path, quota: str, interval_s: float, max_parallel: int, clock: Clock | None = None
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.interval_s = interval_s
        self.waited_s = 0.0
        self._state = folder / f"{quota}.state"
        self._slots = [folder / f"{quota}-{number}.slot" for number in range(1, max_parallel + 1)]
        self._clock = clock or Clock()
        self._lock = threading.Lock()

    @contextmanager
    def slot(self) -> Iterator[None]:
        """Wait for one of the slots of all processes, and for one's turn; a pause begun meanwhile counts too."""
        began = self._clock.now()
        descriptor = self._take_slot()
        try:
            while (wait := self._turn()) > 0:
                self._clock.sleep(wait)
                if self.pause_left_s() <= 0:
                    break
            with self._lock:
                self.waited_s += self._clock.now() - began
            yield
        finally:
            os.close(descriptor)

    def pause(self, seconds: float) -> None:
        """Let no request of any process start for `seconds` from now."""
        with self._opened() as descriptor:
            next_start, paused_until = self._read(descriptor)
            self._write(descriptor, next_start, max(paused_until, self._clock.now() + seconds))

    def pause_left_s(self) -> float:
        """For how many seconds yet no request may start, because a service asked for a pause."""
        with self._opened() as descriptor:
            return self._read(descriptor)[1] - self._clock.now()

    def _take_slot(self) -> int:
        while True:
            for path in self._slots:
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return descriptor
                except BlockingIOError:
                    os.close(descriptor)
            self._clock.sleep(_LOOK_AGAIN_S)

    def _turn(self) -> float:
        """Reserve the next turn; gives the seconds until then."""
        with self._opened() as descriptor:
            now = self._clock.now()
            next_start, paused_until = self._read(descriptor)
            start = max(now, next_start, paused_until)
            self._write(descriptor, start + self.interval_s, paused_until)
            return start - now

    @contextmanager
    def _opened(self) -> Iterator[int]:
        descriptor = os.open(self._state, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield descriptor
        finally:
            os.close(descriptor)

    def _read(self, descriptor: int) -> tuple[float, float]:
        data = os.pread(descriptor, _STATE.size, 0)
        if len(data) < _STATE.size:
            return 0.0, 0.0
        next_start, paused_until = _STATE.unpack(data)
        now = self._clock.now()
        paused_until = paused_until if paused_until <= now + _LONGEST_PAUSE_S else now
        farthest = max(now, paused_until) + _FARTHEST_TURN_S
        return (next_start if next_start <= farthest else now), paused_until

    @staticmethod
    def _write(descriptor: int, next_start: float, paused_until: float) -> None:
        os.pwrite(descriptor, _STATE.pack(next_start, paused_until), 0)
