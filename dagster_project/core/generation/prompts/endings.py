"""Where a generated text ends, and what of it is kept: SPEC §3.

What belongs here: the ends that a decoding may have, and cutting a text at one. What does not: what a sentence is
(`scoring.sentences`), and stopping a model there (`backends`).
"""

from __future__ import annotations

from dagster_project.core.scoring.sentences import first_sentence, has_final_sentence

FIRST_LINE = "first_line"
SENTENCE = "sentence"
END = "end"
ENDS = (FIRST_LINE, SENTENCE, END)
"""Where a decoding may stop: after the first line, after that line's first sentence, or where the model itself ends."""
_BLANK_LINE = "\n\n"


def cut_answer(raw_text: str) -> str:
    """The first line of a generation, after one empty line if it begins with one (SPEC §3)."""
    return kept_text(raw_text, FIRST_LINE)


def kept_text(raw_text: str, end: str) -> str:
    """The part of a generation that is kept where its decoding stops at `end`."""
    return raw_text[slice(*kept_part(raw_text, end))]


def kept_part(raw_text: str, end: str) -> tuple[int, int]:
    """Where that part starts and stops, in characters."""
    if end == END:
        return 0, len(raw_text)
    start = len(_BLANK_LINE) if raw_text.startswith(_BLANK_LINE) else 0
    line = raw_text[start:].split("\n", maxsplit=1)[0]
    return start, start + len(first_sentence(line) if end == SENTENCE else line)


def is_complete(raw_text: str, end: str) -> bool:
    """Whether no further token can change what `kept_text` keeps."""
    if end == END:
        return False
    if raw_text != "\n" and "\n" in raw_text.removeprefix(_BLANK_LINE):
        return True
    return end == SENTENCE and has_final_sentence(cut_answer(raw_text))
