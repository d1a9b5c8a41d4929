"""Limits of requests: how often, how many in parallel, and the pauses that services ask for.

Wikimedia counts requests by operator, not by process. So the processes of an instance share their limits in a folder: a
slot is a file lock, which a killed process gives back, and the state is a small file, read and written under a lock.
"""

from __future__ import annotations

import fcntl
import os
import struct
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import astuple, dataclass
from math import inf
from pathlib import Path

from longtail.transfer.http import Clock, is_loopback

_STATE = struct.Struct("<ddq")
_FARTHEST_TURN_S = 600.0
_LONGEST_PAUSE_S = 7 * 86_400.0
_LOOK_AGAIN_S = 0.02


@dataclass(frozen=True)
class Service:
    """A service and its limits; there is no interval on the loopback interface.

    Services with the same `quota` share a limiter: Wikimedia allows 200 requests per minute and 3 in parallel per
    operator. Requests to the other Wikimedia services count there too, beside their own limits. A service that
    `needs_contact` learns the operator's address.
    """

    name: str
    quota: str = "operator"
    max_parallel: int = 3
    interval_s: float = 0.3
    is_wikimedia: bool = True
    needs_contact: bool = True


OPERATOR = Service("Wikimedia")
QUERY_SERVICE = Service("SPARQL query service", quota="queries", max_parallel=1, interval_s=1.0)
ENTITY_API = Service("entity API (wbgetentities)")
PAGE_VIEW_API = Service("page view API")
TITLE_API = Service("title API (action=query)")
DUMPS = Service("dumps", quota="dumps", max_parallel=1, interval_s=1.0)
FILES = Service("file", quota="files", max_parallel=1, is_wikimedia=False, needs_contact=False)


class LongPauseError(Exception):
    """A service asked for a pause of `seconds`, which is longer than the request may wait."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"{seconds:.0f} s")
        self.seconds = seconds


@dataclass
class _State:
    """The earliest next start and the end of the pause, in seconds of the limiter's clock; refusals in a row."""

    next_start: float = 0.0
    paused_until: float = 0.0
    refusals: int = 0


class Limiter:
    """At most `max_parallel` requests at once; each starts at least `interval_s` seconds after the previous one.

    A pause (Retry-After) holds every thread, not only the one whose request was refused.
    """

    def __init__(self, interval_s: float, max_parallel: int, clock: Clock) -> None:
        self.interval_s = interval_s
        self._sleep, self._now = clock.sleep, clock.monotonic
        self._lock = threading.Lock()
        self._memory = _State()
        self._semaphore = threading.BoundedSemaphore(max_parallel)

    @contextmanager
    def slot(self, longest_s: float = inf) -> Iterator[None]:
        """Wait for a slot and for a turn; the slot is held while the body runs.

        Errors: `LongPauseError` where a pause lasts longer than `longest_s`, even if it starts during the wait.
        """
        with self._hold_slot():
            while (wait := self._reserve_turn(longest_s)) > 0:
                self._sleep(wait)
                if self.pause_left_s() <= 0:
                    break
            yield

    def pause(self, seconds: float) -> None:
        """Let no request start for `seconds` from now, a week at most."""
        with self._state() as state:
            state.paused_until = max(state.paused_until, self._now() + min(seconds, _LONGEST_PAUSE_S))

    def pause_left_s(self) -> float:
        """How many seconds remain of the pause that a service asked for."""
        with self._state() as state:
            return max(0.0, state.paused_until - self._now())

    def count_refusal(self) -> int:
        """Count a refusal (429); return how many came in a row."""
        with self._state() as state:
            state.refusals += 1
            return state.refusals

    def clear_refusals(self) -> None:
        """A service answered: the count of refusals in a row starts again."""
        with self._state() as state:
            state.refusals = 0

    def _reserve_turn(self, longest_s: float) -> float:
        """Reserve the next turn; return the seconds until then."""
        with self._state() as state:
            now = self._now()
            if state.paused_until - now > longest_s:
                raise LongPauseError(state.paused_until - now)
            start = max(now, state.next_start, state.paused_until)
            state.next_start = start + self.interval_s
            return start - now

    def _hold_slot(self) -> AbstractContextManager[object]:
        return self._semaphore

    @contextmanager
    def _state(self) -> Iterator[_State]:
        """The state, under a lock; the body may change it."""
        with self._lock:
            yield self._memory


