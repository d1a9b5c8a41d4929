"""The limiter of all processes of an instance: Wikimedia counts requests by operator, not by process.

A slot is a file lock, so that a killed process gives it back. The next turn, the pause and the number of refusals in a
row are stored in a small file, which is read and written under a lock. They are in seconds of the wall clock, which all
processes share; where the clock was set back behind its beginning, a pause begins anew, and no wait becomes longer.
"""

from __future__ import annotations

import fcntl
import os
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from pathlib import Path

from longtail.transfer.http import Clock
from longtail.transfer.limits import LongPauseError

_STATE = struct.Struct("<ddqd")
_FARTHEST_TURN_S = 600.0
_LONGEST_PAUSE_S = 7 * 86_400.0
_LOOK_AGAIN_S = 0.02


@dataclass
class _State:
    """The earliest next start, end and beginning of the pause, in Unix seconds; refusals in a row."""

    next_start: float = 0.0
    paused_until: float = 0.0
    refusals: int = 0
    paused_at: float = 0.0


class SharedLimiter:
    """As `limits.Limiter`, for all processes that name the same `folder` and `quota`."""

    def __init__(
        self, folder: Path, quota: str, interval_s: float, max_parallel: int, clock: Clock | None = None
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.interval_s = interval_s
        self.waited_s = 0.0
        self._path = folder / f"{quota}.state"
        self._slots = [folder / f"{quota}-{number}.slot" for number in range(1, max_parallel + 1)]
        self._clock = clock or Clock()
        self._lock = threading.Lock()

    @contextmanager
    def slot(self, longest_s: float = inf) -> Iterator[None]:
        """Wait for one of the slots of all processes, and for a turn; a pause that starts meanwhile counts too."""
        began = self._clock.now()
        descriptor = self._take_slot()
        try:
            while (wait := self._turn(longest_s)) > 0:
                self._clock.sleep(wait)
                if self.pause_left_s() <= 0:
                    break
            with self._lock:
                self.waited_s += self._clock.now() - began
            yield
        finally:
            os.close(descriptor)

    def pause(self, seconds: float) -> None:
        """Let no request of any process start for `seconds` from now, a week at most."""
        with self._state() as state:
            now = self._clock.now()
            until = now + min(seconds, _LONGEST_PAUSE_S)
            if until > state.paused_until:
                state.paused_at, state.paused_until = now, until

    def pause_left_s(self) -> float:
        """How many seconds remain of the pause that a service asked for."""
        with self._state() as state:
            return max(0.0, state.paused_until - self._clock.now())

    def refused(self) -> int:
        """As `limits.Pace.refused`, for refusals in any process."""
        with self._state() as state:
            state.refusals += 1
            return state.refusals

    def accepted(self) -> None:
        with self._state() as state:
            state.refusals = 0

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

    def _turn(self, longest_s: float) -> float:
        """Reserve the next turn; return the seconds until then."""
        with self._state() as state:
            now = self._clock.now()
            if state.paused_until - now > longest_s:
                raise LongPauseError(state.paused_until - now)
            start = max(now, state.next_start, state.paused_until)
            state.next_start = start + self.interval_s
            return start - now

    @contextmanager
    def _state(self) -> Iterator[_State]:
        """The state, under the lock of all processes; changes by the body are written."""
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            data = os.pread(descriptor, _STATE.size, 0)
            state = self._read(data)
            yield state
            packed = _STATE.pack(state.next_start, state.paused_until, state.refusals, state.paused_at)
            if packed != data:
                os.pwrite(descriptor, packed, 0)
        finally:
            os.close(descriptor)

    def _read(self, data: bytes) -> _State:
        if len(data) != _STATE.size:  # a new file, or a torn one
            return _State()
        state = _State(*_STATE.unpack(data))
        now = self._clock.now()
        if now < state.paused_at:  # the clock was set back
            state.paused_at, state.paused_until = now, now + state.paused_until - state.paused_at
        if not now < state.paused_until <= now + _LONGEST_PAUSE_S:  # it has ended, or cannot be
            state.paused_at = state.paused_until = 0.0
        if state.next_start > max(now, state.paused_until) + _FARTHEST_TURN_S:
            state.next_start = now
        return state
