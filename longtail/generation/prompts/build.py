"""From a question to a prompt: SPEC §3.

A prompt is its blocks, joined by blank lines: the demonstrations, then the question. A block is the template with the
question in it. If the question has a passage that is not blank, the passage and a blank line stand before it. A
demonstration ends with a space and its answer. SQL rebuilds a prompt by this rule alone, so nothing here depends on
more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from longtail.methods import VERBALISED, Method

_BLANK_LINE = "\n\n"


@dataclass(frozen=True, slots=True)
class Question:
    """One question of a dataset; `answer` is for demonstrations: its first object's label, else its first gold answer."""

    question_id: str
    relation: str | None
    question: str
    answer: str
    gold_answers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage as the model reads it (`text_as_read`)."""

    passage_id: str
    text: str


@dataclass(frozen=True, slots=True)
class Passages:
    """One method's passages by question_id: before a question that is asked, and before a demonstration.

    `apart`: those that the model reads apart from the question, best first; the others are then empty.
    """

    asked: Mapping[str, Passage]
    shown: Mapping[str, Passage]
    apart: Mapping[str, Sequence[Passage]] = field(default_factory=dict)

    def of(self, question_id: str) -> Sequence[Passage]:
        """All that the model reads for a question, best first."""
        own = self.asked.get(question_id)
        return self.apart.get(question_id, ()) if own is None else (own,)


def build_prompt(
    question: Question,
    template: str,
    shown: Sequence[Question] = (),
    passages: Passages | None = None,
) -> str:
    """The prompt for a question after the demonstrations `shown`. A question without a passage appears alone."""
    blocks = []
    for demonstration in shown:
        passage = passages.shown.get(demonstration.question_id) if passages else None
        text = passage.text if passage else ""
        blocks.append(block(template, demonstration.question, text, demonstration.answer))
    own = passages.asked.get(question.question_id) if passages else None
    blocks.append(block(template, question.question, own.text if own else ""))
    return join_blocks(blocks)


def block(template: str, question: str, passage_text: str = "", answer: str | None = None) -> str:
    """A question in its template, its passage before it, its answer behind it; a blank passage is none."""
    before = "" if is_blank(passage_text) else f"{passage_text}{_BLANK_LINE}"
    behind = "" if answer is None else f" {answer}"
    return f"{before}{bare_prompt(question, template)}{behind}"


def join_blocks(blocks: Sequence[str]) -> str:
    """Blocks to a prompt."""
    return _BLANK_LINE.join(blocks)


def bare_prompt(question: str, template: str) -> str:
    """The closed-book, zero-shot prompt for any wording of a question."""
    return template.replace("{question}", question)


def text_as_read(text: str, source: str, method: Method) -> str:
    """A retrieved passage as the model reads it. Some methods cut its last piece, unless nothing would be left.

    `source` as in lake table `passages`. Chosen: verbalised triples stay whole for every retriever. SPEC §3 cuts
    because articles are broken after about 100 words; a verbalised passage is whole sentences, and its last one is
    a fact, not a fragment.
    """
    if not method.cuts_last_sentence or source == VERBALISED:
        return text
    kept = text.rpartition(". ")[0]
    return text if is_blank(kept) else f"{kept}."


def text_apart(title: str, text: str) -> str:
    """A passage as a model reads it that reads passages apart from the question (Atlas)."""
    return f"title: {title} context: {text}"


def background_passage_id(model_name: str, question_id: str) -> str:
    """passage_id of the background text that a model wrote for a question (GenRead)."""
    return f"genread:{model_name}:{question_id}"


def is_blank(text: str) -> bool:
    """Whether there is nothing but spaces (as for SQL's `trim`; other white space counts as text)."""
    return not text.strip(" ")
