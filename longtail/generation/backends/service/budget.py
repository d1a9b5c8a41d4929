"""What a call may cost: money is set aside before a request goes, and settled when its bill is known."""

from __future__ import annotations

import threading
from fractions import Fraction

_MARGIN = Fraction(1, 10**9)
"""This share of the limit stays unused: rows carry costs rounded to floats, whose sum must not exceed it either."""


class Budget:
    """Settled + open + set aside never exceeds the limit; None: no limit. Amounts are exact, in US dollars.

    `open` may have been billed without our being told: these are requests whose answer was lost.
    """

    def __init__(self, limit_usd: float | None) -> None:
        self._limit = None if limit_usd is None else Fraction(limit_usd) * (1 - _MARGIN)
        self._changed = threading.Condition()
        self._aside = Fraction(0)
        self.settled = Fraction(0)
        self.open = Fraction(0)

    def reserve(self, usd: Fraction, *, wait: bool = False) -> bool:
        """Set `usd` aside; False where it does not fit, with `wait` only once nothing else is set aside."""
        with self._changed:
            while not self._fits(usd):
                if not wait or not self._aside:
                    return False
                self._changed.wait()
            self._aside += usd
            return True

    def settle(self, reserved: Fraction, billed: Fraction) -> None:
        """The request's bill has come (0: it was not billed)."""
        with self._changed:
            self._aside -= reserved
            self.settled += billed
            self._changed.notify_all()

    def leave_open(self, reserved: Fraction) -> None:
        """The request may have been billed up to `reserved`; nobody will say."""
        with self._changed:
            self._aside -= reserved
            self.open += reserved
            self._changed.notify_all()

    def close(self, opened: Fraction) -> None:
        """Another request has settled what was left open."""
        with self._changed:
            self.open -= opened
            self._changed.notify_all()

    @property
    def left(self) -> Fraction | None:
        """What is neither spent nor possibly spent; None without a limit."""
        with self._changed:
            return None if self._limit is None else self._limit - self.settled - self.open

    def _fits(self, usd: Fraction) -> bool:
        return self._limit is None or self.settled + self.open + self._aside + usd <= self._limit


class Purchase:
    """The money of one request and of its repetitions; one thread at a time."""

    def __init__(self, budget: Budget, usd: Fraction) -> None:
        self._budget, self._usd = budget, usd
        self._is_set_aside = False
        self._left_open = Fraction(0)

    def set_aside(self, *, wait: bool = False) -> bool:
        """Have the money for one attempt; False where the budget does not allow it."""
        self._is_set_aside = self._is_set_aside or self._budget.reserve(self._usd, wait=wait)
        return self._is_set_aside

    def leave_open(self) -> None:
        """The attempt may have been billed; the next one needs money of its own."""
        self._budget.leave_open(self._usd)
        self._left_open += self._usd
        self._is_set_aside = False

    def abandon(self) -> None:
        """Something unforeseen ended the asking: it may have been billed, and nobody waits for this money any longer."""
        if self._is_set_aside:
            self.leave_open()

    def settle(self, billed: Fraction, *, is_replayed: bool) -> None:
        """The answer is there. A replayed answer settles the earlier attempts too: they have the same bill."""
        self._budget.settle(self._usd, billed)
        self._is_set_aside = False
        if is_replayed:
            self._budget.close(self._left_open)

    def release(self) -> None:
        """No further attempt is made, and the last one was not billed."""
        if self._is_set_aside:
            self._budget.settle(self._usd, Fraction(0))
            self._is_set_aside = False
