"""What goes over the wire, what comes back, and what it means.

The one stop sequence sent is two empty lines, and none where a decoding goes on to the model's own end, or where the
model first thinks: reasoning has empty lines of its own. SPEC §3 keeps the first line after at most one leading empty
line. A server cuts a text before the first stop in it. A stop of one line break would end "\\n\\nParis" before its first
character, and so would an empty line. "\\nQ:" would end "\\n\\nQ: …" after a single line break, and so remove what SPEC
keeps. A stop that begins with anything but a line break would be missing from the answer itself. Three line breaks are
safe: before them stands either a whole line, or nothing, and then the kept answer is empty in both cases. So a server
writes on after the answer's line, up to `max_new_tokens`, and bills it: that is the price of the answer that SPEC
defines.

What a status means:

- 200 with an answer: an answer. 200 with a web page or broken JSON: asked again; it may have been billed.
- 408, 409, 425, 429, 5xx: asked again. Behind a gateway (502, 504, 52x) or a 408, a server
  may have answered and billed. The other statuses say that nothing was served.
- 400, 413, 414, 422, 431: this row cannot be asked (its prompt is too long, say); the others can.
- The rest concerns every row alike (key, path, credit, redirect), and so does a 400 whose code says so.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from longtail.generation.backends.base import Decoding
from longtail.generation.prompts.endings import AFTER_THINKING, END
from longtail.scoring.model_answer import Token, read_tokens
from longtail.study.models import Model, Service
from longtail.transfer.http import retry_after_seconds, snippet, unix_seconds

_MARK = "[key]"
_SHORTEST_SECRET = 8
"""Shorter keys are placeholders such as EMPTY, and may well be a word of an answer."""


class Redactor:
    """Replaces a key in what a server says. Its repr does not show the key."""

    def __init__(self, key: str | None) -> None:
        self._replace = (lambda text: text.replace(key, _MARK)) if key else str
        self._is_secret = key is not None and len(key) >= _SHORTEST_SECRET

    def message(self, text: str) -> str:
        """The beginning of a message for people, in one line; redacted before it is cut."""
        return snippet(self._replace(text))

    def answer(self, text: str) -> str:
        """A generated text, whole: a server that echoes its headers must not get the key into a row."""
        return self._replace(text) if self._is_secret else text


STOP = "\n\n\n"
PATHS = {"completions": "/completions", "chat": "/chat/completions"}
_SPECIAL_TOKENS = {"completions": 8, "chat": 256}
"""Tokens that a server may add to a prompt: begin and end, and for `chat` its template with a default system text."""
_SEED_RANGE = 2**31
"""Servers differ in how long a seed may be; all take 31 bits."""
_MOST_TOKENS = 2**31
"""A request has fewer. The count of a broken server must fit into a column too."""
_LONGEST_NAME = 200
_REASONING = ("reasoning_content", "reasoning", "reasoning_details")
"""Fields with a model's reasoning: of llama.cpp, LM Studio, SGLang and DeepSeek; of vLLM and OpenRouter."""
_THINKING_PARTS = ("thinking", "reasoning")
"""Types of parts of a message that are reasoning (Mistral)."""
_TEXTS_OF_PARTS = ("text", "refusal", "thinking", "reasoning", "summary")


@dataclass(frozen=True)
class Post:
    """One request's content: `n` texts for a prompt; `seed` None is greedy.

    `log_probabilities` are asked for with greedy texts alone: services differ in whether a temperature changes them.
    """

    prompt: str
    decoding: Decoding
    n: int = 1
    seed: int | None = None
    log_probabilities: bool = False

    def body(self, model_path: str, api: str) -> bytes:
        """The JSON to send; lone surrogates go as escapes."""
        fields: dict[str, Any] = {"model": model_path}
        if api == "chat":
            fields["messages"] = [{"role": "user", "content": self.prompt}]
        else:
            fields["prompt"] = self.prompt
        fields |= {"max_tokens": self.decoding.max_new_tokens, "n": self.n}
        if self.decoding.end != END and not self.decoding.end.startswith(AFTER_THINKING):
            fields["stop"] = [STOP]
        fields["top_p"] = 1
        if self.seed is None:
            fields["temperature"] = 0
            if self.log_probabilities:
                fields |= {"logprobs": True, "top_logprobs": 2} if api == "chat" else {"logprobs": 2}
        else:
            fields |= {"temperature": self.decoding.temperature, "seed": self.seed % _SEED_RANGE}
        return json.dumps(fields).encode("ascii")

    def most_prompt_tokens(self, api: str) -> int:
        """A token stands for at least one byte of the prompt."""
        return len(self.prompt.encode("utf-8", "surrogatepass")) + _SPECIAL_TOKENS[api]


