"""The one HTTP client of the platform: operator's contact, limits, time-outs, retries, one clear error.

What belongs here: everything that is the same for all Wikimedia services. What does not: what their answers mean
(`wikidata`, `pageviews`, `dumps`). Services are met as they are: slow, down, refusing, answering with HTML or with
half a JSON document. Each of these is tried again a bounded number of times and then becomes one `SourceError`.
"""

from __future__ import annotations

import ipaddress
import json
import os
import random
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

import requests

from dagster_project.core.errors import SourceError
from dagster_project.core.lake import printable
from dagster_project.core.wikimedia.limits import Clock, Limiter, retry_after_seconds

_SNIPPET = 160
_TIMED_OUT = ("timeoutexception", "timed out", "timeout", "time limit")


@dataclass(frozen=True)
class Service:
    """A service and its limits; no interval is kept on the loopback interface.

    Services of one `quota` share a limiter: Wikimedia counts 200 requests a minute, 3 at once, per operator.
    """

    name: str
    quota: str = "operator"
    max_parallel: int = 3
    interval_s: float = 0.3


QUERY_SERVICE = Service("SPARQL query service", quota="queries", max_parallel=1, interval_s=1.0)
ENTITY_API = Service("entity API (wbgetentities)")
PAGE_VIEW_API = Service("page view API")
DUMPS = Service("dumps", quota="dumps", max_parallel=1, interval_s=1.0)


@dataclass(frozen=True)
class RetryPolicy:
    """How long to try: `attempts` in all, pauses of `base_s` × 2ⁿ up to `cap_s`, with jitter.

    A service that asks for more than `longest_wait_s` is not waited for. `read_s` is above the query service's own
    limit of 60 seconds, so that its own message arrives first.
    """

    attempts: int = 6
    base_s: float = 1.0
    cap_s: float = 60.0
    longest_wait_s: float = 300.0
    connect_s: float = 10.0
    read_s: float = 75.0


class SlowAnswerError(SourceError):
    """The service gave up on a query, or did not answer in time: ask for less at once."""


@dataclass(frozen=True)
class _Failure:
    """What came back instead of an answer. `wait_s`: the pause that the service asks for."""

    what: str
    is_slow: bool = False
    wait_s: float | None = None


