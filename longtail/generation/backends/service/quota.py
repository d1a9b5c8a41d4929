"""How much may be sent in a minute: requests and tokens, as a service grants them."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass

from longtail.transfer.http import Clock

WINDOW_S = 60.0
_LONGEST_NAP_S = 1.0
"""Waiting is cut into naps: room may come earlier than expected, and a run may be stopped."""


@dataclass(eq=False)
class Sending:
    """One request in the window: its time, and its tokens, first as estimated, later as counted."""

    at: float
    tokens: int


class MinuteQuota:
    """Keeps requests and tokens of any 60 seconds within what is granted; None: no limit.

    Tokens count by an upper bound before the answer and by the server's usage after it, so room is found again.
    A request larger than the whole grant goes when the window is empty: only the server can tell whether its
    count exceeds it. Time is monotonic: a changed clock has no effect.
    """

    def __init__(self, requests: int | None, tokens: int | None, clock: Clock) -> None:
        self._requests, self._tokens, self._clock = requests, tokens, clock
        self._lock = threading.Lock()
        self._window: deque[Sending] = deque()
        self._paused_until = clock.monotonic()

    def start(self, tokens: int, stop: threading.Event) -> Sending | None:
        """Wait for room for one request of at most `tokens`; None where the run is stopped meanwhile."""
        while not stop.is_set():
            with self._lock:
                now = self._clock.monotonic()
                wait = self._wait_s(now, tokens)
                if wait <= 0:
                    sending = Sending(now, tokens)
                    self._window.append(sending)
                    return sending
            self._clock.sleep(min(wait, _LONGEST_NAP_S))
        return None

    def count(self, sending: Sending, tokens: int) -> None:
        """The tokens that the request turned out to have."""
        with self._lock:
            sending.tokens = tokens

    def pause(self, seconds: float) -> None:
        """Let no request start for `seconds` from now, because the service asked for a pause."""
        with self._lock:
            self._paused_until = max(self._paused_until, self._clock.monotonic() + seconds)

    def _wait_s(self, now: float, tokens: int) -> float:
        while self._window and self._window[0].at <= now - WINDOW_S:
            self._window.popleft()
        wait = self._paused_until - now
        if self._requests is not None and len(self._window) >= self._requests:
            wait = max(wait, self._window[-self._requests].at + WINDOW_S - now)
        if self._tokens is not None and self._window:
            room = self._tokens - sum(sending.tokens for sending in self._window)
            for sending in self._window:
                if room >= tokens:
                    break
                room += sending.tokens
                wait = max(wait, sending.at + WINDOW_S - now)
        return wait


def nap(seconds: float, clock: Clock, stop: threading.Event) -> None:
    """Sleep until the time is over or `stop` is set."""
    end = clock.monotonic() + seconds
    while not stop.is_set() and (left := end - clock.monotonic()) > 0:
        clock.sleep(min(left, _LONGEST_NAP_S))
