"""One request over HTTP: how many may go in a minute, the key, keep-alive, time-outs, and what came back or did not."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass

import requests
import urllib3
from requests.auth import AuthBase

from longtail.generation.backends.service.wire import Again, Redactor, Reply
from longtail.transfer.http import (
    Clock,
    OverdueError,
    RetryPolicy,
    Sessions,
    body_parts,
    deadline,
    longtail_version,
)

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


_CHUNK_BYTES = 1 << 16
_UNSENT = (
    requests.ConnectTimeout,
    requests.exceptions.ProxyError,
    requests.exceptions.SSLError,
    requests.exceptions.InvalidURL,
    requests.exceptions.InvalidSchema,
    requests.exceptions.MissingSchema,
    urllib3.exceptions.LocationValueError,
)
"""No connection, or no address at all."""
_UNMET = (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError)


class _Bearer(AuthBase):
    """Sets the key. Also without a key it is given to `requests`, which would otherwise look for one in ~/.netrc."""

    def __init__(self, key: str | None) -> None:
        self._header = f"Bearer {key}" if key else None

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if self._header:
            request.headers["Authorization"] = self._header
        return request


class Connection:
    """Sends to one URL, from several threads; each keeps a session of its own."""

    def __init__(
        self, url: str, key: str | None, redactor: Redactor, policy: RetryPolicy, clock: Clock
    ) -> None:
        self.url = url
        self._auth = _Bearer(key)
        self._redactor = redactor
        self._policy, self._clock = policy, clock
        self._sessions = Sessions()

    def close(self) -> None:
        """Close all sessions."""
        self._sessions.close()

    def post(self, body: bytes, idempotency_key: str) -> Reply | Again:
        """Send once.

        No error of `requests` leaves this method, as such errors carry the request with its key.
        """
        try:
            with deadline(self._policy.answer_s):
                return self._post(body, idempotency_key)
        except OverdueError as error:
            return Again(f"no whole answer in time ({error})", may_be_billed=True)
        except requests.Timeout as error:
            return _lost(f"no answer in time ({type(error).__name__})", error)
        except (OSError, urllib3.exceptions.HTTPError) as error:  # also a file of certificates not found
            cause = getattr(error.args[0], "reason", error.args[0]) if error.args else error
            reason = self._redactor.message(f"{type(error).__name__}: {cause}")
            return _lost(f"no answer ({reason})", error)

    def _post(self, body: bytes, idempotency_key: str) -> Reply:
        started = self._clock.monotonic()
        sent = self._sessions.get(self.url).post(
            self.url,
            data=body,
            auth=self._auth,
            headers={
                "Content-Type": "application/json",
                "Idempotency-Key": idempotency_key,
                "User-Agent": f"longtail/{longtail_version()} requests/{requests.__version__}",
            },
            timeout=(self._policy.connect_s, self._policy.read_s),
            stream=True,
            allow_redirects=False,  # a redirect could lead the key to another host
        )
        with sent as response:
            content = b"".join(body_parts(response, _CHUNK_BYTES))
            seconds = self._clock.monotonic() - started
            return Reply(response.status_code, response.headers, content, seconds)


def _lost(what: str, error: Exception) -> Again:
    """No answer. Only where the request was not sent is it certain that nothing is billed."""
    cause = getattr(error.args[0], "reason", None) if error.args else None
    is_of_http = isinstance(error, requests.RequestException | urllib3.exceptions.HTTPError)
    is_unmet = isinstance(cause, _UNMET) or isinstance(error, _UNSENT) or not is_of_http
    return Again(what, may_be_billed=not is_unmet, is_unmet=is_unmet)
