"""Where a generated text ends, and what of it is kept: SPEC §3. A model's reasoning is no part of it (SPEC §12)."""

from __future__ import annotations

from longtail.scoring.model_answer import NoAnswerError, first_sentence, has_final_sentence, split_reasoning

FIRST_LINE = "first_line"
SENTENCE = "sentence"
END = "end"
ENDS = (FIRST_LINE, SENTENCE, END)
"""Where a decoding may stop: after the first line, after that line's first sentence, or where the model itself ends."""
AFTER_THINKING = "after_thinking_"
"""Before one of these: the line or sentence that follows the model's reasoning, which has line breaks of its own."""
_BLANK_LINE = "\n\n"
_MARKS = ("<", "[", "◁")
"""Every mark of thinking begins with one of these."""


def cut_answer(raw_text: str) -> str:
    """The first line of a generation, after one empty line if it begins with one (SPEC §3)."""
    return cut_text(raw_text, FIRST_LINE)


def cut_text(raw_text: str, end: str) -> str:
    """The part of a generation that is kept where its decoding stops at `end`."""
    return raw_text[slice(*cut_span(raw_text, end))]


def cut_span(raw_text: str, end: str) -> tuple[int, int]:
    """Where that part starts and stops, in characters: equal where the text has no answer in one piece."""
    start = answer_start(raw_text)
    if start is None:
        return 0, 0
    end = end.removeprefix(AFTER_THINKING)
    if end == END:
        return start, len(raw_text)
    start += len(_BLANK_LINE) if raw_text.startswith(_BLANK_LINE, start) else 0
    line = raw_text[start:].split("\n", maxsplit=1)[0]
    return start, start + len(first_sentence(line) if end == SENTENCE else line)


def answer_start(raw_text: str) -> int | None:
    """Where the answer begins behind the model's reasoning: 0 without any; None while the model is still thinking, and
    where reasoning stands within the answer."""
    if not any(mark in raw_text for mark in _MARKS):
        return 0
    try:
        answer, thoughts = split_reasoning(raw_text)
    except NoAnswerError:
        return None
    if not thoughts:
        return 0
    return len(raw_text) - len(answer) if raw_text.endswith(answer) else None


def is_complete(raw_text: str, end: str) -> bool:
    """Whether no further token can change what `cut_text` keeps."""
    if end.startswith(AFTER_THINKING):
        start = answer_start(raw_text)
        return bool(start) and is_complete(raw_text[start:], end.removeprefix(AFTER_THINKING))
    if end == END:
        return False
    if raw_text != "\n" and "\n" in raw_text.removeprefix(_BLANK_LINE):
        return True
    return end == SENTENCE and has_final_sentence(cut_answer(raw_text))
