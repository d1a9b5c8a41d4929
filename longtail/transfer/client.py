"""The one HTTP client of all sources: operator's contact, limits, time-outs, retries, one clear error.

Services may be slow or down, may refuse requests, or may answer with HTML or half a JSON document. The client repeats
each such request a limited number of times, then raises one `SourceError`. What a stage was answered is stored until its
rows are in the lake, so that a run after a kill repeats no request. These stores survive kill -9 and damage
(`storage.blob_store`); keys are hashes, and neither headers of requests nor the operator's contact are stored.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import random
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import requests

from longtail.errors import SourceError, printable
from longtail.storage.blob_store import BlobStore, remove_store
from longtail.transfer.http import (
    CONTACT,
    Clock,
    Failure,
    RetryPolicy,
    Sessions,
    SlowAnswerError,
    body_parts,
    catch_failure,
    deadline,
    is_loopback,
    longtail_version,
    missing_contact,
    refusal,
    retry_after_seconds,
    short,
    unreadable,
)
from longtail.transfer.limits import Limiter, Limits, LongPauseError, Service

_LOG = logging.getLogger(__name__)
_CHUNK = 1 << 16
_ABANDONED_AFTER_S = 14 * 86_400.0
_SUFFIX = ".sqlite"
Accept = Callable[[Any], str | None]
"""Checks a document: what is wrong with it, or None."""


@dataclass(frozen=True)
class Request:
    """One request to one service, with a form or a JSON document as its body.

    `secret`: a token in the form, or the one in `authorization`, the header of that name. No message shows it, and no
    redirect receives it.
    """

    service: Service
    method: str
    url: str
    params: Mapping[str, str] | None = None
    form: Mapping[str, str] | None = None
    document: Any = None
    authorization: str | None = None
    secret: str | None = None

    @property
    def key(self) -> str:
        """A hash of what is asked; of no header."""
        parts = [self.method, self.url, self.params and dict(self.params), self.form and dict(self.form)]
        if self.document is not None:
            parts.append(self.document)
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def error(self, what: str, kind: type[SourceError] = SourceError) -> SourceError:
        """An error that names service and address; the caller raises it."""
        return kind(f"{self.service.name} at {short(self.url)}: {what}")


class HttpClient:
    """Sends requests for all services of one run; safe between threads; a context manager.

    Services that ask for the operator's address need it in `$LONGTAIL_CONTACT`, but on this machine. `limits`: the folder
    in which the processes of an instance keep their common limits; None: limits of this process only. For this machine
    only the number of parallel requests is limited, unless `limits_loopback`.
    `finished`: the stored answers of an unfinished stage, also those of a killed run.
    """

    def __init__(
        self,
        policy: RetryPolicy | None = None,
        clock: Clock | None = None,
        jitter: Callable[[], float] = random.random,
        limits: Path | None = None,
        limits_loopback: bool = False,
        finished: FinishedAnswers | None = None,
    ) -> None:
        self.policy = policy or RetryPolicy()
        self.clock = clock or Clock()
        self.limits = Limits(limits, limits_loopback, self.clock)
        self._jitter = jitter
        self._sessions = Sessions()
        self._finished = finished

    def __enter__(self) -> HttpClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._sessions.close()
        if self._finished is not None:
            self._finished.close()
            if self._finished.n_known:
                _LOG.info("requests: %d answered by an earlier run", self._finished.n_known)

    def get_json(
        self,
        service: Service,
        url: str,
        params: Mapping[str, str] | None = None,
        *,
        missing_ok: bool = False,
        accept: Accept | None = None,
    ) -> Any:
        """GET a JSON document. With `missing_ok`, a 404 that is itself JSON gives None.

        A document that `accept` finds wrong is requested again. Errors: `SourceError` naming service, URL and what came
        back; `SlowAnswerError` after a time-out; `LakeError` where the answer cannot be stored.
        """
        return self._ask(Request(service, "GET", url, params=params), accept, missing_ok=missing_ok)

    def post_json(
        self,
        service: Service,
        url: str,
        form: Mapping[str, str] | None = None,
        *,
        document: Any = None,
        authorization: str | None = None,
        fail_fast_when_slow: bool = False,
        secret: str | None = None,
        accept: Accept | None = None,
    ) -> Any:
        """POST a form or a JSON document, get JSON.

        `fail_fast_when_slow`: raise a time-out at once, without another attempt. `authorization`, `secret`: see
        `Request`. `accept` and errors: as in `get_json`; a wrong document is not stored for the next run.
        """
        secret = secret or (authorization or "").rpartition(" ")[2] or None
        request = Request(
            service, "POST", url, form=form, document=document, authorization=authorization, secret=secret
        )
        return self._ask(request, accept, fail_fast_when_slow=fail_fast_when_slow)

    def download(
        self,
        service: Service,
        url: str,
        write: Callable[[requests.Response], None],
        conditions: Callable[[], Mapping[str, str]] | None = None,
        accept: Collection[int] = (200,),
    ) -> None:
        """GET `url` as a stream and pass the response to `write`, once per attempt; `write` reads `body_parts`.

        The body may take any time as long as it keeps coming. `conditions`: returns more headers, before each attempt.
        `accept`: the statuses that `write` understands.
        """
        request = Request(service, "GET", url)

        def attempt() -> Failure | None:
            headers = conditions() if conditions else {}
            with (
                deadline(self.policy.stretch_s, renewed_by=self.policy.stretch),
                self._send(request, headers) as response,
            ):
                if response.status_code in accept:
                    write(response)
                    return None
                return refusal(response, self._body(request, response), self.clock.now())

        self._retry(request, attempt)

    def _ask(
        self,
        request: Request,
        accept: Accept | None,
        *,
        missing_ok: bool = False,
        fail_fast_when_slow: bool = False,
    ) -> Any:
        def ask() -> Any:
            return self._retry(request, lambda: self._fetch(request, missing_ok, accept), fail_fast_when_slow)

        return ask() if self._finished is None else self._finished.get_or_ask(request.key, ask)

    def _retry(self, request: Request, attempt: Callable[[], Any], fail_fast_when_slow: bool = False) -> Any:
        service, url, policy = request.service, request.url, self.policy
        has_contact = bool(os.environ.get(CONTACT, "").strip())
        if service.needs_contact and not has_contact and not is_loopback(url):
            raise SourceError(missing_contact(service.name))
        limiter = self.limits.limiter(service, url)
        for number in range(1, policy.attempts + 1):
            try:
                with self.limits.slot(service, url, policy.longest_wait_s):
                    outcome = catch_failure(attempt, request.secret)
            except LongPauseError as error:
                raise _long_pause(request, "asked us to pause", error.seconds) from None
            if not isinstance(outcome, Failure):
                limiter.clear_refusals()
                return outcome
            self._stop_before_a_ban(request, outcome, limiter)
            if number == policy.attempts or (outcome.is_slow and fail_fast_when_slow):
                times = f"{number} times" if number > 1 else "once"
                message = f"{outcome.what}; asked {times}. Run again later: finished work is kept"
                raise request.error(message, SlowAnswerError if outcome.is_slow else SourceError)
            self._wait(request, outcome, limiter, number)
        raise AssertionError("a policy allows at least one attempt")

    def _stop_before_a_ban(self, request: Request, failure: Failure, limiter: Limiter) -> None:
        """Stop after a ban, or after many refusals in a row: more requests would bring a ban."""
        seconds = max(failure.wait_s or 0.0, self.policy.after_refusals_s)
        minutes = f"{seconds / 60:.0f} minutes"
        if failure.is_banned:
            limiter.pause(seconds)
            raise request.error(
                f"{failure.what}; no request is sent for {minutes}. Read the answer, correct that, then run again: "
                "finished work is kept"
            )
        if failure.is_refused and (times := limiter.count_refusal()) >= self.policy.refusals:
            limiter.pause(seconds)
            raise request.error(
                f"{failure.what}, {times} times in a row; stopped to avoid a ban. Run again in {minutes}: no request is "
                "sent until then, and finished work is kept"
            )

    def _wait(self, request: Request, failure: Failure, limiter: Limiter, number: int) -> None:
        policy = self.policy
        factor = policy.refused_factor if failure.is_refused else 1.0
        seconds = failure.wait_s or factor * policy.backoff_s(number, self._jitter())
        if seconds > policy.longest_wait_s:
            limiter.pause(seconds)  # for the next request of this process or another
            raise _long_pause(request, failure.what, seconds)
        _LOG.warning(
            "%s: %s; attempt %d follows in %.1f s", request.service.name, failure.what, number + 1, seconds
        )
        if failure.wait_s or failure.is_refused:
            limiter.pause(seconds)
        else:
            self.clock.sleep(seconds)

    def _fetch(self, request: Request, missing_ok: bool, accept: Accept | None) -> Any:
        """One attempt: the document of the answer, or the `Failure`."""
        with deadline(self.policy.answer_s), self._send(request, {}) as response:
            body, headers, now = self._body(request, response), response.headers, self.clock.now()
            if response.status_code == 404 and missing_ok and "json" in headers.get("Content-Type", ""):
                return None
            if failure := refusal(response, body, now):
                return failure
        try:
            # control characters are removed when terms are cleaned
            document = json.loads(body, strict=False)
        except (ValueError, RecursionError):
            return unreadable(headers.get("Content-Type", ""), body)
        if accept and (wrong := accept(document)):
            return Failure(wrong, wait_s=retry_after_seconds(headers.get("Retry-After"), now))
        return document

    @contextmanager
    def _send(self, request: Request, headers: Mapping[str, str]) -> Iterator[requests.Response]:
        """Send the request; its body must be read in this context."""

        def authorize(prepared: requests.PreparedRequest) -> requests.PreparedRequest:
            prepared.headers["Authorization"] = request.authorization or ""
            return prepared

        is_far = not is_loopback(request.url)
        with self._sessions.get(request.url).request(
            request.method,
            request.url,
            params=request.params,
            data=request.form,
            json=request.document,
            auth=authorize if request.authorization else None,
            headers={"User-Agent": self._user_agent(), **headers},
            timeout=(self.policy.connect_s, self.policy.read_s),
            stream=True,
            # nothing on this machine may redirect a request, or a secret, elsewhere
            allow_redirects=is_far and not request.secret,
        ) as response:
            yield response

    def _body(self, request: Request, response: requests.Response) -> bytes:
        """The whole body. Errors: `SlowAnswerError` where it is too large: ask for less."""
        body, most = bytearray(), self.policy.largest_answer
        for part in body_parts(response, _CHUNK):
            body += part
            if len(body) > most:
                raise request.error(
                    f"answered with more than {most:,} bytes; the rest was not read", SlowAnswerError
                )
        return bytes(body)

    def _user_agent(self) -> str:
        contact = os.environ.get(CONTACT, "").strip().encode("ascii", "backslashreplace").decode()
        return (
            f"longtail/{longtail_version()} ({printable(contact) or 'local'}) requests/{requests.__version__}"
        )


def _long_pause(request: Request, what: str, seconds: float) -> SourceError:
    return request.error(f"{what}, and asked to wait {seconds:.0f} s: run again after that")


class FinishedAnswers:
    """The stored answers of one stage, until its rows are in the lake. Errors: `LakeError` where the disk is full.

    A stage is identified by the fingerprint of its inputs, so that its answers never reach another stage. Answers of
    abandoned stages are removed after two weeks.
    """

    def __init__(self, folder: Path, stage: str) -> None:
        _remove_old(folder)
        self._store = BlobStore(folder / f"{stage}{_SUFFIX}")
        self.n_known = 0

    def get_or_ask(self, key: str, ask: Callable[[], Any]) -> Any:
        """The stored answer to the request `key`; otherwise the result of `ask`, which is stored."""
        stored = self._store.get(key)
        if stored is not None:
            self.n_known += 1
            return json.loads(stored)
        document = ask()
        self._store.put(key, json.dumps(document).encode())
        return document

    def close(self) -> None:
        self._store.close()


def forget_stage(folder: Path, stage: str) -> None:
    """Remove the answers of a stage whose rows are in the lake."""
    remove_store(folder / f"{stage}{_SUFFIX}")


def _remove_old(folder: Path) -> None:
    for path in folder.glob(f"*{_SUFFIX}"):
        try:
            is_old = time.time() - path.stat().st_mtime > _ABANDONED_AFTER_S
        except OSError:
            continue
        if is_old:
            remove_store(path)
