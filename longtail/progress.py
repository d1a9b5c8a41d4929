"""How far a long computation is: one interface for every step that may take seconds, whoever shows it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

EVERY_S = 30.0
"""A step logs a line at most this often."""
MARK = "longtail_progress"
"""Attribute of log records that tell how far a step is: a display shows that itself, and leaves them out."""
_BASIS_S = 2.0
"""A step younger than this has no rate to go by."""

_running: dict[int, Progress] = {}
_lock = threading.Lock()


class Progress:
    """Counts what is done, from any thread. `work`: the effort of all rows in any unit, as later rows may be longer.

    A step ends with `done`, which logs its time, or where its context is left. A step without a `total` has no time left.
    """

    def __init__(
        self,
        log: logging.Logger,
        what: str,
        total: int | None = None,
        work: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log, self.what, self._total, self._clock = log, what, total, clock
        self._work = total if work is None else work
        self._count, self._worked, self._tokens = 0, 0.0, 0
        self._lock = threading.Lock()
        self.started = self.touched = self._said = clock()
        with _lock:
            _running[id(self)] = self

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        with _lock:
            _running.pop(id(self), None)

    def add(self, n: int, work: float | None = None, tokens: int = 0) -> None:
        """`n` more are done, their share of the work, and the tokens that were read and written for them."""
        with self._lock:
            self._count += n
            self._worked += n if work is None else work
            self._tokens += tokens
            self.touched = now = self._clock()
            is_due = now - self._said >= EVERY_S
            if is_due:
                self._said = now
        if is_due:
            self._log.info("%s", str(self), extra={MARK: True})

    def done(self) -> None:
        """The step has ended: its count and its time are logged."""
        self.__exit__()
        told = f"{self._counted} in " if self._counted else ""
        self._log.info("%s: %s%.1f s", self.what, told, self._clock() - self.started, extra={MARK: True})

    @property
    def share(self) -> float | None:
        """The share of the work that is done; None where it is not known."""
        return min(1.0, self._worked / self._work) if self._work else None

    @property
    def _counted(self) -> str:
        """`842 of 1,895`; empty where nothing is counted."""
        if self._total is not None:
            return f"{self._count:,} of {self._total:,}"
        return f"{self._count:,}" if self._count else ""

    def __str__(self) -> str:
        """Such as `answers: 20 of 100, 2.0/s (120 tokens/s), about 40 s left`.

        The time left is counted down between two advances, and unknown once it is used up.
        """
        with self._lock:
            seconds, paced = self._clock() - self.started, self.touched - self.started
            parts = [self._counted]
            if self._count and paced >= _BASIS_S:
                tokens = f" ({self._tokens / paced:,.0f} tokens/s)" if self._tokens else ""
                parts.append(rate(self._count, paced) + tokens)
                if self.share and paced / self.share >= seconds:
                    parts.append(f"about {duration(paced / self.share - seconds)} left")
        told = ", ".join(part for part in parts if part)
        return f"{self.what}: {told or duration(seconds)}"


def current(since: float) -> list[Progress]:
    """The steps under way that began at `since` or later; the one that advanced last is the last."""
    with _lock:
        found = [progress for progress in _running.values() if progress.started >= since]
    return sorted(found, key=lambda progress: progress.touched)


def rate(n: int, seconds: float) -> str:
    """`3.4/s`, or `5.2 s each` where less than one a second is done; `n` is above 0."""
    a_second = n / seconds
    if a_second < 1:
        return f"{duration(seconds / n)} each" if seconds / n >= 90 else f"{seconds / n:.1f} s each"
    return f"{a_second:.1f}/s" if a_second < 100 else f"{a_second:,.0f}/s"


def duration(seconds: float) -> str:
    """`8 s`, `3 min`, `1.4 h`: as precise as an estimate is."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
