"""Reports the progress of a fetch every few seconds.

What belongs here: one line of progress. What does not: what is fetched.
"""

from __future__ import annotations

import logging
import threading
import time

_EVERY_S = 2.0


class Progress:
    """Counts rows from any thread and logs the count every two seconds. `total`: how many rows to expect."""

    def __init__(self, log: logging.Logger, what: str, total: int | None = None) -> None:
        self._log, self._what, self._total = log, what, total
        self._count = 0
        self._lock = threading.Lock()
        self._started = self._said = time.monotonic()

    def add(self, n: int) -> None:
        with self._lock:
            self._count += n
            now = time.monotonic()
            if now - self._said < _EVERY_S:
                return
            self._said = now
            self._log.info("%s: %s, %.0f s", self._what, self._so_far(), now - self._started)

    def done(self) -> None:
        self._log.info("%s: %s in %.1f s", self._what, self._so_far(), time.monotonic() - self._started)

    def _so_far(self) -> str:
        return f"{self._count:,}" if self._total is None else f"{self._count:,} of {self._total:,}"
