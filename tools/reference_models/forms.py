"""The forms of a question to a reference model.

The platform's own prompts (SPEC §3) are in `longtail.generation.prompts`; their forms are among these.
"""

from __future__ import annotations

import random

from longtail.relations.relation import OBJECT, SUBJECT, Relation

FORMS = ("qa", "question", "bare", "cloze", "lower_qa", "lower_bare")
_SHARES = (0.60, 0.14, 0.07, 0.10, 0.06, 0.03)
BACKGROUND = "Generate a background document from Wikipedia to answer the given question. "


HELD_OUT: dict[str, int] = {
    "occupation": 1,
    "place of birth": 3,
    "genre": 4,
    "father": 0,
    "country": 3,
    "producer": 4,
    "director": 7,
    "capital of": 0,
    "screenwriter": 2,
    "composer": 2,
    "color": 1,
    "religion": 2,
    "sport": 2,
    "author": 1,
    "mother": 4,
    "capital": 3,
}
"""Relation of PopQA → index of the one wording that training leaves out."""


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
    known = [text for place, text in enumerate(relation.wordings) if place != held_out]
    return rng.choice(known)
