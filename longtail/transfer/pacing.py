"""Which limiters hold a request back: the service's own, and the operator's, which Wikimedia counts over all services."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from longtail.transfer.http import Clock, is_loopback
from longtail.transfer.limits import OPERATOR, Limiter, Pace, Service
from longtail.transfer.shared_limits import SharedLimiter


class Pacing:
    """Limiters by quota; safe between threads.

    `folder`: where the processes of an instance keep their common limits; None: limits of this process only. For this
    machine only the number of parallel requests is limited, unless `limits_loopback`.
    """

    def __init__(self, folder: Path | None, limits_loopback: bool, clock: Clock) -> None:
        self._folder, self._limits_loopback, self._clock = folder, limits_loopback, clock
        self._lock = threading.Lock()
        self._limiters: dict[tuple[str, bool], Pace] = {}

    def limiter(self, service: Service, url: str) -> Pace:
        """The limiter of all services that share a quota."""
        is_local = is_loopback(url)
        is_limited = not is_local or self._limits_loopback
        interval = service.interval_s if is_limited else 0.0
        with self._lock:
            key = (service.quota, is_local)
            if key not in self._limiters:
                self._limiters[key] = (
                    SharedLimiter(self._folder, service.quota, interval, service.max_parallel, self._clock)
                    if self._folder is not None and is_limited
                    else Limiter(interval, service.max_parallel, self._clock)
                )
            return self._limiters[key]

    @contextmanager
    def slot(self, service: Service, url: str, longest_s: float) -> Iterator[None]:
        """Take the service's slot and turn, then the operator's. Errors: `LongPauseError`."""
        services = (service, OPERATOR) if service.is_wikimedia else (service,)
        with ExitStack() as held:
            for limiter in dict.fromkeys(self.limiter(one, url) for one in services):
                held.enter_context(limiter.slot(longest_s))
            yield

    @property
    def waited_s(self) -> float:
        """Seconds that all requests together, also parallel ones, have waited for their limits."""
        with self._lock:
            return sum(limiter.waited_s for limiter in self._limiters.values())
