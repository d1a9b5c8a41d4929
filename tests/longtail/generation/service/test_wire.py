"""What goes over the wire, both ways; the stop sequence proved by trying all short texts."""

from __future__ import annotations

import dataclasses
import itertools
import json
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from served import GREEDY, WARM, service_model

from longtail import sandbox
from longtail.generation.backends.service.wire import (
    STOP,
    Again,
    Answer,
    Answered,
    Choice,
    ErrorBody,
    Fatal,
    Interpreter,
    MalformedError,
    Post,
    Redactor,
    Refused,
    Reply,
    idempotency_key,
    read_answer,
    read_error,
)
from longtail.generation.prompts.endings import FIRST_LINE, SENTENCE, cut_answer
from longtail.generation.tasks.questions import answer_decoding
from longtail.study.models import Model, Service

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["choices", "index", "text", "message", "content", "usage", "prompt_tokens", "completion_tokens",
             "prompt_tokens_details", "cached_tokens", "finish_reason", "error", "code", "reasoning", "refusal",
             "thinking", "reasoning_details", "completion_tokens_details", "reasoning_tokens", "total_tokens",
             "model", "type"]
        ),
        inner,
        max_size=5,
    ),
    max_leaves=25,
)  # fmt: skip
SHORT_TEXTS = ["".join(letters) for n in range(8) for letters in itertools.product("\naQ", repeat=n)]


def _stopped(text: str, stop: str) -> str:
    """What a server returns: everything before the first place where the stop stands."""
    return text.split(stop)[0]


def test_the_stop_never_changes_the_kept_answer() -> None:
    assert all(cut_answer(_stopped(text, STOP)) == cut_answer(text) for text in SHORT_TEXTS)


@given(st.text(max_size=60))
@settings(max_examples=300)
def test_no_tokeniser_makes_more_tokens_than_the_bound(text: str) -> None:
    folder = Path(str(sandbox.__path__[0])) / "weights" / "s"
    tokeniser = _tokeniser(str(folder / "tokenizer.json"))
    assert len(tokeniser.encode(text).ids) <= Post(text, GREEDY).most_prompt_tokens("completions")


_LOADED: dict[str, tokenizers.Tokenizer] = {}


def _tokeniser(path: str) -> tokenizers.Tokenizer:
    if path not in _LOADED:
        _LOADED[path] = tokenizers.Tokenizer.from_file(path)
    return _LOADED[path]


@given(st.text(), st.integers(1, 20), st.integers(0, 2**80))
def test_a_body_is_ascii_and_means_the_prompt(prompt: str, n: int, seed: int) -> None:
    body = Post(prompt + "\ud800", WARM, n, seed).body("m", "chat")
    read = json.loads(body.decode("ascii"))
    assert read["messages"] == [{"role": "user", "content": prompt + "\ud800"}]
    assert 0 <= read["seed"] < 2**31
    assert (read["n"], read["temperature"], read["top_p"]) == (n, 0.5, 1)
    assert "seed" not in json.loads(Post(prompt, GREEDY).body("m", "completions"))


def test_a_request_sent_again_has_the_same_key_and_no_other_has_it() -> None:
    body, url = Post("a", GREEDY).body("m", "completions"), "http://x/v1/completions"
    key = idempotency_key("row\n1", url, body)
    assert key == idempotency_key("row\n1", url, body)
    assert len(key) == 64
    assert key.isalnum()
    others = {
        idempotency_key("row\n2", url, body),
        idempotency_key("row\n1", f"{url}x", body),
        idempotency_key("row\n1", url, Post("b", GREEDY).body("m", "completions")),
    }
    assert len(others | {key}) == 4


@given(JSON, st.sampled_from(["completions", "chat"]))
@settings(max_examples=500)
def test_any_json_is_an_answer_an_error_or_malformed(document: Any, api: str) -> None:
    try:
        answer = read_answer(json.dumps(document).encode(), api)
    except MalformedError:
        return
    assert isinstance(answer, Answer | ErrorBody)
    if isinstance(answer, Answer):
        assert answer.choices
        assert all(isinstance(choice.text, str | None) for choice in answer.choices)
        assert answer.cached_tokens <= (answer.prompt_tokens or 0)


