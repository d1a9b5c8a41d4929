"""What came back from a model: an answer, a declined one, or none (SPEC §12), by one rule for files, logs and services.

Failed: no text came back, so there is no row in any rate (`NoAnswerError`, counted by its reason). Declined: the model
or its service refused, or the model said that it does not know. Reasoning is no part of an answer.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

THINKING_CUT = "cut while thinking"
NO_TEXT = "no text came back"
LIMIT_BEFORE_TEXT = "the limit of new tokens was reached before the answer began"

_AT_LIMIT = frozenset({"length", "max_tokens", "max_output_tokens", "model_length"})
_ENDED = frozenset({"", "stop", "eos", "end_turn", "completed"})
"""Finish reasons that need not be named where no text came back."""
_TAGS = "think|thinking|thought|reasoning|seed:think"
_MARKS = (
    (rf"<(?P<tag>{_TAGS})>", r"</(?P=tag)>", rf"</(?:{_TAGS})>"),
    (r"\[THINK\]", r"\[/THINK\]", r"\[/THINK\]"),
    ("◁think▷", "◁/think▷", "◁/think▷"),
    (r"<\|START_THINKING\|>", r"<\|END_THINKING\|>", r"<\|END_THINKING\|>"),
    (r"<\|begin_of_thought\|>", r"<\|end_of_thought\|>", r"<\|end_of_thought\|>"),
    (r"<\|channel\|>(?:analysis|commentary)[^<]*<\|message\|>", r"<\|end\|>", None),
)
"""How thoughts begin and end, and which end stands alone where a chat template has written the beginning."""
_THINKING = re.compile(
    "|".join(rf"{begin}.*?(?:{end}|(?P<cut_{i}>\Z))" for i, (begin, end, _) in enumerate(_MARKS)),
    re.DOTALL | re.IGNORECASE,
)
_LONE_END = re.compile(rf"\A.*(?:{'|'.join(end for *_, end in _MARKS if end)})", re.DOTALL | re.IGNORECASE)
_AROUND_ANSWER = re.compile(
    r"(?:<\|start\|>assistant)?<\|channel\|>final(?: <\|constrain\|>\w+)?<\|message\|>|<\|return\|>"
    r"|<\|(?:START|END)_RESPONSE\|>|<\|(?:begin|end)_of_solution\|>"
)
_PARTS = {
    "text": "text", "output_text": "text", "refusal": "refusal", "thinking": "reasoning", "reasoning": "reasoning",
    "reasoning_text": "reasoning", "summary_text": "reasoning",
}  # fmt: skip
"""Kind of a part of a message → what it holds; parts of other kinds (pictures, calls of tools) are no text."""
_END_MARKS = " \t\r\n.!?…。！？'\"“”‘’"


class NoAnswerError(Exception):
    """A request has no answer. The text is the reason, in words that rows of the same kind share."""


@dataclass(frozen=True)
class ModelAnswer:
    """The text of an answer, the model's reasoning that came with it ("" without one), and whether it declined."""

    text: str
    reasoning: str = ""
    is_declined: bool = False


def read_answer_text(
    text: object,
    *,
    finish_reason: str | None = None,
    refusal: str | None = None,
    reasoning: str | None = None,
) -> ModelAnswer:
    """The answer in what a model or its service gave, with the fields of OpenAI's APIs.

    `text`: what was written, None or NaN where nothing was; a list of one text is that text, and the parts of a message
    (objects with `type`) are its text, refusal and reasoning. `reasoning`: the text of a field apart. Errors:
    `NoAnswerError` with the reason where there is no answer; `ValueError` where `text` is no text.
    """
    given, parts = _joined(text)
    refusal = refusal or parts.get("refusal")
    apart = "\n".join(filter(None, (reasoning, parts.get("reasoning"))))
    is_declined = finish_reason == "content_filter" or bool(refusal and not (given or "").strip())
    try:
        written, inner = split_reasoning(given or "")
    except NoAnswerError:
        if not is_declined:
            raise
        written, inner = "", given or ""
    thoughts = "\n".join(filter(None, (apart, inner)))
    if is_declined:
        return ModelAnswer(written if written.strip() else refusal or "", thoughts, is_declined=True)
    if finish_reason in _AT_LIMIT and not written.strip():
        raise NoAnswerError(THINKING_CUT if apart else LIMIT_BEFORE_TEXT)
    if given is None:
        named = "" if (finish_reason or "") in _ENDED else f" (finish reason {finish_reason})"
        raise NoAnswerError(f"{NO_TEXT}{named}")
    return ModelAnswer(written, thoughts)


def split_reasoning(text: str) -> tuple[str, str]:
    """The text without what stands between marks of thinking, and that. A lone closing mark ends thoughts from the start.

    Text without marks stays as it is, character by character. Errors: `NoAnswerError` where the last thought has no end.
    """
    thoughts: list[str] = []
    for thought in _THINKING.finditer(text):
        if any(thought[f"cut_{i}"] is not None for i in range(len(_MARKS))):
            raise NoAnswerError(THINKING_CUT)
        thoughts.append(thought[0])
    rest = _THINKING.sub("", text) if thoughts else text
    if closed := _LONE_END.match(rest):
        thoughts.append(closed[0])
        rest = rest[closed.end() :]
    rest = _AROUND_ANSWER.sub("", rest)
    return rest if rest == text else rest.lstrip(), "\n".join(thoughts)


def is_declined(prediction: str, phrases: Collection[str]) -> bool:
    """Whether the whole answer is one of the phrases by which a model declines; case and end marks do not count."""
    said = _plain(prediction)
    return bool(said) and said in {_plain(phrase) for phrase in phrases}


def _plain(text: str) -> str:
    composed = unicodedata.normalize("NFC", text).replace("’", "'")
    return " ".join(composed.strip(_END_MARKS).casefold().split())


def _joined(text: object) -> tuple[str | None, Mapping[str, str]]:
    """The text, None where there is none, and what a message's parts hold beside it. Errors: `ValueError`."""
    while isinstance(text, list) and len(text) == 1 and not isinstance(text[0], Mapping):
        text = text[0]
    if text is None or (isinstance(text, float) and math.isnan(text)):
        return None, {}
    if isinstance(text, str):
        return text, {}
    if not isinstance(text, list) or not all(isinstance(part, Mapping) for part in text):
        raise ValueError(f"a text was expected, not {str(text)[:40]!r}")
    found: dict[str, list[str]] = {}
    for part in text:
        kind = str(part.get("type", "text"))
        if meaning := _PARTS.get(kind):
            found.setdefault(meaning, []).append(_text_of_part(part, kind))
    joined = {meaning: "".join(pieces) for meaning, pieces in found.items()}
    return joined.pop("text", None), joined


def _text_of_part(part: Mapping[str, Any], kind: str) -> str:
    """The text under `text` or the name of the part's kind, which may hold parts in its turn."""
    value = part.get("text", part.get(kind))
    if isinstance(value, list):
        return "".join(_text_of_part(one, "text") for one in value if isinstance(one, Mapping))
    return value if isinstance(value, str) else ""
