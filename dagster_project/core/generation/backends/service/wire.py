"""What goes over the wire: the JSON of a request, and what an answer's JSON says, as far as it can be relied on.

What belongs here: fields of the OpenAI-compatible APIs `completions` and `chat`, both ways; pure functions. What
does not: sending (`connection`), and which status means what (`replies`).

The one stop sequence sent is two empty lines, and none where a decoding goes on to the model's own end. SPEC §3 keeps
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

from dagster_project.core.generation.backends.base import Decoding
from dagster_project.core.generation.prompts.endings import END
from dagster_project.core.scoring.log_probabilities import Token, read_tokens

STOP = "\n\n\n"
PATHS = {"completions": "/completions", "chat": "/chat/completions"}
_SPECIAL_TOKENS = {"completions": 8, "chat": 256}
"""Tokens that a server may add to a prompt: begin and end, and for `chat` its template with a default system text."""
_SEED_RANGE = 2**31
"""Servers differ in how long a seed may be; all take 31 bits."""
_MOST_TOKENS = 2**31
"""A request has fewer. The count of a broken server must fit into a column too."""


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
        if self.decoding.end != END:
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


@dataclass(frozen=True)
class Choice:
    """One text, and its tokens where the service gives their log-probabilities. `withheld` says why there is none."""

    text: str
    withheld: str | None = None
    tokens: tuple[Token, ...] = ()


@dataclass(frozen=True)
class Answer:
    """An answer's choices in the order of their indexes, and its usage; None where the server does not say."""

    choices: tuple[Choice, ...]
    prompt_tokens: int | None
    new_tokens: int | None
    cached_tokens: int

    def tokens_by_choice(self, total: int) -> list[int]:
        """`total` new tokens spread over the choices by their length in bytes: usage tells only the sum."""
        weights = [len(choice.text.encode("utf-8", "surrogatepass")) + 1 for choice in self.choices]
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
    usage = document.get("usage")
    usage = usage if isinstance(usage, Mapping) else {}
    details = usage.get("prompt_tokens_details")
    cached = _count(details.get("cached_tokens")) if isinstance(details, Mapping) else None
    prompt_tokens = _count(usage.get("prompt_tokens"))
    return Answer(
        choices=tuple(_choice(choice, api) for choice in _in_order(choices)),
        prompt_tokens=prompt_tokens,
        new_tokens=_count(usage.get("completion_tokens")),
        cached_tokens=min(cached or 0, prompt_tokens or 0),
    )


def read_error(content: bytes) -> ErrorBody | None:
    """The error object of a body: OpenAI's form, or those of servers that put it more simply; None without one."""
    try:
        document = _document(content)
    except MalformedError:
        return None
    error = document.get("error", document)
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
    if not isinstance(holder, Mapping) or field not in holder:
        raise MalformedError(f"a choice without {'message.' if api == 'chat' else ''}{field}")
    text, reason = holder[field], choice.get("finish_reason")
    if isinstance(text, list):  # parts, as some servers write a message
        text = "".join(str(part["text"]) for part in text if isinstance(part, Mapping) and "text" in part)
    if reason == "content_filter":
        return Choice("", "the service withheld the answer (finish_reason content_filter)")
    if text is None and reason == "length":
        return Choice(
            "", "all new tokens went into something else than text (finish_reason length, text null)"
        )
    if text is not None and not isinstance(text, str):
        raise MalformedError(f"a choice whose {field} is no text")
    return Choice(text or "", tokens=read_tokens(choice))


def _count(value: object) -> int | None:
    """A number of tokens; None for any other value, and for a number that no request can have."""
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value < _MOST_TOKENS else None
