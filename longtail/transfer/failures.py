"""What can come back instead of an answer: recognised, and put into words."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote, quote_plus

import requests

from longtail.errors import SourceError
from longtail.transfer.http import OverdueError, retry_after_seconds, snippet

_SHORTEST_TELLING = 6  # characters: a shorter part of a secret does not reveal it
_BAN = re.compile(r"\b(banned|blocked)\b", re.IGNORECASE)
_TIME_LIMIT = ("timeoutexception", "timed out", "timeout", "time limit")


class SlowAnswerError(SourceError):
    """The service stopped a query, or did not answer in time: ask for less at once."""


class RefusedRequestError(SourceError):
    """The service refuses this request with `status` (4xx): another attempt would fail in the same way."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Failure:
    """What came back instead of an answer.

    `wait_s`: the pause that the service asks for; `is_refused`: the status is 429; `is_banned`: the service refuses
    this operator.
    """

    what: str
    is_slow: bool = False
    wait_s: float | None = None
    is_refused: bool = False
    is_banned: bool = False


def catch_failure(attempt: Callable[[], Any], secret: str | None = None) -> Any:
    """The attempt's result, or a `Failure` for a lost connection or a time-out.

    `secret` is removed from the message of a failure, since a service may repeat it.
    """
    try:
        outcome = attempt()
    except requests.Timeout as error:
        is_slow = isinstance(error, requests.ReadTimeout)
        reason = str(error) if isinstance(error, OverdueError) else type(error).__name__
        outcome = Failure(f"did not answer in time ({reason})", is_slow)
    except requests.RequestException as error:
        # A read time-out inside a body comes as a ConnectionError.
        outcome = Failure(f"could not be reached ({_reason(error)})", "Read timed out" in str(error))
    except SourceError as error:
        error.args = (hide(str(error), secret),)
        raise error from None
    return replace(outcome, what=hide(outcome.what, secret)) if isinstance(outcome, Failure) else outcome


def hide(text: str, secret: str | None) -> str:
    """`text` without `secret`, plain or quoted, and without the beginning of a secret that was cut off."""
    for form in {secret, quote(secret), quote_plus(secret), quote(secret, safe="")} if secret else ():
        for length in range(len(form), min(len(form), _SHORTEST_TELLING) - 1, -1):
            text = text.replace(form[:length], "…")
    return text


def refusal(response: requests.Response, content: bytes, now: float) -> Failure | None:
    """A failure worth another attempt (429, 5xx), or a ban (403); None for a good answer. `now` is in Unix seconds.

    Errors: `RefusedRequestError` where another attempt is useless.
    """
    status = response.status_code
    if status == 200:
        return None
    body = content[:4096].decode("utf-8", "replace")
    what = f"answered {status} ({snippet(body)})" if body.strip() else f"answered {status}"
    wait_s = retry_after_seconds(response.headers.get("Retry-After"), now)
    if status == 403 and (wait_s is not None or _BAN.search(body)):
        return Failure(what, wait_s=wait_s, is_banned=True)
    if status == 429 or status >= 500:
        is_slow = status == 504 or (status >= 500 and any(sign in body.lower() for sign in _TIME_LIMIT))
        return Failure(what, is_slow, wait_s, is_refused=status == 429)
    message = f"{short(response.url)}: {what}; trying again would not help, check the request"
    raise RefusedRequestError(message, status)


def unreadable(content_type: str, content: bytes) -> Failure:
    """The failure of an answer with status 200 that is not JSON."""
    body = content.decode("utf-8", "replace")
    if "html" in content_type or body.lstrip()[:1] == "<":
        return Failure(f"answered 200 with a web page in place of JSON ({snippet(body)})")
    # The query service starts an answer with status 200 and writes its time-out in the middle of it.
    is_slow = _TIME_LIMIT[0] in body[-8192:].lower()
    return Failure(
        f"answered 200 with broken JSON of {len(content):,} bytes (… {snippet(body[-80:])})", is_slow
    )


CONTACT = "LONGTAIL_CONTACT"
"""The variable with the operator's address."""


def missing_contact(service: str) -> str:
    """The message for an operator who has given no contact."""
    return (
        f"{service}: Wikimedia asks every operator for a contact; set the environment variable {CONTACT} "
        "to an e-mail address or a web page, then run again (nothing was requested)"
    )


def short(url: str) -> str:
    return url if len(url) <= 200 else f"{url[:200]}…"


def _reason(error: Exception) -> str:
    cause = getattr(error.args[0], "reason", error.args[0]) if error.args else error
    return f"{type(error).__name__}: {snippet(str(cause))}"