@dataclass(frozen=True)
class Choice:
    """One text (None: the service gave none), and what it says beside it: why the text ends, a refusal, the reasoning of
    a field apart, and the text's tokens where it gives their log-probabilities."""

    text: str | None
    finish_reason: str | None = None
    refusal: str | None = None
    reasoning: str | None = None
    tokens: tuple[Token, ...] = ()


@dataclass(frozen=True)
class Answer:
    """An answer's choices in the order of their indexes, its usage, and the model that it names; None where the server
    does not say. `new_tokens` are all that are billed, reasoning included."""

    choices: tuple[Choice, ...]
    prompt_tokens: int | None
    new_tokens: int | None
    cached_tokens: int
    reasoning_tokens: int | None = None
    model: str | None = None

    def tokens_by_choice(self, total: int, *, are_reasoning: bool = False) -> list[int]:
        """`total` new tokens spread over the choices by their length in bytes: usage tells only the sum."""
        written = [
            (choice.reasoning or "") + ("" if are_reasoning else choice.text or "") for choice in self.choices
        ]
        weights = [len(text.encode("utf-8", "surrogatepass")) + 1 for text in written]
        marks = [total * upto // sum(weights) for upto in itertools.accumulate(weights, initial=0)]
        return [later - earlier for earlier, later in itertools.pairwise(marks)]


@dataclass(frozen=True)
class ErrorBody:
    """An error object: its message for people, its code for programs (text or number)."""

    message: str
    code: str | int | None = None


class MalformedError(Exception):
    """Not an answer; the message says what it is."""


@dataclass(frozen=True)
class Reply:
    """An HTTP answer, whatever its status, and how long the request took, in seconds."""

    status: int
    headers: Mapping[str, str]
    content: bytes = field(repr=False)
    seconds: float


def idempotency_key(name: str, url: str, body: bytes) -> str:
    """One key for one request of one row, whenever it is sent: 64 hexadecimal digits.

    The body is part of it, as servers refuse a key that comes with another body.
    """
    parts = (name.encode("utf-8", "surrogatepass"), url.encode("utf-8", "surrogatepass"), body)
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


def read_answer(content: bytes, api: str) -> Answer | ErrorBody:
    """The answer in a body of status 200, or the error that it holds instead. Errors: `MalformedError`."""
    document = _document(content)
    choices = document.get("choices")
    if not isinstance(choices, list) or not choices:
        error = read_error(content)
        if error is not None:
            return error
        raise MalformedError("JSON without choices")
    in_order = _in_order(choices)
    failed = next((choice["error"] for choice in in_order if isinstance(choice.get("error"), Mapping)), None)
    if failed is not None:  # a router passes on the error of the service behind it
        return _error_body(failed) or ErrorBody("an error without a message")
    usage = _mapping(document.get("usage"))
    cached = _count(_mapping(usage.get("prompt_tokens_details")).get("cached_tokens"))
    prompt_tokens = _count(usage.get("prompt_tokens"))
    new_tokens, reasoning_tokens = _new_tokens(usage, prompt_tokens)
    model = document.get("model")
    return Answer(
        choices=tuple(_choice(choice, api) for choice in in_order),
        prompt_tokens=prompt_tokens,
        new_tokens=new_tokens,
        cached_tokens=min(cached or 0, prompt_tokens or 0),
        reasoning_tokens=reasoning_tokens,
        model=model[:_LONGEST_NAME] if isinstance(model, str) and model else None,
    )


def _new_tokens(usage: Mapping[str, Any], prompt_tokens: int | None) -> tuple[int | None, int | None]:
    """All new tokens, and those of reasoning among them. Some services (xAI, Gemini) leave reasoning out of
    `completion_tokens`, and count it in the total alone."""
    new_tokens = _count(usage.get("completion_tokens"))
    reasoning = _count(_mapping(usage.get("completion_tokens_details")).get("reasoning_tokens"))
    total = _count(usage.get("total_tokens"))
    if new_tokens is None:
        return None, None
    beside = (
        total - (prompt_tokens or 0) - new_tokens if total is not None and prompt_tokens is not None else 0
    )
    if beside > 0 and reasoning in (None, beside):
        return new_tokens + beside, beside
    if reasoning is not None and reasoning > new_tokens:
        return new_tokens + reasoning, reasoning
    return new_tokens, reasoning or None


def read_error(content: bytes) -> ErrorBody | None:
    """The error object of a body: OpenAI's form, or those of servers that put it more simply; None without one."""
    try:
        document = _document(content)
    except MalformedError:
        return None
    return _error_body(document.get("error", document))


def _error_body(error: object) -> ErrorBody | None:
    if isinstance(error, str):
        return ErrorBody(error)
    if not isinstance(error, Mapping):
        return None
    message = error.get("message", error.get("detail"))
    if message is None:
        return None
    code = error.get("code")
    return ErrorBody(str(message), code if isinstance(code, str | int) else None)


def _document(content: bytes) -> Mapping[str, Any]:
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        kind = "a web page" if content.lstrip()[:1] == b"<" else "broken JSON"
        raise MalformedError(f"{kind} of {len(content):,} bytes") from None
    if not isinstance(document, Mapping):
        raise MalformedError("JSON that is no object")
    return document


def _in_order(choices: list[Any]) -> list[Any]:
    """By index, where all indexes differ; else as they came."""
    if not all(isinstance(choice, Mapping) for choice in choices):
        raise MalformedError("a choice that is no object")
    indexes = [choice.get("index") for choice in choices]
    if not all(_count(index) is not None for index in indexes) or len(set(indexes)) < len(indexes):
        return choices
    return sorted(choices, key=lambda choice: int(choice["index"]))


def _choice(choice: Mapping[str, Any], api: str) -> Choice:
    holder = choice.get("message") if api == "chat" else choice
    field = "content" if api == "chat" else "text"
    if not isinstance(holder, Mapping) or not any(name in holder for name in (field, "refusal", *_REASONING)):
        raise MalformedError(f"a choice without {'message.' if api == 'chat' else ''}{field}")
    text, reason = holder.get(field), choice.get("finish_reason")
    if text is not None and not isinstance(text, str | list):
        raise MalformedError(f"a choice whose {field} is no text")
    if reason == "error":
        raise MalformedError("a choice that ended by an error")
    return Choice(
        _parts(text, "text", None) if isinstance(text, list) else text,
        reason if isinstance(reason, str) else None,
        refusal=_text(holder.get("refusal")) or _parts(text, "refusal"),
        reasoning=next(filter(None, (_text(holder.get(name)) for name in _REASONING)), None)
        or _parts(text, *_THINKING_PARTS),
        tokens=read_tokens(choice),
    )


def _text(value: object) -> str | None:
    """A text, or that of a list of parts; None where it is neither, or empty."""
    return (value or None) if isinstance(value, str) else _parts(value)


def _parts(value: object, *types: str | None) -> str | None:
    """The text of those parts that are of these types (of any, without), in their order; None without any."""
    parts = value if isinstance(value, list) else []
    texts = [
        next(filter(None, (_text(part.get(name)) for name in _TEXTS_OF_PARTS)), "")
        for part in parts
        if isinstance(part, Mapping) and (not types or part.get("type") in types)
    ]
    return "".join(texts) or None


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _count(value: object) -> int | None:
    """A number of tokens; None for any other value, and for a number that no request can have."""
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value < _MOST_TOKENS else None


_ROW_STATUSES = frozenset({400, 413, 414, 422, 431})
_AGAIN_STATUSES = frozenset({408, 409, 425, 429})
_GATEWAY_STATUSES = frozenset({408, 502, 504, *range(520, 528)})
_CODES_OF_THE_RUN = frozenset({
    "insufficient_quota", "invalid_api_key", "model_not_found", "unsupported_parameter", "unsupported_value",
    "unknown_parameter", "billing_hard_limit_reached", "account_deactivated",
})  # fmt: skip


@dataclass(frozen=True)
class Answered:
    """An answer, and the seconds that its request took."""

    answer: Answer
    seconds: float


@dataclass(frozen=True)
class Again:
    """Worth another attempt, `wait_s` from now where the service says so.

    `may_be_billed`: the server may have answered. `is_busy`: the service wants less at once, whoever sends it.
    `is_unmet`: there was no connection at all.
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

    def meaning(self, reply: Reply, now: float) -> Meaning:
        """What came back means; `now` in Unix seconds, for a Retry-After date of a server without a clock."""
        if reply.status != 200:
            return self._error(reply, reply.status, read_error(reply.content), now)
        try:
            answer = read_answer(reply.content, self._api)
        except MalformedError as error:
            return Again(f"answered 200 with {error}", may_be_billed=True)
        if isinstance(answer, Answer):
            return Answered(answer, reply.seconds)
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