class HttpClient:
    """Sends requests for all services of one run; safe between threads. Close it, or use it as a context manager.

    `contact_env` names the environment variable that must hold the operator's address before any host but this
    machine is spoken to.
    """

    def __init__(
        self,
        contact_env: str = "LONGTAIL_CONTACT",
        policy: RetryPolicy | None = None,
        clock: Clock | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.contact_env = contact_env
        self.policy = policy or RetryPolicy()
        self.clock = clock or Clock()
        self._jitter = jitter
        self._lock = threading.Lock()
        self._limiters: dict[tuple[str, bool], Limiter] = {}
        self._local = threading.local()
        self._sessions: list[requests.Session] = []

    def __enter__(self) -> HttpClient:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
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

        `accept` looks at the document and names what is wrong with it (then it is asked for again), or gives None.
        Errors: `SourceError` naming service, URL and what came back; `SlowAnswerError` where that was a time-out.
        """
        return self._retry(service, url, lambda: self._json("GET", service, url, params, None, missing_ok, accept))

    def post_json(
        self, service: Service, url: str, form: Mapping[str, str], *, fail_fast_when_slow: bool = False
    ) -> Any:
        """POST a form, get JSON. `fail_fast_when_slow`: a time-out is not tried again but raised at once."""
        return self._retry(
            service, url, lambda: self._json("POST", service, url, None, form, False, None), fail_fast_when_slow
        )

    def download(self, service: Service, url: str, write: Callable[[requests.Response], None]) -> None:
        """GET `url` as a stream and hand the response to `write`, which is called again for each new attempt."""

        def attempt() -> _Failure | None:
            with self._send("GET", service, url, None, None, stream=True) as response:
                failure = self._refusal(response)
                if failure is None:
                    write(response)
                return failure

        self._retry(service, url, attempt)

    def _retry(self, service: Service, url: str, attempt: Callable[[], Any], fail_fast_when_slow: bool = False) -> Any:
        self._require_contact(service, url)
        limiter = self._limiter(service, url)
        failure = _Failure("nothing")
        for number in range(1, self.policy.attempts + 1):
            with limiter.slot():
                outcome = _caught(attempt)
            if not isinstance(outcome, _Failure):
                return outcome
            failure = outcome
            if failure.is_slow and fail_fast_when_slow:
                break
            if number < self.policy.attempts:
                self._wait(service, url, failure, limiter, number)
        raise _error(service, url, failure, number)

    def _wait(self, service: Service, url: str, failure: _Failure, limiter: Limiter, number: int) -> None:
        policy = self.policy
        if failure.wait_s is not None:
            if failure.wait_s > policy.longest_wait_s:
                asked = f"{failure.what}, and asked to wait {failure.wait_s:.0f} s: run again after that"
                raise SourceError(f"{service.name} at {_short(url)}: {asked}")
            limiter.pause(failure.wait_s)
            return
        backoff = min(policy.cap_s, policy.base_s * 2.0 ** (number - 1))
        self.clock.sleep(backoff * (0.5 + self._jitter() / 2))

    def _json(
        self,
        method: str,
        service: Service,
        url: str,
        params: Mapping[str, str] | None,
        form: Mapping[str, str] | None,
        missing_ok: bool,
        accept: Callable[[Any], str | None] | None,
    ) -> Any:
        with self._send(method, service, url, params, form, stream=False) as response:
            if response.status_code == 404 and missing_ok and "json" in response.headers.get("Content-Type", ""):
                return None
            failure = self._refusal(response)
            if failure is not None:
                return failure
            try:
                document = json.loads(response.content)
            except (ValueError, RecursionError):
                return _unreadable(response)
        wrong = accept(document) if accept else None
        wait_s = retry_after_seconds(response.headers.get("Retry-After"), self.clock.now())
        return _Failure(wrong, wait_s=wait_s) if wrong else document

    def _refusal(self, response: requests.Response) -> _Failure | None:
        """A failure worth another attempt; None for a good answer. Errors: `SourceError` where trying again is no use."""
        status = response.status_code
        if status == 200:
            return None
        body = response.content[:4096].decode("utf-8", "replace")
        what = f"answered {status} ({_snippet(body)})" if body.strip() else f"answered {status}"
        if status == 429 or status >= 500:
            wait_s = retry_after_seconds(response.headers.get("Retry-After"), self.clock.now())
            is_slow = status == 504 or (status >= 500 and any(sign in body.lower() for sign in _TIMED_OUT))
            return _Failure(what, is_slow, wait_s)
        raise SourceError(f"{response.url[:300]}: {what}; trying again would not help, check the request")

    def _send(
        self,
        method: str,
        service: Service,
        url: str,
        params: Mapping[str, str] | None,
        form: Mapping[str, str] | None,
        *,
        stream: bool,
    ) -> requests.Response:
        session = self._session(is_loopback(url))
        timeout = (self.policy.connect_s, self.policy.read_s)
        headers = {"User-Agent": self._user_agent()}
        return session.request(method, url, params=params, data=form, timeout=timeout, stream=stream, headers=headers)

    def _session(self, is_local: bool) -> requests.Session:
        session: requests.Session | None = getattr(self._local, str(is_local), None)
        if session is None:
            session = requests.Session()
            session.trust_env = not is_local  # a proxy has no business between this machine and itself
            setattr(self._local, str(is_local), session)
            with self._lock:
                self._sessions.append(session)
        return session

    def _limiter(self, service: Service, url: str) -> Limiter:
        is_local = is_loopback(url)
        with self._lock:
            key = (service.quota, is_local)
            if key not in self._limiters:
                interval = 0.0 if is_local else service.interval_s
                self._limiters[key] = Limiter(interval, service.max_parallel, self.clock)
            return self._limiters[key]

    def _user_agent(self) -> str:
        contact = os.environ.get(self.contact_env, "").strip()
        return f"longtail/{_version()} ({printable(contact) or 'local'}) python-requests/{requests.__version__}"

    def _require_contact(self, service: Service, url: str) -> None:
        if not is_loopback(url) and not os.environ.get(self.contact_env, "").strip():
            raise SourceError(missing_contact(service.name, self.contact_env))


def _version() -> str:
    try:
        return metadata.version("longtail")
    except metadata.PackageNotFoundError:  # run from a checkout that was not installed
        return "0"


def missing_contact(service: str, contact_env: str) -> str:
    """The message for an operator who has not said how to be reached."""
    return (
        f"{service}: Wikimedia asks every operator for a contact; set the environment variable {contact_env} to an "
        "e-mail address or a web page, then run again (nothing was requested)"
    )


def is_loopback(url: str) -> bool:
    """Whether `url` stays on this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _caught(attempt: Callable[[], Any]) -> Any:
    try:
        return attempt()
    except requests.Timeout as error:
        return _Failure(f"did not answer in time ({type(error).__name__})", is_slow=isinstance(error, requests.ReadTimeout))
    except requests.RequestException as error:
        # A read time-out in the middle of a body arrives as a ConnectionError.
        return _Failure(f"could not be reached ({_reason(error)})", is_slow="Read timed out" in str(error))


def _reason(error: Exception) -> str:
    cause = getattr(error.args[0], "reason", error.args[0]) if error.args else error
    return f"{type(error).__name__}: {_snippet(str(cause))}"


def _unreadable(response: requests.Response) -> _Failure:
    body = response.content.decode("utf-8", "replace")
    kind = response.headers.get("Content-Type", "")
    if "html" in kind or body.lstrip()[:1] == "<":
        return _Failure(f"answered 200 with a web page in place of JSON ({_snippet(body)})")
    # The query service writes its time-out into the middle of an answer that it has begun with status 200.
    is_slow = any(sign in body[-8192:].lower() for sign in _TIMED_OUT[:1])
    return _Failure(f"answered 200 with broken JSON of {len(response.content):,} bytes (… {_snippet(body[-80:])})", is_slow)


def _error(service: Service, url: str, failure: _Failure, attempts: int) -> SourceError:
    times = f"{attempts} times" if attempts > 1 else "once"
    kind = SlowAnswerError if failure.is_slow else SourceError
    return kind(f"{service.name} at {_short(url)}: {failure.what}; asked {times}. Run again later: what is done stays")


def _short(url: str) -> str:
    return url if len(url) <= 200 else f"{url[:200]}…"


def _snippet(text: str) -> str:
    return printable(" ".join(text[: 4 * _SNIPPET].split())[:_SNIPPET])
