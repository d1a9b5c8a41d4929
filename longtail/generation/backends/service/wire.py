"""What goes over the wire: the JSON of a request, and what an answer's JSON says, as far as it can be relied on.

The one stop sequence sent is two empty lines, and none where a decoding goes on to the model's own end, or where the
model first thinks: reasoning has empty lines of its own. SPEC §3 keeps
the first line after at most one leading empty line. A server cuts a text before the first stop in it. A stop of one line
break would end "\\n\\nParis" before its first character, and so would an empty line. "\\nQ:" would end "\\n\\nQ: …" after
a single line break, and so remove what SPEC keeps. A stop that begins with anything but a line break would be missing
from the answer itself. Three line breaks are safe: before them stands either a whole line, or nothing, and then the kept
answer is empty in both cases. So a server writes on after the answer's line, up to `max_new_tokens`, and bills it: that
is the price of the answer that SPEC defines.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from longtail.generation.backends.base import Decoding
from longtail.generation.prompts.endings import AFTER_THINKING, END
from longtail.scoring.confidence import Token, read_tokens

STOP = "\n\n\n"
PATHS = {"completions": "/completions", "chat": "/chat/completions"}
_SPECIAL_TOKENS = {"completions": 8, "chat": 256}
"""Tokens that a server may add to a prompt: begin and end, and for `chat` its template with a default system text."""
_SEED_RANGE = 2**31
"""Servers differ in how long a seed may be; all take 31 bits."""
_MOST_TOKENS = 2**31
"""A request has fewer. The count of a broken server must fit into a column too."""
LONGEST_TOKEN = 128
"""Characters of the longest tokens in use (runs of blanks)."""
_BYTES_PER_TOKEN = {False: 1024, True: 4096}
"""Bytes of an answer's JSON for one token, without and with log-probabilities: about ten times the usual ones."""
_BYTES_AROUND = 2**18
_MOST_BYTES = 2**26
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
        """No tokeniser in use makes more tokens of the prompt than this.

        A token stands for at least one byte, of the text or of the form to which the tokeniser normalises it.
        """
        composed, decomposed = (
            unicodedata.normalize("NFKC", self.prompt),
            unicodedata.normalize("NFKD", self.prompt),
        )
        forms = (self.prompt, composed, decomposed)
        return max(len(form.encode("utf-8", "surrogatepass")) for form in forms) + _SPECIAL_TOKENS[api]

    def most_bytes(self, body: bytes) -> int:
        """No answer to this request, sent as `body`, is longer: some servers send the prompt back."""
        per_token = _BYTES_PER_TOKEN[self.log_probabilities and self.seed is None]
        tokens = self.n * self.decoding.max_new_tokens
        return min(_MOST_BYTES, _BYTES_AROUND + 2 * len(body) + tokens * per_token)


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
