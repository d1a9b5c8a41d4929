"""How often and how many at once: the limits that Wikimedia puts on one operator.

What belongs here: the services with their limits, the limiter. What does not: requests and retries
(`http`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from dagster_project.core.http import Clock


@dataclass(frozen=True)
class Service:
    """A service and its limits; no interval is kept on the loopback interface.

    Services of one `quota` share a limiter: Wikimedia counts 200 requests a minute, 3 at once, per operator.
    """

    name: str
    quota: str = "operator"
    max_parallel: int = 3
    interval_s: float = 0.3


QUERY_SERVICE = Service("SPARQL query service", quota="queries", max_parallel=1, interval_s=1.0)
ENTITY_API = Service("entity API (wbgetentities)")
PAGE_VIEW_API = Service("page view API")
DUMPS = Service("dumps", quota="dumps", max_parallel=1, interval_s=1.0)


class Limiter:
    """At most `max_parallel` requests at once, each starting `interval_s` seconds or more after the last one.

    A pause (Retry-After) holds every thread, not only the one that was told to wait.
    """

    def __init__(self, interval_s: float, max_parallel: int, clock: Clock) -> None:
        self.interval_s = interval_s
        self._slots = threading.BoundedSemaphore(max_parallel)
        self._lock = threading.Lock()
        self._clock = clock
        self._next_start = clock.monotonic()

    @contextmanager
    def slot(self) -> Iterator[None]:
        """Wait for a slot and for one's turn; the slot is held while the body runs."""
        with self._slots:
            with self._lock:
                now = self._clock.monotonic()
                start = max(now, self._next_start)
                self._next_start = start + self.interval_s
            if start > now:
                self._clock.sleep(start - now)
            yield

    def pause(self, seconds: float) -> None:
        """Let no request start for `seconds` from now."""
        with self._lock:
            self._next_start = max(self._next_start, self._clock.monotonic() + seconds)
