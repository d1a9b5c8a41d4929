"""Sends one request: identification, connection, and how much of the answer is read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import requests

from longtail.errors import printable
from longtail.transfer.deadlines import body_parts, deadline, timed_session
from longtail.transfer.failures import SlowAnswerError, short
from longtail.transfer.http import RetryPolicy, Sessions, is_loopback, own_version
from longtail.transfer.limits import Service

_CHUNK = 1 << 16


@dataclass(frozen=True)
class Request:
    """One request to one service. `secret`: a token in the form."""

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
    """Numbers of requests sent, of unchanged answers among them (304), and of answers from the cache alone."""

    sent: int = 0
    not_modified: int = 0
    from_cache: int = 0


class Transport:
    """Sends requests; safe between threads."""

    def __init__(self, contact_env: str, policy: RetryPolicy) -> None:
        self._contact_env, self._policy = contact_env, policy
        self._sessions = Sessions()

    def close(self) -> None:
        self._sessions.close()

    @contextmanager
    def send(
        self, request: Request, conditions: Mapping[str, str] | None = None
    ) -> Iterator[requests.Response]:
        """Send the request; its body must be read in this context. `conditions`: more headers."""
        with deadline(self._policy.answer_s), self._sent(request, conditions) as response:
            yield response

    @contextmanager
    def download(self, request: Request, conditions: Mapping[str, str] | None) -> Iterator[requests.Response]:
        """As `send`, for a body that may take any time as long as it keeps coming."""
        with (
            deadline(self._policy.stretch_s, renewed_by=self._policy.stretch),
            self._sent(request, conditions) as response,
        ):
            yield response

    def _sent(self, request: Request, conditions: Mapping[str, str] | None) -> requests.Response:
        return self._session(request).request(
            request.method,
            request.url,
            params=request.params,
            data=request.form,
            headers={"User-Agent": self._user_agent(), **(conditions or {})},
            timeout=(self._policy.connect_s, self._policy.read_s),
            stream=True,
        )

    def _session(self, request: Request) -> requests.Session:
        """The session for this kind of request. Nothing on this machine may redirect a request, or a secret,
        elsewhere.

        Requests to this machine use no proxy.
        """
        is_far = not is_loopback(request.url)
        follows = is_far and not request.secret
        kind = f"far {is_far}, follows {follows}"
        make = partial(timed_session, follows_redirects=follows, trusts_environment=is_far)
        return self._sessions.get(kind, make)

    def body(self, request: Request, response: requests.Response) -> bytes:
        """The whole body. Errors: `SlowAnswerError` where it is too large: ask for less."""
        parts, size, policy = [], 0, self._policy
        for part in body_parts(response, _CHUNK):
            parts.append(part)
            size += len(part)
            if size > policy.largest_answer:
                raise SlowAnswerError(
                    f"{request.service.name} at {short(request.url)}: answered with more than "
                    f"{policy.largest_answer:,} bytes; the rest was not read"
                )
        return b"".join(parts)

    def _user_agent(self) -> str:
        contact = os.environ.get(self._contact_env, "").strip().encode("ascii", "backslashreplace").decode()
        return f"longtail/{own_version()} ({printable(contact) or 'local'}) requests/{requests.__version__}"
