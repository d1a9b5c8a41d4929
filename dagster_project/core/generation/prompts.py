"""From a question to a prompt, and from a generation to an answer: SPEC §3.

What belongs here: formats, passages before questions, the cut of an answer. What does not: which
demonstrations are drawn (`demonstrations`), and which passage was retrieved (`retrieval`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dagster_project.core.errors import LongtailError
from dagster_project.core.retrieval.base import VERBALISED

FORMATS = {
    "qa": "Q: {question} A:",
    "question_answer": "Question: {question}\nAnswer:",
    "question": "{question}",
}
_BLANK_LINE = "\n\n"
_CUT_METHODS = frozenset({"dense"})
"""Retrievers whose passages, broken after about 100 words, lose their last, usually broken, sentence."""


@dataclass(frozen=True)
class Question:
    """What a prompt needs of a question; `answer`, its first object's label, is for demonstrations."""

    question_id: str
    relation: str
    question: str
    answer: str


@dataclass(frozen=True)
class Passage:
    """The passage that stands before a question; `source` as in lake table `passages`."""

    passage_id: str
    text: str
    source: str


@dataclass(frozen=True)
class BuiltPrompt:
    """A prompt's text, and what went into it."""

    text: str
    demonstration_ids: tuple[str, ...]
    demonstration_passage_ids: tuple[str | None, ...]
    passage_id: str | None


def build_prompt(
    question: Question,
    format_name: str,
    method: str,
    demonstrations: Sequence[Question] = (),
    passages: Mapping[str, Passage] | None = None,
) -> BuiltPrompt:
    """The prompt for a question.

    `passages` maps question ids to passages of `method`'s retriever (None for closed_book). Demonstrations
    carry their own; one without a passage stands bare. The question itself must have one.
    """
    found = passages or {}
    blocks = []
    for shown in demonstrations:
        block = _block(shown.question, format_name, method, found.get(shown.question_id))
        blocks.append(f"{block} {shown.answer}")
    own = found.get(question.question_id)
    if passages is not None and own is None:
        raise LongtailError(f"question {question.question_id} has no passage of {method}: it cannot be asked")
    blocks.append(_block(question.question, format_name, method, own))
    return BuiltPrompt(
        text=_BLANK_LINE.join(blocks),
        demonstration_ids=tuple(shown.question_id for shown in demonstrations),
        demonstration_passage_ids=tuple(
            found[shown.question_id].passage_id if shown.question_id in found else None
            for shown in demonstrations
        ),
        passage_id=own.passage_id if own else None,
    )


def bare_prompt(question: str, format_name: str) -> str:
    """The closed-book, zero-shot prompt for any wording of a question."""
    return FORMATS[format_name].format(question=question)


def passage_text(passage: Passage, method: str) -> str:
    """A passage as the model reads it: `dense` ones lose their last piece, unless nothing would be left.

    Chosen: verbalised triples stay whole for every retriever. SPEC §3 cuts because articles are broken after
    about 100 words; a verbalised passage is whole sentences, and its last one is a fact, not a fragment.
    """
    text = passage.text
    if method not in _CUT_METHODS or passage.source == VERBALISED:
        return text
    kept = ". ".join(text.split(". ")[:-1])
    return f"{kept}." if kept.strip() else text


def cut_answer(raw_text: str) -> str:
    """The answer in a generation: one leading empty line stripped, the first line kept (SPEC §3)."""
    return raw_text.removeprefix(_BLANK_LINE).split("\n", maxsplit=1)[0]


def is_answer_complete(raw_text: str) -> bool:
    """No further token can change what `cut_answer` keeps."""
    return raw_text != "\n" and "\n" in raw_text.removeprefix(_BLANK_LINE)


def prompt_hash(text: str) -> str:
    """SHA-256 of the exact prompt, as hexadecimal digits; lone surrogates count too."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _block(question: str, format_name: str, method: str, passage: Passage | None) -> str:
    bare = bare_prompt(question, format_name)
    return f"{passage_text(passage, method)}{_BLANK_LINE}{bare}" if passage else bare
