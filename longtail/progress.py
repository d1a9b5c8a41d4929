"""How far a long computation is: one interface for every step that may take seconds, whoever shows it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

EVERY_S = 30.0
"""A step logs a line at most this often."""
MARK = "longtail_progress"
"""Attribute of log records that tell how far a step is: a display shows that itself, and leaves them out."""
_BASIS_S = 2.0
"""A step younger than this has no rate to go by."""

_running: dict[int, Progress] = {}
_lock = threading.Lock()


@dataclass(frozen=True)
class Step:
    """How far one step is. `total` and `left_s` are None where they are not known; `share` is that of its work.

    It has run for `seconds`; what is done was done in the first `paced_s` of them.
    """

    what: str
    done: int
    total: int | None
    seconds: float
    paced_s: float = 0.0
    share: float | None = None
    left_s: float | None = None
    tokens: int = 0

    @property
    def count(self) -> str:
        """`842 of 1,895`; empty where nothing is counted."""
        if self.total is not None:
            return f"{self.done:,} of {self.total:,}"
        return f"{self.done:,}" if self.done else ""

    def __str__(self) -> str:
        parts = [self.count]
        if self.done and self.paced_s >= _BASIS_S:
            tokens = f" ({self.tokens / self.paced_s:,.0f} tokens/s)" if self.tokens else ""
            parts.append(rate(self.done, self.paced_s) + tokens)
        if self.left_s is not None:
            parts.append(f"about {duration(self.left_s)} left")
        told = ", ".join(part for part in parts if part)
        return f"{self.what}: {told or duration(self.seconds)}"


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
        self._log, self._what, self._total, self._clock = log, what, total, clock
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
            self._log.info("%s", self.step(), extra={MARK: True})

    def done(self) -> None:
        """The step has ended: its count and its time are logged."""
        self.__exit__()
        step = self.step()
        told = f"{step.count} in " if step.count else ""
        self._log.info("%s: %s%.1f s", self._what, told, step.seconds, extra={MARK: True})

    def step(self) -> Step:
        """How far it is now. The time left is counted down between two advances, and unknown once it is used up."""
        with self._lock:
            count, worked, tokens, paced = (
                self._count,
                self._worked,
                self._tokens,
                self.touched - self.started,
            )
        seconds = self._clock() - self.started
        share = min(1.0, worked / self._work) if self._work else None
        left = paced / share - seconds if share and paced >= _BASIS_S else None
        known = None if left is None or left < 0 else left
        return Step(self._what, count, self._total, seconds, paced, share, known, tokens)


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
