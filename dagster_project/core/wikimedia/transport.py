"""One request on its way: who says he is asking, over which connection, and how much of an answer is read.

What belongs here: sessions (one a thread), headers, bounded reading. What does not: attempts, limits and the cache
(`http`), what an answer means.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

import requests

from dagster_project.core.errors import printable
from dagster_project.core.http import Clock, RetryPolicy, Sessions, is_loopback, own_version
from dagster_project.core.wikimedia.failures import SlowAnswerError, short
from dagster_project.core.wikimedia.limits import Service

_CHUNK = 1 << 16


@dataclass(frozen=True)
class Request:
    """What is asked of whom. `secret`: a token in the form."""

    service: Service
    method: str
    url: str
    params: Mapping[str, str] | None = None
    form: Mapping[str, str] | None = None
    secret: str | None = None

    @property
    def full_url(self) -> str:
        """The address with its parameters."""
        return requests.Request(self.method, self.url, params=self.params).prepare().url or self.url


@dataclass
class Traffic:
    """Requests that were sent, those of them whose answer had not changed (304), and answers of the cache alone."""

    sent: int = 0
    not_modified: int = 0
    from_cache: int = 0


class Transport:
    """Sends requests; safe between threads."""

    def __init__(self, contact_env: str, policy: RetryPolicy, clock: Clock) -> None:
        self._contact_env, self._policy, self._clock = contact_env, policy, clock
        self._sessions = Sessions()

    def close(self) -> None:
        self._sessions.close()

    def send(self, request: Request, conditions: Mapping[str, str] | None = None) -> requests.Response:
        """Send the request, its answer's body yet to be read. `conditions`: more headers."""
        is_local = is_loopback(request.url)
        session = (
            self._sessions.get("local", _local_session)
            if is_local
            else self._sessions.get("far", requests.Session)
        )
        return session.request(
            request.method,
            request.url,
            params=request.params,
            data=request.form,
            headers={"User-Agent": self._user_agent(), **(conditions or {})},
            timeout=(self._policy.connect_s, self._policy.read_s),
            stream=True,
            # nothing on this machine may send us, unannounced, to another
            allow_redirects=not (is_local or request.secret),
        )

    def body(self, request: Request, response: requests.Response) -> bytes:
        """The whole body. Errors: `SlowAnswerError` where it is too large or takes too long: ask for less."""
        parts, size, policy = [], 0, self._policy
        last = self._clock.monotonic() + policy.answer_s
        for part in response.iter_content(_CHUNK):
            parts.append(part)
            size += len(part)
            if size > policy.largest_answer:
                raise SlowAnswerError(
                    f"{request.service.name} at {short(request.url)}: answered with more than "
                    f"{policy.largest_answer:,} bytes, which is not read on"
                )
            if self._clock.monotonic() > last:
                raise requests.ReadTimeout(f"Read timed out: no end after {policy.answer_s:.0f} s")
        return b"".join(parts)

    def _user_agent(self) -> str:
        contact = os.environ.get(self._contact_env, "").strip().encode("ascii", "backslashreplace").decode()
        return f"longtail/{own_version()} ({printable(contact) or 'local'}) requests/{requests.__version__}"


def _local_session() -> requests.Session:
    session = requests.Session()
    session.trust_env = False  # a proxy has no business between this machine and itself
    return session
