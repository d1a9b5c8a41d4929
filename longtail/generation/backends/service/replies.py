"""What an HTTP answer means: an answer, a reason to ask again, a refusal of this row, or the end of the run.

- 200 with an answer: an answer. 200 with a web page or broken JSON: asked again; it may have been billed. 200 with far
  more than was asked for: the row fails, since the server would send as much again.
- 408, 409, 425, 429, 5xx: asked again. Behind a gateway (502, 504, 52x) or a 408, a server
  may have answered and billed. The other statuses say that nothing was served.
- 400, 413, 414, 422, 431: this row cannot be asked (its prompt is too long, say); the others can.
- The rest concerns every row alike (key, path, credit, redirect), and so does a 400 whose code says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from longtail.generation.backends.service.connection import Lost, Reply
from longtail.generation.backends.service.redaction import Redactor
from longtail.generation.backends.service.wire import (
    Answer,
    ErrorBody,
    MalformedError,
    read_answer,
    read_error,
)
from longtail.study.models import Model, Service
from longtail.transfer.http import retry_after_seconds, unix_seconds

_ROW_STATUSES = frozenset({400, 413, 414, 422, 431})
_AGAIN_STATUSES = frozenset({408, 409, 425, 429})
_GATEWAY_STATUSES = frozenset({408, 502, 504, *range(520, 528)})
_CODES_OF_THE_RUN = frozenset({
    "insufficient_quota", "invalid_api_key", "model_not_found", "unsupported_parameter", "unsupported_value",
    "unknown_parameter", "billing_hard_limit_reached", "account_deactivated",
})  # fmt: skip
REPLAYED = "Idempotent-Replayed"
"""The header by which servers mark the answer of an earlier request with the same key."""


@dataclass(frozen=True)
class Answered:
    """An answer; `is_replayed`: it is that of an earlier request, and billed once."""

    answer: Answer
    seconds: float
    is_replayed: bool


@dataclass(frozen=True)
class Again:
    """Worth another attempt, `wait_s` from now where the service says so.

    `is_busy`: the service wants less at once, whoever sends it. `is_unmet`: there was no connection at all.
    """

    what: str
    may_be_billed: bool
    wait_s: float | None = None
    is_busy: bool = False
    is_unmet: bool = False


@dataclass(frozen=True)
class Refused:
    """This row cannot be asked."""

    what: str
    may_be_billed: bool = False


@dataclass(frozen=True)
class Fatal:
    """No row can be asked; `what` says what to do."""

    what: str


Meaning = Answered | Again | Refused | Fatal


class Interpreter:
    """Reads the replies of one model's server."""

    def __init__(self, model: Model, service: Service, redactor: Redactor) -> None:
        self._path, self._api, self._key_env = model.path, service.api, service.api_key_env
        self._redactor = redactor

    def meaning(self, reply: Reply | Lost, now: float) -> Meaning:
        """What came back means; `now` in Unix seconds, for a Retry-After date of a server without a clock."""
        if isinstance(reply, Lost):
            return Again(reply.what, reply.may_be_billed, is_unmet=not reply.may_be_billed)
        if reply.status != 200:
            return self._error(reply, reply.status, read_error(reply.content), now)
        if reply.is_cut:
            what = f"sent more than {len(reply.content):,} bytes, far more than max_tokens allows; the rest was not read"
            return Refused(what, may_be_billed=True)
        try:
            answer = read_answer(reply.content, self._api)
        except MalformedError as error:
            return Again(f"answered 200 with {error}", may_be_billed=True)
        if isinstance(answer, Answer):
            is_replayed = reply.headers.get(REPLAYED, "").strip().lower() == "true"
            return Answered(answer, reply.seconds, is_replayed)
        status = answer.code if isinstance(answer.code, int) and 400 <= answer.code < 600 else 502
        return self._error(reply, status, answer, now)  # a router passes on an error in this way

    def _error(self, reply: Reply, status: int, error: ErrorBody | None, now: float) -> Meaning:
        message = error.message if error else reply.content[: 64 * 1024].decode("utf-8", "replace")
        said = self._redactor.message(message)
        what = f"answered {status} ({said})" if said else f"answered {status}"
        is_of_the_run = error is not None and error.code in _CODES_OF_THE_RUN
        if status in _ROW_STATUSES and not is_of_the_run:
            return Refused(what)
        if (status in _AGAIN_STATUSES or status >= 500) and not is_of_the_run:
            return Again(what, status in _GATEWAY_STATUSES, _wait_s(reply, now), is_busy=status in (429, 503))
        return Fatal(f"{what}; {self._advice(reply, status, error)}")

    def _advice(self, reply: Reply, status: int, error: ErrorBody | None) -> str:
        if status in (401, 403):
            named = f"check the key in the environment variable {self._key_env}"
            return named if self._key_env else "name the key's environment variable as service.api_key_env"
        if 300 <= status < 400:
            host = self._redactor.message(_host(reply.headers.get("Location", "")))
            return f"it redirects to {host or 'another address'}: set base_url to the final address"
        if status == 402 or (error and error.code in ("insufficient_quota", "billing_hard_limit_reached")):
            return "the account has no credit left; run again once it has: what is done stays"
        if status == 404 or (error and error.code == "model_not_found"):
            return f"check base_url, api ({self._api}) and path ({self._path})"
        return "no request like this is accepted: check base_url, api and path"


def _host(url: str) -> str:
    try:
        return urlsplit(url).netloc
    except ValueError:
        return ""


def _wait_s(reply: Reply, now: float) -> float | None:
    """The server's Retry-After, a date by the server's own clock; None where it asks for no wait."""
    server_now = unix_seconds(reply.headers.get("Date"))
    return (
        retry_after_seconds(reply.headers.get("Retry-After"), now if server_now is None else server_now)
        or None
    )