@pytest.mark.parametrize(
    "number", ["1" + "0" * 400, str(2**63), str(2**31), "-1", "1e999", "NaN", "true", '"7"']
)
def test_a_count_of_tokens_that_no_request_has_is_none(number: str) -> None:
    """A bill of them is no number of any column."""
    usage = f'{{"prompt_tokens": {number}, "completion_tokens": {number}, "total_tokens": 3}}'
    answer = read_answer(f'{{"choices": [{{"text": "a"}}], "usage": {usage}}}'.encode(), "completions")
    assert isinstance(answer, Answer)
    assert (answer.prompt_tokens, answer.new_tokens, answer.cached_tokens) == (None, None, 0)


@pytest.mark.parametrize(
    ("choice", "api", "expected"),
    [
        ({"text": "a", "finish_reason": "stop"}, "completions", Choice("a", "stop")),
        ({"text": "", "finish_reason": "length"}, "completions", Choice("", "length")),
        ({"text": None}, "completions", Choice(None)),
        ({"message": {"content": "b", "refusal": None, "reasoning_content": ""}}, "chat", Choice("b")),
        ({"message": {"content": [{"type": "text", "text": "b"}, {"text": "c"}, 3]}}, "chat", Choice("bc")),
        ({"message": {"content": []}}, "chat", Choice(None)),
        ({"message": {"content": None, "refusal": "No."}}, "chat", Choice(None, refusal="No.")),
        (
            {"message": {"content": [{"type": "refusal", "refusal": "No."}]}},
            "chat",
            Choice(None, refusal="No."),
        ),
        # llama.cpp, LM Studio, DeepSeek; vLLM; OpenRouter; Mistral
        ({"message": {"content": "b", "reasoning_content": "h"}}, "chat", Choice("b", reasoning="h")),
        ({"message": {"content": "b", "reasoning": "h"}}, "chat", Choice("b", reasoning="h")),
        (
            {"message": {"reasoning": "h"}, "finish_reason": "length"},
            "chat",
            Choice(None, "length", reasoning="h"),
        ),
        (
            {
                "message": {
                    "content": "b",
                    "reasoning_details": [{"type": "reasoning.text", "text": "h"}, {"summary": "i"}],
                }
            },
            "chat",
            Choice("b", reasoning="hi"),
        ),
        (
            {
                "message": {
                    "content": [
                        {"type": "thinking", "thinking": [{"type": "text", "text": "h"}]},
                        {"text": "b"},
                    ]
                }
            },
            "chat",
            Choice("b", reasoning="h"),
        ),
    ],
)
def test_choices(choice: dict[str, Any], api: str, expected: Choice) -> None:
    answer = read_answer(json.dumps({"choices": [choice]}).encode(), api)
    assert isinstance(answer, Answer)
    assert answer.choices == (expected,)
    assert (answer.prompt_tokens, answer.new_tokens, answer.cached_tokens) == (None, None, 0)


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"completion_tokens": 9}, (9, None)),
        ({"completion_tokens": 9, "total_tokens": 12}, (9, None)),
        ({"completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 0}}, (9, None)),
        (
            {
                "completion_tokens": 9,
                "total_tokens": 12,
                "completion_tokens_details": {"reasoning_tokens": 7},
            },
            (9, 7),
        ),
        # xAI and Gemini leave reasoning out of completion_tokens, and bill it
        (
            {
                "completion_tokens": 2,
                "total_tokens": 12,
                "completion_tokens_details": {"reasoning_tokens": 7},
            },
            (9, 7),
        ),
        ({"completion_tokens": 2, "total_tokens": 12}, (9, 7)),
        ({"completion_tokens": 2, "completion_tokens_details": {"reasoning_tokens": 7}}, (9, 7)),
        ({"completion_tokens_details": {"reasoning_tokens": 7}}, (None, None)),
    ],
)
def test_all_billed_tokens_count_and_reasoning_among_them(
    usage: dict[str, Any], expected: tuple[int | None, int | None]
) -> None:
    document = {"choices": [{"text": "a"}], "usage": {"prompt_tokens": 3, **usage}}
    answer = read_answer(json.dumps(document).encode(), "completions")
    assert isinstance(answer, Answer)
    assert (answer.new_tokens, answer.reasoning_tokens) == expected


