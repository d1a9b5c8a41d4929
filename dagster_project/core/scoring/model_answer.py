"""What came back from a model: an answer, a declined one, or none (SPEC §12), by one rule for files, logs and services.

Failed: no text came back, so there is no row in any rate (`NoAnswerError`, counted by its reason). Declined: the model
or its service refused, or the model said that it does not know. Reasoning is no part of an answer.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from dataclasses import dataclass

THINKING_CUT = "cut while thinking"
NO_TEXT = "no text came back"
LIMIT_BEFORE_TEXT = "the limit of new tokens was reached before the answer began"

_THINKING = re.compile(
    r"<(?P<tag>think|thinking|thought|reasoning)>.*?(?:</(?P=tag)>|(?P<cut>\Z))"
    r"|\[THINK\].*?(?:\[/THINK\]|(?P<cut_square>\Z))"
    r"|◁think▷.*?(?:◁/think▷|(?P<cut_kimi>\Z))"
    r"|<\|channel\|>analysis<\|message\|>.*?(?:<\|end\|>|(?P<cut_channel>\Z))",
    re.DOTALL | re.IGNORECASE,
)
_CLOSED_ONLY = re.compile(
    r"\A.*?(?:</(?:think|thinking|thought|reasoning)>|\[/THINK\]|◁/think▷)", re.DOTALL | re.IGNORECASE
)
_FINAL_CHANNEL = re.compile(r"(?:<\|start\|>assistant)?<\|channel\|>final<\|message\|>|<\|return\|>")
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

    `text`: what was written, None or NaN where nothing was; a list of one text is that text. `reasoning`: the text of a
    field apart. Errors: `NoAnswerError` with the reason where there is no answer; `ValueError` where `text` is no text.
    """
    if isinstance(text, list) and len(text) == 1:
        text = text[0]
    if isinstance(text, float) and math.isnan(text):
        text = None
    if text is not None and not isinstance(text, str):
        raise ValueError(f"a text was expected, not {str(text)[:40]!r}")
    if finish_reason == "content_filter" or (refusal and not text):
        return ModelAnswer(text or refusal or "", reasoning or "", is_declined=True)
    written, inner = split_reasoning(text or "")
    thoughts = "\n".join(filter(None, (reasoning, inner)))
    if finish_reason == "length" and not written.strip():
        raise NoAnswerError(THINKING_CUT if thoughts else LIMIT_BEFORE_TEXT)
    if text is None:
        raise NoAnswerError(
            NO_TEXT if finish_reason in (None, "stop") else f"{NO_TEXT} (finish reason {finish_reason})"
        )
    return ModelAnswer(written, thoughts)


def split_reasoning(text: str) -> tuple[str, str]:
    """The text without what stands between marks of thinking, and that. A lone closing mark ends thoughts from the start.

    Text without marks stays as it is, character by character. Errors: `NoAnswerError` where the last thought does not end.
    """
    thoughts: list[str] = []
    for found in _THINKING.finditer(text):
        if any(found[name] is not None for name in ("cut", "cut_square", "cut_kimi", "cut_channel")):
            raise NoAnswerError(THINKING_CUT)
        thoughts.append(found[0])
    if thoughts:
        text = _THINKING.sub("", text).lstrip()
    elif closed := _CLOSED_ONLY.match(text):
        thoughts.append(closed[0])
        text = text[closed.end() :].lstrip()
    return _FINAL_CHANNEL.sub("", text), "\n".join(thoughts)


def is_declined(prediction: str, phrases: Collection[str]) -> bool:
    """Whether the whole answer is one of the phrases by which a model declines; case and end marks do not count."""
    return bool(phrases) and _plain(prediction) in {_plain(phrase) for phrase in phrases}


def _plain(text: str) -> str:
    return " ".join(text.strip(_END_MARKS).casefold().replace("’", "'").split())
