"""What each reply means."""

from __future__ import annotations

import json
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st
from served import service_model

from longtail.generation.backends.service.wire import (
    Again,
    Answered,
    Fatal,
    Interpreter,
    Lost,
    Redactor,
    Refused,
    Reply,
)

GOOD = b'{"choices": [{"text": "a"}]}'


def _meaning(status: int, content: bytes = b"", headers: dict[str, str] | None = None, now: float = 0.0):
    model = service_model("https://x.example/v1", api_key_env="KEY")
    assert model.service is not None
    interpreter = Interpreter(model, model.service, Redactor("sk-secret-key"))
    return interpreter.meaning(Reply(status, headers or {}, content, 0.1), now)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        *((s, Refused) for s in (400, 413, 414, 422, 431)),
        *((s, Again) for s in (408, 409, 425, 429, 500, 502, 503, 504, 520, 529)),
        *((s, Fatal) for s in (204, 301, 302, 307, 308, 401, 402, 403, 404, 405, 407, 410, 418)),
    ],
)
def test_statuses(status: int, kind: type) -> None:
    meaning = _meaning(status, b"no")
    assert type(meaning) is kind
    assert f"answered {status} (no)" in meaning.what


def test_only_gateways_leave_open_whether_it_was_billed() -> None:
    maybe = {s for s in (408, 409, 425, 429, 500, 501, 502, 503, 504, 522, 529) if _meaning(s).may_be_billed}
    assert maybe == {408, 502, 504, 522}
    assert _meaning(200, b"<html>").may_be_billed


@given(st.integers(100, 599), st.binary(max_size=50))
def test_any_status_with_any_body_has_a_meaning(status: int, content: bytes) -> None:
    meaning = _meaning(status, content)
    assert isinstance(meaning, Answered | Again | Refused | Fatal)
    assert status == 200 or "\n" not in meaning.what


def test_a_replayed_answer_is_known_by_its_header() -> None:
    assert not _meaning(200, GOOD).is_replayed
    assert _meaning(200, GOOD, {"Idempotent-Replayed": "True"}).is_replayed


@given(st.integers(0, 10**9), st.integers(1, 10**4), st.integers(0, 2 * 10**9))
def test_dates_are_read_by_the_servers_clock(server_now: int, ahead: int, our_now: int) -> None:
    headers = {
        "Date": formatdate(server_now, usegmt=True),
        "Retry-After": formatdate(server_now + ahead, usegmt=True),
    }
    assert _meaning(429, b"", headers, now=our_now).wait_s == ahead
    assert _meaning(503, b"", {"Retry-After": str(ahead)}, now=our_now).wait_s == ahead
    assert _meaning(503, b"", {"Retry-After": "soon"}, now=our_now).wait_s is None
    assert _meaning(429, b"", {"Retry-After": "0"}).wait_s is None


def test_an_error_in_a_good_status_is_read_as_its_own() -> None:
    def of(code: object) -> object:
        return _meaning(200, json.dumps({"error": {"message": "m", "code": code}}).encode())

    assert isinstance(of(401), Fatal)
    assert isinstance(of(400), Refused)
    assert of(429) == Again("answered 429 (m)", False, None, is_busy=True)
    assert isinstance(of("odd"), Again)
    assert isinstance(of("model_not_found"), Fatal)


@pytest.mark.parametrize("code", ["unsupported_parameter", "model_not_found", "invalid_api_key"])
def test_codes_that_concern_all_rows(code: str) -> None:
    assert isinstance(_meaning(400, json.dumps({"error": {"message": "m", "code": code}}).encode()), Fatal)


def test_lost_requests() -> None:
    model = service_model("https://x.example/v1")
    assert model.service is not None
    interpreter = Interpreter(model, model.service, Redactor(None))
    assert interpreter.meaning(Lost("gone", True), 0.0) == Again("gone", True)
    assert interpreter.meaning(Lost("never there", False), 0.0) == Again("never there", False, is_unmet=True)


def test_a_redirect_without_an_address_is_reported_too() -> None:
    meaning = _meaning(302, b"", {"Location": "http://[::1"})
    assert isinstance(meaning, Fatal)
    assert "redirects to another address" in meaning.what


def test_messages_are_redacted_before_they_are_cut() -> None:
    body = json.dumps({"error": {"message": "x" * 150 + " sk-secret-key " + "y" * 500}}).encode()
    refused = _meaning(400, body)
    assert "sk-sec" not in refused.what
    assert len(refused.what) < 190
