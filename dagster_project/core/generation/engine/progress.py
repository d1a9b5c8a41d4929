"""How far a long computation is, for people who read the log.

What belongs here: counting, rates, and when to speak. What does not: what is counted.
"""

from __future__ import annotations

import logging
import time

_EVERY_SECONDS = 2.0
_EVERY_SHARE = 0.02
"""A share of the time gone by: a computation of hours logs every few minutes."""


class Progress:
    """Logs what is done of the total, rows and tokens per second, and the time left: every two seconds, later less often.

    `work` is the effort of all rows in any unit: the time left follows it, as later rows may be longer.
    """

    def __init__(self, what: str, total: int, work: float, log: logging.Logger) -> None:
        self._what, self._total, self._work, self._log = what, total, work, log
        self._done, self._worked, self._tokens = 0, 0.0, 0
        self._started = self._spoken = time.monotonic()

    def advance(self, n: int, work: float, tokens: int = 0) -> None:
        """`n` more rows are done, their share of the work, and the tokens that were read and written for them."""
        self._done += n
        self._worked += work
        self._tokens += tokens
        now = time.monotonic()
        if now - self._spoken < max(_EVERY_SECONDS, _EVERY_SHARE * (now - self._started)):
            return
        self._spoken = now
        seconds = now - self._started
        left = seconds * max(0.0, self._work - self._worked) / max(self._worked, 1e-9)
        rates = f"{self._done / seconds:.1f} a second"
        if self._tokens:
            rates += f" ({self._tokens / seconds:,.0f} tokens)"
        self._log.info(
            "%s: %s of %s, %s, about %s left",
            self._what, f"{self._done:,}", f"{self._total:,}", rates, _duration(left),
        )  # fmt: skip


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