@pytest.mark.parametrize(
    ("document", "wrong"),
    [
        ({"choices": [{"message": {"content": "b"}}]}, "without text"),
        ({"choices": [{"text": 3}]}, "is no text"),
        ({"choices": [{"text": "a", "finish_reason": "error"}]}, "ended by an error"),
        ({"choices": ["a"]}, "no object"),
        ({"choices": []}, "without choices"),
        ([1], "no object"),
    ],
)
def test_a_malformed_reply_says_what_it_is(document: Any, wrong: str) -> None:
    with pytest.raises(MalformedError, match=wrong):
        read_answer(json.dumps(document).encode(), "completions")


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"error": {"message": "m", "code": "c"}}, ErrorBody("m", "c")),
        ({"error": "m"}, ErrorBody("m")),
        ({"object": "error", "message": "m", "code": 404}, ErrorBody("m", 404)),
        ({"detail": [{"msg": "field"}]}, ErrorBody("[{'msg': 'field'}]")),
        ({"fine": 1}, None),
        ({"error": 3}, None),
    ],
)
def test_errors_of_several_servers(document: Any, expected: ErrorBody | None) -> None:
    assert read_error(json.dumps(document).encode()) == expected


def test_an_error_in_place_of_a_choice_is_read_as_one() -> None:
    choice = {"message": {"content": ""}, "finish_reason": "error", "error": {"message": "m", "code": 502}}
    assert read_answer(json.dumps({"choices": [choice]}).encode(), "chat") == ErrorBody("m", 502)


def test_an_order_is_taken_only_from_indexes_that_give_one() -> None:
    def texts(*indexes: object) -> list[str]:
        choices = [{"text": str(i), "index": index} for i, index in enumerate(indexes)]
        answer = read_answer(json.dumps({"choices": choices}).encode(), "completions")
        assert isinstance(answer, Answer)
        return [choice.text for choice in answer.choices]

    assert texts(2, 0, 1) == ["1", "2", "0"]
    assert texts(1, 0, None) == ["0", "1", "2"]
    assert texts(1, 1, 0) == ["0", "1", "2"]


@given(st.lists(st.text(max_size=20), min_size=1, max_size=12), st.integers(0, 500))
def test_tokens_are_spread_whole_and_by_length(texts: list[str], total: int) -> None:
    counts = Answer(tuple(map(Choice, texts)), None, None, 0).tokens_by_choice(total)
    assert sum(counts) == total
    sizes = [len(text.encode()) + 1 for text in texts]
    for count, size in zip(counts, sizes, strict=True):
        assert abs(count - total * size / sum(sizes)) < 1


def test_paid_answers_of_a_rambling_model_keep_their_key_unless_confidence_is_asked_for() -> None:
    rambling = Model("paid", "m", "openai", rambles=True, service=Service("http://127.0.0.1"))
    measured = dataclasses.replace(rambling, service=Service("http://127.0.0.1", log_probabilities=True))
    local = dataclasses.replace(rambling, backend="transformers", service=None)
    ends = [answer_decoding(model, 15).end for model in (rambling, measured, local)]
    assert ends == [FIRST_LINE, SENTENCE, SENTENCE]


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


def test_a_redirect_without_an_address_is_reported_too() -> None:
    meaning = _meaning(302, b"", {"Location": "http://[::1"})
    assert isinstance(meaning, Fatal)
    assert "redirects to another address" in meaning.what


def test_messages_are_redacted_before_they_are_cut() -> None:
    body = json.dumps({"error": {"message": "x" * 150 + " sk-secret-key " + "y" * 500}}).encode()
    refused = _meaning(400, body)
    assert "sk-sec" not in refused.what
    assert len(refused.what) < 190
