"""Lake table `grounded_answers`: the short answers of models that are asked for answer and explanation in two steps.

What belongs here: the table's task, and which questions of a study are asked under grounding prompts. What does not: the
second step, and models that are asked once (`tasks.grounded_generations`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dagster_project.core.generation.backends.base import Generation
from dagster_project.core.generation.engine.items import Generate, ModelInput
from dagster_project.core.generation.engine.task import Plan, Scope, Task
from dagster_project.core.generation.prompts.build import Question
from dagster_project.core.generation.prompts.endings import FIRST_LINE, kept_text
from dagster_project.core.generation.prompts.grounded import first_step_prompt
from dagster_project.core.generation.prompts.inputs import read_questions
from dagster_project.core.generation.tasks.rows import storable
from dagster_project.core.study.grounding import PROMPT_PLACE
from dagster_project.core.study.imports import ROUGE_L
from dagster_project.core.study.study import Dataset, Study


@dataclass(frozen=True, slots=True)
class FirstStep:
    """A question that is asked for its answer alone."""

    dataset: str
    question: Question
    request: Generate
    turns: str

    def key(self, part: int) -> dict[str, Any]:
        """Dataset and question."""
        return {"dataset": self.dataset, "question_id": self.question.question_id}

    def prompt(self) -> ModelInput:
        """The question in the prompt of the first step."""
        return in_turns(first_step_prompt(self.question.question), self.turns)


class GroundedAnswers(Task):
    """Empty for models that are asked in one step."""

    table = "grounded_answers"
    keys = ("dataset", "question_id")

    def is_asked(self, study: Study) -> bool:
        return any(has_first_step(study, model.name) for model in study.models)

    def inputs(self, scope: Scope) -> list[str]:
        return [scope.lake.content("questions")]

    def decisive(self, scope: Scope) -> Mapping[str, Any]:
        return {
            "datasets": [dataset.name for dataset in _of_two_steps(scope)],
            "seed": scope.study.seed,
            "max_new_tokens": scope.study.max_new_tokens,
            "prompt": first_step_prompt("{question}"),
            "turns": turns_of(scope),
        }

    def plan(self, scope: Scope) -> Plan[FirstStep]:
        """Ordered by dataset and question_id."""
        request = Generate(scope.study.max_new_tokens)
        questions, turns = read_questions(scope.study, scope.lake), turns_of(scope)
        return Plan([
            FirstStep(dataset.name, question, request, turns)
            for dataset in _of_two_steps(scope)
            for question in questions.get(dataset.name, ())
        ])  # fmt: skip

    def row(self, scope: Scope, item: FirstStep, part: int, result: Generation) -> Mapping[str, Any]:
        text = storable(result.text)
        return {"raw_text": text, "answer": kept_text(text, FIRST_LINE).strip()}


def has_first_step(study: Study, model: str) -> bool:
    """Whether a model is asked for short answers first: it needs two steps, and some questions want short answers."""
    return bool(steps_of(study, model) == 2 and any(map(wants_short_answers, study.grounded_datasets)))


def steps_of(study: Study, model: str) -> int:
    """In how many steps a model is asked for a short answer and its explanation."""
    return study.grounding.steps_of(model) if study.grounding else 1


def turns_of(scope: Scope) -> str:
    """The text around the model's prompts."""
    return scope.study.grounding.turns_of(scope.model.name) if scope.study.grounding else PROMPT_PLACE


def in_turns(prompt: str, turns: str) -> ModelInput:
    """What the model reads: the prompt in the turns of its chat template, if the study gives any."""
    return ModelInput(turns.replace(PROMPT_PLACE, prompt))


def wants_short_answers(dataset: Dataset) -> bool:
    """Whether its questions are asked for an answer and an explanation; others get one long answer."""
    return dataset.end_task != ROUGE_L


def _of_two_steps(scope: Scope) -> Iterator[Dataset]:
    if steps_of(scope.study, scope.model.name) == 2:
        yield from filter(wants_short_answers, scope.study.grounded_datasets)
