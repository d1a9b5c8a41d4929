"""The one HTTP client for all Wikimedia services: operator's contact, limits, time-outs, retries, one clear error.

Services may be slow or down, may refuse requests, or may answer with HTML or half a JSON document. The client repeats
each such request a limited number of times, then raises one `SourceError`.
"""

from __future__ import annotations

import json
import logging
import os
import random
import threading
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

import requests

from longtail.errors import SourceError
from longtail.transfer.failures import (
    Failure,
    banned,
    caught,
    final_error,
    missing_contact,
    refusal,
    refused_too_often,
    short,
    unreadable,
    without_secret,
)
from longtail.transfer.finished import FinishedAnswers, request_key
from longtail.transfer.http import Clock, RetryPolicy, is_loopback, retry_after_seconds
from longtail.transfer.limits import LongPauseError, Pace, Service
from longtail.transfer.pacing import Pacing
from longtail.transfer.response_cache import ResponseCache
from longtail.transfer.sending import Request, Traffic, Transport

_LOG = logging.getLogger(__name__)


class HttpClient:
    """Sends requests for all services of one run; safe between threads; a context manager.

    `contact_env` names the environment variable with the operator's address, which is needed for any host but this
    machine. `limits`: the folder in which the processes of an instance keep their common limits; None: limits of this
    process only. For this machine only the number of parallel requests is limited, unless `limits_loopback`. `cache`:
    the folder of the cache of responses. `finished`: the stored answers of an unfinished stage, also those of a killed
    run.
    """

    def __init__(
        self,
        contact_env: str = "LONGTAIL_CONTACT",
        policy: RetryPolicy | None = None,
        clock: Clock | None = None,
        jitter: Callable[[], float] = random.random,
        limits: Path | None = None,
        limits_loopback: bool = False,
        cache: Path | None = None,
        finished: FinishedAnswers | None = None,
    ) -> None:
        self.contact_env = contact_env
        self.policy = policy or RetryPolicy()
        self.clock = clock or Clock()
        self.traffic = Traffic()
        self._jitter = jitter
        self._lock = threading.Lock()
        self._pacing = Pacing(limits, limits_loopback, self.clock)
        self._transport = Transport(contact_env, self.policy)
        self._cache = ResponseCache(cache, self.clock.now) if cache else None
        self._finished = finished

    def __enter__(self) -> HttpClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._transport.close()
        for store in (self._cache, self._finished):
            if store is not None:
                store.close()
        counts, n_known = self.traffic, self._finished.n_known if self._finished else 0
        if counts.not_modified or counts.from_cache or n_known:
            _LOG.info(
                "requests: %d sent (%d of them not modified), %d answered by the cache, %d by an earlier run",
                *(counts.sent, counts.not_modified, counts.from_cache, n_known),
            )

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

        `accept` checks the document and returns what is wrong with it, or None; a wrong document is requested again.
        Errors: `SourceError` naming service, URL and what came back; `SlowAnswerError` after a time-out; `LakeError`
        where the answer cannot be stored.
        """
        request = Request(service, "GET", url, params=params)
        return self._once(request, lambda: self._get(request, missing_ok, accept))

    def post_json(
        self,
        service: Service,
        url: str,
        form: Mapping[str, str],
        *,
        fail_fast_when_slow: bool = False,
        secret: str | None = None,
        accept: Callable[[Any], str | None] | None = None,
    ) -> Any:
        """POST a form, get JSON. `fail_fast_when_slow`: raise a time-out at once, without another attempt.

        `accept`: as in `get_json`; a wrong document is not stored for the next run.

        `secret`: a token in the form. No message shows it, and no redirect receives it.
        """
        request = Request(service, "POST", url, form=form, secret=secret)

        def ask() -> Any:
            return self._retry(
                request,
                lambda: without_secret(secret, lambda: self._json(request, False, accept)),
                fail_fast_when_slow,
            )

        return self._once(request, ask, fail_fast_when_slow)

    def download(
        self,
        service: Service,
        url: str,
        write: Callable[[requests.Response], None],
        conditions: Callable[[], Mapping[str, str]] | None = None,
        accept: Collection[int] = (200,),
    ) -> None:
        """GET `url` as a stream and pass the response to `write`, once per attempt; `write` reads `body_parts`.

        `conditions`: returns more headers, before each attempt. `accept`: the statuses that `write` understands.
        """
        request = Request(service, "GET", url)

        def attempt() -> Failure | None:
            with self._transport.download(request, conditions() if conditions else None) as response:
                if response.status_code in accept:
                    write(response)
                    return None
                return refusal(response, self._transport.body(request, response), self.clock.now())

        self._retry(request, attempt)

    def forget_slow(self) -> None:
        """Slow requests may be tried again; called before giving up."""
        if self._finished is not None:
            self._finished.forget_slow()

    def _once(self, request: Request, ask: Callable[[], Any], notes_slow: bool = False) -> Any:
        if self._finished is None:
            return ask()
        key = request_key(request.method, request.url, request.params, request.form)
        return self._finished.once(key, ask, notes_slow=notes_slow)

    def _get(self, request: Request, missing_ok: bool, accept: Callable[[Any], str | None] | None) -> Any:
        kept = self._cache.get(request.full_url) if self._cache else None
        if kept is not None and kept.is_fresh(self.clock.now()):
            document = _parsed(kept.body)
            if not (accept and accept(document)):
                self._count("from_cache")
                return document
        return self._retry(request, lambda: self._json(request, missing_ok, accept))

    def _retry(self, request: Request, attempt: Callable[[], Any], fail_fast_when_slow: bool = False) -> Any:
        name, url = request.service.name, request.url
        is_known = bool(os.environ.get(self.contact_env, "").strip())
        if request.service.needs_contact and not is_known and not is_loopback(url):
            raise SourceError(missing_contact(name, self.contact_env))
        limiter, longest_s = self._pacing.limiter(request.service, url), self.policy.longest_wait_s
        for number in range(1, self.policy.attempts + 1):
            try:
                with self._pacing.slot(request.service, url, longest_s):
                    self._count("sent")
                    outcome = caught(attempt)
            except LongPauseError as error:
                self._too_long(request, "asked us to pause", error.seconds)
            if not isinstance(outcome, Failure):
                limiter.accepted()
                return outcome
            self._heed(request, outcome, limiter)
            is_last = number == self.policy.attempts or (outcome.is_slow and fail_fast_when_slow)
            if is_last:
                raise final_error(name, url, outcome, number)
            self._wait(request, outcome, limiter, number)
        raise AssertionError("a policy allows at least one attempt")

    def _heed(self, request: Request, failure: Failure, limiter: Pace) -> None:
        """Stop after a ban, or after many refusals in a row: more requests would bring a ban."""
        if failure.is_banned:
            seconds = max(failure.wait_s or 0.0, self.policy.after_refusals_s)
            limiter.pause(seconds)
            raise SourceError(banned(request.service.name, request.url, failure, seconds))
        if failure.is_refused and (times := limiter.refused()) >= self.policy.refusals:
            seconds = max(failure.wait_s or 0.0, self.policy.after_refusals_s)
            limiter.pause(seconds)
            raise SourceError(refused_too_often(request.service.name, request.url, failure, times, seconds))

    def _wait(self, request: Request, failure: Failure, limiter: Pace, number: int) -> None:
        policy, name = self.policy, request.service.name
        factor = policy.refused_factor if failure.is_refused else 1.0
        seconds = failure.wait_s or factor * policy.backoff_s(number, self._jitter())
        if seconds > policy.longest_wait_s:
            limiter.pause(seconds)  # for the next request of this process or another
            self._too_long(request, failure.what, seconds)
        _LOG.warning("%s: %s; attempt %d follows in %.1f s", name, failure.what, number + 1, seconds)
        if failure.wait_s or failure.is_refused:
            limiter.pause(seconds)
        else:
            self.clock.sleep(seconds)

    @staticmethod
    def _too_long(request: Request, what: str, seconds: float) -> NoReturn:
        asked = f"{what}, and asked to wait {seconds:.0f} s: run again after that"
        raise SourceError(f"{request.service.name} at {short(request.url)}: {asked}")

    def _json(self, request: Request, missing_ok: bool, accept: Callable[[Any], str | None] | None) -> Any:
        kept = self._cache.get(request.full_url) if self._cache and request.method == "GET" else None
        with self._transport.send(request, kept.conditions if kept else None) as response:
            body, headers, now = self._transport.body(request, response), response.headers, self.clock.now()
            is_json = "json" in headers.get("Content-Type", "")
            if response.status_code == 404 and missing_ok and is_json:
                return None
            if response.status_code == 304 and kept is not None:
                self._count("not_modified")
                body, headers = kept.body, kept.validated_by(headers)
            elif failure := refusal(response, body, now):
                return failure
        try:
            document = _parsed(body)
        except (ValueError, RecursionError):
            return self._unusable(request, unreadable(headers.get("Content-Type", ""), body))
        wrong = accept(document) if accept else None
        if wrong:
            wait_s = retry_after_seconds(headers.get("Retry-After"), now)
            return self._unusable(request, Failure(wrong, wait_s=wait_s))
        if self._cache is not None and request.method == "GET":
            self._cache.keep(request.full_url, headers, body)
        return document

    def _unusable(self, request: Request, failure: Failure) -> Failure:
        """The same failure; the cached answer is removed, so that the next attempt is unconditional."""
        if self._cache is not None:
            self._cache.drop(request.full_url)
        return failure

    @property
    def waited_s(self) -> float:
        """Seconds that all requests together, also parallel ones, have waited for their limits."""
        return self._pacing.waited_s

    def _count(self, what: str) -> None:
        with self._lock:
            setattr(self.traffic, what, getattr(self.traffic, what) + 1)


def _parsed(body: bytes) -> Any:
    return json.loads(body, strict=False)  # control characters are removed when terms are cleaned
