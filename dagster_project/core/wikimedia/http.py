"""The one HTTP client of the platform: operator's contact, limits, time-outs, retries, one clear error.

What belongs here: everything that is the same for all Wikimedia services. What does not: what their answers
mean (`wikidata`, `pageviews`, `dumps`). Services are met as they are: slow, down, refusing, answering with
HTML or with half a JSON document. Each of these is tried again a bounded number of times and then becomes one
`SourceError`.
"""

from __future__ import annotations

import json
import logging
import os
import random
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

import requests

from dagster_project.core.errors import SourceError
from dagster_project.core.http import Clock, RetryPolicy, is_loopback, retry_after_seconds
from dagster_project.core.lake import printable
from dagster_project.core.wikimedia.failures import (
    Failure,
    caught,
    final_error,
    missing_contact,
    refusal,
    short,
    unreadable,
    without_secret,
)
from dagster_project.core.wikimedia.limits import Limiter, Pace, Service
from dagster_project.core.wikimedia.shared_limits import SharedLimiter

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Request:
    service: Service
    method: str
    url: str
    params: Mapping[str, str] | None = None
    form: Mapping[str, str] | None = None
    secret: str | None = None


class HttpClient:
    """Sends requests for all services of one run; safe between threads; a context manager.

    `contact_env` names the environment variable that must hold the operator's address before any host but
    this machine is spoken to. `limits`: the folder where the processes of an instance keep their common limits;
    None: limits of this process alone. On this machine no limit but that of requests at once is kept, unless
    `limits_loopback`.
    """

    def __init__(
        self,
        contact_env: str = "LONGTAIL_CONTACT",
        policy: RetryPolicy | None = None,
        clock: Clock | None = None,
        jitter: Callable[[], float] = random.random,
        limits: Path | None = None,
        limits_loopback: bool = False,
    ) -> None:
        self.contact_env = contact_env
        self.policy = policy or RetryPolicy()
        self.clock = clock or Clock()
        self._jitter = jitter
        self._limits, self._limits_loopback = limits, limits_loopback
        self._lock = threading.Lock()
        self._limiters: dict[tuple[str, bool], Pace] = {}
        self._local = threading.local()
        self._sessions: list[requests.Session] = []

    def __enter__(self) -> HttpClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        with self._lock:
            for session in self._sessions:
                session.close()
            self._sessions.clear()

    def get_json(
        self,
        service: Service,
        url: str,
        params: Mapping[str, str] | None = None,
        *,
        missing_ok: bool = False,
        accept: Callable[[Any], str | None] | None = None,
    ) -> Any:
        """GET a JSON document. With `missing_ok`, a 404 that is itself JSON gives None.

        `accept` looks at the document and names what is wrong with it (then it is asked for again), or gives
        None. Errors: `SourceError` naming service, URL and what came back; `SlowAnswerError` where that was a
        time-out.
        """
        request = _Request(service, "GET", url, params=params)
        return self._retry(request, lambda: self._json(request, missing_ok, accept))

    def post_json(
        self,
        service: Service,
        url: str,
        form: Mapping[str, str],
        *,
        fail_fast_when_slow: bool = False,
        secret: str | None = None,
    ) -> Any:
        """POST a form, get JSON. `fail_fast_when_slow`: a time-out is not tried again but raised at once.

        `secret`: a token in the form. It shows in no message, and is not sent on to where a redirect leads.
        """
        request = _Request(service, "POST", url, form=form, secret=secret)
        return self._retry(
            request,
            lambda: without_secret(secret, lambda: self._json(request, False, None)),
            fail_fast_when_slow,
        )

    def download(self, service: Service, url: str, write: Callable[[requests.Response], None]) -> None:
        """GET `url` as a stream and hand the response to `write`, anew for each attempt."""
        request = _Request(service, "GET", url)

        def attempt() -> Failure | None:
            with self._send(request, stream=True) as response:
                failure = refusal(response, self.clock.now())
                if failure is None:
                    write(response)
                return failure

        self._retry(request, attempt)

    def _retry(self, request: _Request, attempt: Callable[[], Any], fail_fast_when_slow: bool = False) -> Any:
        name, url = request.service.name, request.url
        if not is_loopback(url) and not os.environ.get(self.contact_env, "").strip():
            raise SourceError(missing_contact(name, self.contact_env))
        limiter = self._limiter(request)
        if limiter.pause_left_s() > self.policy.longest_wait_s:
            self._too_long(request, "asked us to pause", limiter.pause_left_s())
        for number in range(1, self.policy.attempts + 1):
            with limiter.slot():
                outcome = caught(attempt)
            if not isinstance(outcome, Failure):
                return outcome
            is_last = number == self.policy.attempts or (outcome.is_slow and fail_fast_when_slow)
            if is_last:
                raise final_error(name, url, outcome, number)
            self._wait(request, outcome, limiter, number)
        raise AssertionError("a policy allows at least one attempt")

    def _wait(self, request: _Request, failure: Failure, limiter: Pace, number: int) -> None:
        policy, name = self.policy, request.service.name
        seconds = failure.wait_s or policy.backoff_s(number, self._jitter())
        if seconds > policy.longest_wait_s:
            limiter.pause(seconds)  # for whoever asks next, in this process or another
            self._too_long(request, failure.what, seconds)
        _LOG.warning("%s: %s; attempt %d follows in %.1f s", name, failure.what, number + 1, seconds)
        if failure.wait_s:
            limiter.pause(seconds)
        else:
            self.clock.sleep(seconds)

    @staticmethod
    def _too_long(request: _Request, what: str, seconds: float) -> NoReturn:
        asked = f"{what}, and asked to wait {seconds:.0f} s: run again after that"
        raise SourceError(f"{request.service.name} at {short(request.url)}: {asked}")

    def _json(self, request: _Request, missing_ok: bool, accept: Callable[[Any], str | None] | None) -> Any:
        with self._send(request, stream=False) as response:
            is_json = "json" in response.headers.get("Content-Type", "")
            if response.status_code == 404 and missing_ok and is_json:
                return None
            failure = refusal(response, self.clock.now())
            if failure is not None:
                return failure
            try:
                document = json.loads(response.content)
            except (ValueError, RecursionError):
                return unreadable(response)
        wrong = accept(document) if accept else None
        wait_s = retry_after_seconds(response.headers.get("Retry-After"), self.clock.now())
        return Failure(wrong, wait_s=wait_s) if wrong else document

    def _send(self, request: _Request, *, stream: bool) -> requests.Response:
        is_local = is_loopback(request.url)
        return self._session(is_local).request(
            request.method,
            request.url,
            params=request.params,
            data=request.form,
            headers={"User-Agent": self._user_agent()},
            timeout=(self.policy.connect_s, self.policy.read_s),
            stream=stream,
            # nothing on this machine may send us, unannounced, to another
            allow_redirects=not (is_local or request.secret),
        )

    def _session(self, is_local: bool) -> requests.Session:
        session: requests.Session | None = getattr(self._local, str(is_local), None)
        if session is None:
            session = requests.Session()
            session.trust_env = not is_local  # a proxy has no business between this machine and itself
            setattr(self._local, str(is_local), session)
            with self._lock:
                self._sessions.append(session)
        return session

    def _limiter(self, request: _Request) -> Pace:
        service, is_local = request.service, is_loopback(request.url)
        is_limited = not is_local or self._limits_loopback
        interval = service.interval_s if is_limited else 0.0
        with self._lock:
            key = (service.quota, is_local)
            if key not in self._limiters:
                self._limiters[key] = (
                    SharedLimiter(self._limits, service.quota, interval, service.max_parallel, self.clock)
                    if self._limits is not None and is_limited
                    else Limiter(interval, service.max_parallel, self.clock)
                )
            return self._limiters[key]

    @property
    def waited_s(self) -> float:
        """Seconds that requests, side by side or not, have waited for their limits."""
        with self._lock:
            return sum(limiter.waited_s for limiter in self._limiters.values())

    def _user_agent(self) -> str:
        contact = os.environ.get(self.contact_env, "").strip().encode("ascii", "backslashreplace").decode()
        return f"longtail/{_version()} ({printable(contact) or 'local'}) requests/{requests.__version__}"


def _version() -> str:
    try:
        return metadata.version("longtail")
    except metadata.PackageNotFoundError:  # run from a checkout that was not installed
        return "0"