class SharedLimiter(Limiter):
    """A limiter of all processes that name the same `folder` and `quota`.

    The state is in seconds of the wall clock, which all processes share. What is farther away than any pause or turn may
    be, since the clock was set back, does not count.
    """

    def __init__(
        self, folder: Path, quota: str, interval_s: float, max_parallel: int, clock: Clock | None = None
    ) -> None:
        clock = clock or Clock()
        super().__init__(interval_s, max_parallel, clock)
        folder.mkdir(parents=True, exist_ok=True)
        self._now = clock.now
        self._path = folder / f"{quota}.state"
        self._slots = [folder / f"{quota}-{number}.slot" for number in range(1, max_parallel + 1)]

    @contextmanager
    def _hold_slot(self) -> Iterator[None]:
        while (descriptor := self._free_slot()) is None:
            self._sleep(_LOOK_AGAIN_S)
        try:
            yield
        finally:
            os.close(descriptor)

    def _free_slot(self) -> int | None:
        """The locked file of a free slot; None if all are taken."""
        for path in self._slots:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return descriptor
            except BlockingIOError:
                os.close(descriptor)
        return None

    @contextmanager
    def _state(self) -> Iterator[_State]:
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            data = os.pread(descriptor, _STATE.size, 0)
            state = self._read(data)
            yield state
            packed = _STATE.pack(*astuple(state))
            if packed != data:
                os.pwrite(descriptor, packed, 0)
        finally:
            os.close(descriptor)

    def _read(self, data: bytes) -> _State:
        if len(data) != _STATE.size:  # a new file, or a torn one
            return _State()
        state = _State(*_STATE.unpack(data))
        now = self._now()
        if state.paused_until > now + _LONGEST_PAUSE_S:
            state.paused_until = 0.0
        if state.next_start > max(now, state.paused_until) + _FARTHEST_TURN_S:
            state.next_start = now
        return state


class Limits:
    """Which limiters hold a request back: its service's own, and the operator's. Safe between threads.

    `folder`: where the processes of an instance keep their common limits; None: limits of this process only. For this
    machine only the number of parallel requests is limited, unless `limits_loopback`.
    """

    def __init__(self, folder: Path | None, limits_loopback: bool, clock: Clock) -> None:
        self._folder, self._limits_loopback, self._clock = folder, limits_loopback, clock
        self._lock = threading.Lock()
        self._limiters: dict[tuple[str, bool], Limiter] = {}

    def limiter(self, service: Service, url: str) -> Limiter:
        """The limiter of all services that share a quota."""
        is_local = is_loopback(url)
        is_limited = not is_local or self._limits_loopback
        interval_s = service.interval_s if is_limited else 0.0
        key = service.quota, is_local
        with self._lock:
            if key not in self._limiters:
                self._limiters[key] = (
                    SharedLimiter(self._folder, service.quota, interval_s, service.max_parallel, self._clock)
                    if self._folder is not None and is_limited
                    else Limiter(interval_s, service.max_parallel, self._clock)
                )
            return self._limiters[key]

    @contextmanager
    def slot(self, service: Service, url: str, longest_s: float) -> Iterator[None]:
        """Take the service's slot and turn, then the operator's. Errors: `LongPauseError`."""
        services = (service, OPERATOR) if service.is_wikimedia else (service,)
        with ExitStack() as slots:
            for limiter in dict.fromkeys(self.limiter(service, url) for service in services):
                slots.enter_context(limiter.slot(longest_s))
            yield
