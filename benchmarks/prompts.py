"""Prompts of the generation benchmark: the sandbox's questions and PopQA's, bare or after 15 demonstrations."""

from __future__ import annotations

import csv
import gzip
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longtail.generation.backends.base import Decoding
from longtail.generation.engine.task import ModelInput, Request
from longtail.generation.prompts.build import Demonstrations, Question, build_prompt
from longtail.prompt_formats import FORMATS
from longtail.relations.relation import SUBJECT, relation_set
from longtail.sandbox.world import World
from longtail.study.prompts import Prompt

SHOTS = 15
_REQUEST = Request(Decoding(15))


def sandbox_questions(n_per_relation: int = 140) -> list[Question]:
    """16 × `n_per_relation` questions of a sandbox world, in the order of relations, no two with the same wording.

    Namesakes make equal questions, and Longtail computes these once. This would be unfair here, so they are left out.
    """
    world = World(0, 2 * n_per_relation)
    found: dict[str, dict[str, Question]] = {}
    for fact in world.facts():
        question = Question(
            question_id=f"{fact.subject_id}-{fact.relation.property_id}",
            relation=fact.relation.name,
            question=fact.relation.question(world.label_of(fact.subject_id)),
            answer=world.entity(fact.object_ids[0]).label,
        )
        found.setdefault(fact.relation.name, {}).setdefault(question.question, question)
    return [question for own in found.values() for question in list(own.values())[:n_per_relation]]


def popqa_questions(file: Path) -> list[Question]:
    """All questions of PopQA's file, in the order of relations, as a study asks them."""
    with gzip.open(file, "rt", encoding="utf-8", newline="") as rows:
        found = [
            Question(row["id"], row["prop"], row["question"], row["obj"])
            for row in csv.DictReader(rows, dialect="excel-tab")
        ]
    return sorted(found, key=lambda one: one.relation or "")


def fifteen_shot(questions: list[Question], draw: str, pool: list[Question] | None = None) -> list[str]:
    """The prompt of each question with 15 demonstrations of `pool` (the questions themselves), drawn `per_relation` or
    `per_question`."""
    demonstrations = Demonstrations("sandbox", pool or questions, seed=0)
    prompt = Prompt(name="15_shot", shots=SHOTS, draw=draw)
    return [build_prompt(one, FORMATS[prompt.format], demonstrations.draw(one, prompt)) for one in questions]


def zero_shot(questions: list[Question]) -> list[str]:
    """The prompt of each question alone."""
    return [build_prompt(one, FORMATS["qa"]) for one in questions]


@dataclass(frozen=True, slots=True)
class StreamedPrompt:
    """An item whose prompt is built when it is asked for, as the items of a partition's plan are."""

    wording: str
    shown: tuple[Question, ...]
    request: Request = _REQUEST

    def prompt(self) -> ModelInput:
        """The 15-shot prompt."""
        return ModelInput(build_prompt(Question("", "", self.wording, ""), FORMATS["qa"], self.shown))

    def key(self, part: int) -> dict[str, Any]:
        """No lake row is made of it."""
        return {}


def paraphrased_prompts(n: int) -> list[StreamedPrompt]:
    """`n` prompts with 15 shots: the questions of a larger world in all their wordings."""
    n_wordings = sum(1 + len(relation.wordings) for relation in relation_set("popqa"))
    world = World(0, max(8, n // n_wordings + 1))
    pool = Demonstrations("sandbox", sandbox_questions(), seed=0)
    prompt = Prompt(name="15_shot", shots=SHOTS, draw="per_relation")
    found = [
        StreamedPrompt(template.replace(SUBJECT, world.label_of(fact.subject_id)), pool.draw(asked, prompt))
        for fact in world.facts()
        for asked in (Question("", fact.relation.name, "", ""),)
        for template in (fact.relation.template, *fact.relation.wordings)
    ]
    return found[:n]


def candidates(n: int) -> list[str]:
    """`n` distinct answers to questions of one relation, each with its leading space."""
    world = World(0, 4 * n)
    found = {
        world.entity(object_id).label
        for fact in world.facts()
        if fact.relation.name == "capital"
        for object_id in fact.object_ids
    }
    return [f" {label}" for label in sorted(found)[:n]]
