"""How far a long computation is, for whoever watches the log.

What belongs here: counting, rates, and when to speak. What does not: what is counted.
"""

from __future__ import annotations

import logging
import time

_EVERY_SECONDS = 2.0


class Progress:
    """Logs done of total, rows a second, and the seconds left; at most every two seconds."""

    def __init__(self, what: str, total: int, log: logging.Logger) -> None:
        self._what, self._total, self._log = what, total, log
        self._done = 0
        self._started = self._spoken = time.monotonic()

    def advance(self, n: int) -> None:
        """`n` more are done."""
        self._done += n
        now = time.monotonic()
        if now - self._spoken < _EVERY_SECONDS:
            return
        self._spoken = now
        rate = self._done / (now - self._started)
        left = (self._total - self._done) / rate if rate else float("inf")
        self._log.info(
            "%s: %s of %s, %.1f a second, about %s left",
            self._what, f"{self._done:,}", f"{self._total:,}", rate, _duration(left),
        )  # fmt: skip


def _duration(seconds: float) -> str:
    if seconds == float("inf"):
        return "an unknown time"
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
