"""One request over HTTP: the key, keep-alive, time-outs, and what came back or did not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import requests
import urllib3
from requests.auth import AuthBase

from longtail.generation.backends.service.redaction import Redactor
from longtail.transfer.http import (
    Clock,
    OverdueError,
    RetryPolicy,
    Sessions,
    body_parts,
    deadline,
    is_loopback,
    longtail_version,
    open_session,
)

_CHUNK_BYTES = 1024
_HANDSHAKE = (
    "CERTIFICATE_VERIFY_FAILED",
    "WRONG_VERSION_NUMBER",
    "RECORD_LAYER_FAILURE",
    "record layer failure",
)
"""The TLS errors that come before anything is sent."""
_UNSENT = (
    requests.ConnectTimeout,
    requests.exceptions.ProxyError,
    requests.exceptions.InvalidURL,
    requests.exceptions.InvalidSchema,
    requests.exceptions.MissingSchema,
    urllib3.exceptions.LocationValueError,
)
"""No connection, or no address at all."""


@dataclass(frozen=True)
class Reply:
    """An HTTP answer, whatever its status, and how long the request took, in seconds. `is_cut`: it was longer than any
    answer to the request may be, and the rest was not read."""

    status: int
    headers: Mapping[str, str]
    content: bytes = field(repr=False)
    seconds: float
    is_cut: bool = False


@dataclass(frozen=True)
class Lost:
    """No answer. `may_be_billed`: the request may have reached the server."""

    what: str
    may_be_billed: bool


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

    def post(self, body: bytes, idempotency_key: str, most_bytes: int) -> Reply | Lost:
        """Send once, and read up to `most_bytes`.

        No error of `requests` leaves this method, as such errors carry the request with its key.
        """
        try:
            with deadline(self._policy.answer_s):
                return self._post(body, idempotency_key, most_bytes)
        except OverdueError as error:
            return Lost(f"no whole answer in time ({error})", may_be_billed=True)
        except requests.Timeout as error:
            return Lost(f"no answer in time ({type(error).__name__})", _may_have_arrived(error))
        except (
            OSError,
            urllib3.exceptions.HTTPError,
        ) as error:  # OSError: also a file of certificates not found
            return Lost(f"no answer ({self._reason(error)})", _may_have_arrived(error))

    def _post(self, body: bytes, idempotency_key: str, most_bytes: int) -> Reply:
        started = self._clock.monotonic()
        sent = self._sessions.get("service", self._session).post(
            self.url,
            data=body,
            headers={"Content-Type": "application/json", "Idempotency-Key": idempotency_key},
            timeout=(self._policy.connect_s, self._policy.read_s),
            stream=True,
        )
        with sent as response:
            content = bytearray()
            for chunk in body_parts(response, _CHUNK_BYTES):
                content += chunk
                if len(content) > most_bytes:
                    break
            seconds = self._clock.monotonic() - started
            whole, is_cut = bytes(content[:most_bytes]), len(content) > most_bytes
            return Reply(response.status_code, response.headers, whole, seconds, is_cut)

    def _session(self) -> requests.Session:
        session = open_session(
            follows_redirects=False,  # a redirect could lead the key to another host
            trusts_environment=not is_loopback(self.url),  # no proxy between this machine and itself
        )
        session.auth = self._auth
        session.headers["User-Agent"] = f"longtail/{longtail_version()} requests/{requests.__version__}"
        return session

    def _reason(self, error: Exception) -> str:
        cause = getattr(error.args[0], "reason", error.args[0]) if error.args else error
        return self._redactor.message(f"{type(error).__name__}: {cause}")


def _may_have_arrived(error: Exception) -> bool:
    """Whether the request may have been sent; only where it was not is it certain that nothing is billed."""
    cause = getattr(error.args[0], "reason", None) if error.args else None
    unmet = (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError)
    is_handshake = isinstance(error, requests.exceptions.SSLError) and any(
        s in str(error) for s in _HANDSHAKE
    )
    if isinstance(cause, unmet) or isinstance(error, _UNSENT) or is_handshake:
        return False
    return isinstance(error, requests.RequestException | urllib3.exceptions.HTTPError)
