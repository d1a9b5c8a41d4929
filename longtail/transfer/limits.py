"""The limits of Wikimedia for one operator: how often, and how many requests in parallel."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from math import inf
from typing import Protocol

from longtail.transfer.http import Clock


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


class Pace(Protocol):
    """Holds requests back. `waited_s`: the seconds that the requests of this process have waited in all."""

    waited_s: float

    def slot(self, longest_s: float = inf) -> AbstractContextManager[None]:
        """Wait for a slot and for a turn; the slot is held while the body runs.

        Errors: `LongPauseError` where a pause lasts longer than `longest_s`, even if it starts during the wait.
        """

    def pause(self, seconds: float) -> None:
        """Let no request start for `seconds` from now."""

    def pause_left_s(self) -> float:
        """How many seconds remain of the pause that a service asked for."""

    def refused(self) -> int:
        """Count a refusal (429); return how many came in a row."""

    def accepted(self) -> None:
        """A service answered: the count of refusals in a row starts again."""


class Limiter:
    """At most `max_parallel` requests at once; each starts at least `interval_s` seconds after the previous one.

    A pause (Retry-After) holds every thread, not only the one whose request was refused.
    """

    def __init__(self, interval_s: float, max_parallel: int, clock: Clock) -> None:
        self.interval_s = interval_s
        self.waited_s = 0.0
        self._slots = threading.BoundedSemaphore(max_parallel)
        self._lock = threading.Lock()
        self._clock = clock
        self._next_start = self._paused_until = clock.monotonic()
        self._refusals = 0

    @contextmanager
    def slot(self, longest_s: float = inf) -> Iterator[None]:
        with self._slots:
            while (wait := self._turn(longest_s)) > 0:
                self._clock.sleep(wait)
                if self.pause_left_s() <= 0:
                    break
            yield

    def _turn(self, longest_s: float) -> float:
        """Reserve the next turn; return the seconds until then."""
        with self._lock:
            now = self._clock.monotonic()
            if self._paused_until - now > longest_s:
                raise LongPauseError(self._paused_until - now)
            start = max(now, self._next_start, self._paused_until)
            self._next_start = start + self.interval_s
            self.waited_s += start - now
            return start - now

    def pause(self, seconds: float) -> None:
        with self._lock:
            self._paused_until = max(self._paused_until, self._clock.monotonic() + seconds)

    def pause_left_s(self) -> float:
        return self._paused_until - self._clock.monotonic()

    def refused(self) -> int:
        with self._lock:
            self._refusals += 1
            return self._refusals

    def accepted(self) -> None:
        with self._lock:
            self._refusals = 0
