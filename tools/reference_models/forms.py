"""The forms of a question to a reference model.

The platform's own prompts (SPEC §3) are in `longtail.generation.prompts`; their forms are among these.
"""

from __future__ import annotations

import random

from longtail.relations.paraphrases import HELD_OUT, PARAPHRASES
from longtail.relations.relation import OBJECT, SUBJECT, Relation

FORMS = ("qa", "question", "bare", "cloze", "lower_qa", "lower_bare")
_SHARES = (0.60, 0.14, 0.07, 0.10, 0.06, 0.03)
BACKGROUND = "Generate a background document from Wikipedia to answer the given question. "


def fill(form: str, relation: Relation, template: str, subject: str, answer: str) -> tuple[str, str]:
    """(prompt, continuation): the continuation starts with a space and holds the answer."""
    question = template.replace(SUBJECT, subject)
    if form == "qa":
        return f"Q: {question} A:", f" {answer}"
    if form == "question":
        return f"Question: {question}\nAnswer:", f" {answer}"
    if form == "bare":
        return question, f" {answer}"
    if form == "cloze":
        before = relation.statement.split(OBJECT)[0].rstrip().replace(SUBJECT, subject)
        return before, f" {answer}."
    if form == "lower_qa":
        return f"Q: {question.lower()} A:", f" {answer}"
    return question.lower(), f" {answer}"


def draw_form(rng: random.Random) -> str:
    return rng.choices(FORMS, _SHARES)[0]


def draw_template(rng: random.Random, relation: Relation) -> str:
    """The relation's own template two times in three, else one of its paraphrases except the held-out one."""
    if rng.random() < 0.65:
        return relation.template
    held_out = HELD_OUT[relation.name]
    known = [text for place, text in enumerate(PARAPHRASES[relation.name]) if place != held_out]
    return rng.choice(known)
