"""Lake table `grounded_answers`: the short answers of models that are asked for answer and explanation in two steps."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from longtail.generation.backends.base import Generation
from longtail.generation.engine.task import Generate, ModelInput, Plan, Sample, Scope, Task
from longtail.generation.prompts.build import Passage, Question, block, first_step_prompt
from longtail.generation.prompts.endings import FIRST_LINE, cut_text
from longtail.generation.prompts.inputs import read_first_passages, read_questions
from longtail.generation.tasks.questions import end_of, storable, text_of
from longtail.prompt_formats import FORMATS, PAPER, REFERENCE
from longtail.study.datasets import Dataset
from longtail.study.imports import ROUGE_L
from longtail.study.models import Model
from longtail.study.prompts import PROMPT_PLACE
from longtail.study.study import Study

REFERENCE_TEMPERATURE = 0.3


@dataclass(frozen=True, slots=True)
class Asked:
    """A question by one method, with its passage: blank where it is asked from memory."""

    dataset: str
    method: str
    question: Question
    passage: str

    def key(self) -> dict[str, Any]:
        """Dataset, question and method."""
        return {
            "dataset": self.dataset,
            "question_id": self.question.question_id,
            "method": self.method,
        }

    def input(self, prompt: str, turns: str) -> ModelInput:
        """What the model reads: its passage and the prompt, in the turns of its chat template if the study gives any."""
        return ModelInput(turns.replace(PROMPT_PLACE, block(FORMATS["question"], prompt, self.passage)))


@dataclass(frozen=True, slots=True)
class FirstStep:
    """A question that is asked for its answer alone."""

    asked: Asked
    request: Generate | Sample
    turns: str
    assembly: str

    def key(self, part: int) -> dict[str, Any]:
        """Dataset, question and method."""
        return self.asked.key()

    def prompt(self) -> ModelInput:
        """The question in the prompt of the first step."""
        return self.asked.input(first_step_prompt(self.asked.question.question, self.assembly), self.turns)


class GroundedAnswers(Task):
    """Empty for models that are asked in one step. A question without a passage of the method gets no row."""

    table = "grounded_answers"
    keys = ("dataset", "question_id", "method")

    def is_asked(self, study: Study) -> bool:
        return any(has_first_step(study, model.name) for model in study.models)

    def inputs(self, scope: Scope) -> list[str]:
        return content_of_questions(scope)

    def decisive(self, scope: Scope) -> Mapping[str, Any]:
        return {
            "datasets": [dataset.name for dataset in _of_two_steps(scope)],
            "methods": decisive_methods(scope),
            "seed": scope.study.seed,
            "max_new_tokens": scope.study.max_new_tokens,
            "prompt": first_step_prompt("{question}", assembly_of(scope)),
            "turns": turns_of(scope),
        }

    def plan(self, scope: Scope) -> Plan[FirstStep]:
        """Ordered by dataset, method (as in the study) and question_id."""
        request = request_of(scope, scope.study.max_new_tokens, FIRST_LINE)
        asked, n_without = plan_questions(scope, _of_two_steps(scope))
        return Plan(
            [FirstStep(question, request, turns_of(scope), assembly_of(scope)) for question in asked],
            n_without,
        )

    def row(self, model: Model, item: FirstStep, part: int, result: Generation) -> Mapping[str, Any]:
        text = storable(text_of(result, model))
        return {"raw_text": storable(result.raw_text), "answer": cut_text(text, FIRST_LINE).strip()}


def has_first_step(study: Study, model: str) -> bool:
    """Whether a model is asked for short answers first: it needs two steps, and some questions want short answers."""
    has_short = any(wants_short_answers(study, dataset) for dataset in study.grounded_datasets)
    return steps_of(study, model) == 2 and has_short


def steps_of(study: Study, model: str) -> int:
    """In how many steps a model is asked for a short answer and its explanation."""
    return study.grounding.steps_of(model) if study.grounding else 1


def turns_of(scope: Scope) -> str:
    """The text around the model's prompts."""
    return scope.study.grounding.turns_of(scope.model.name) if scope.study.grounding else PROMPT_PLACE


def assembly_of(scope: Scope) -> str:
    """How the study puts question and grounding prompt together."""
    return scope.study.grounding.assembly if scope.study.grounding else PAPER


def request_of(scope: Scope, max_new_tokens: int, end: str) -> Generate | Sample:
    """One greedy text; the authors' code draws the texts of services at a temperature."""
    max_new_tokens, end = max_new_tokens + scope.model.thinking_tokens, end_of(scope.model, end)
    if assembly_of(scope) == REFERENCE and scope.model.service is not None:
        return Sample(1, REFERENCE_TEMPERATURE, max_new_tokens, (scope.study.seed,), end)
    return Generate(max_new_tokens, end)


def wants_short_answers(study: Study, dataset: Dataset) -> bool:
    """Whether its questions are asked for an answer and an explanation; others get one long answer."""
    return study.end_task_of(dataset) != ROUGE_L


def plan_questions(scope: Scope, datasets: Iterable[Dataset]) -> tuple[list[Asked], int]:
    """The questions of datasets by each grounding method, ordered by dataset, method and question_id; and how many
    have no passage of a method."""
    questions = read_questions(scope.study, scope.lake)
    passages_of = {method: _passages(scope, method) for method in _methods(scope)}
    asked: list[Asked] = []
    n_without = 0
    for dataset, (method, passages) in itertools.product(datasets, passages_of.items()):
        by_question = None if passages is None else passages.get(dataset.name, {})
        for question in questions.get(dataset.name, ()):
            if by_question is None:
                asked.append(Asked(dataset.name, method, question, ""))
            elif question.question_id in by_question:
                asked.append(Asked(dataset.name, method, question, by_question[question.question_id].text))
            else:
                n_without += 1
    return asked, n_without


def content_of_questions(scope: Scope) -> list[str]:
    """Content hashes of the lake tables that `plan_questions` reads."""
    retrievers = [method for method in _methods(scope) if not scope.study.method(method).is_parametric]
    content = scope.lake.content
    passages = [content("cited_passages")] if retrievers else []
    return [content("questions"), *(content("retrieved_passages", name) for name in retrievers), *passages]


def decisive_methods(scope: Scope) -> list[list[Any]]:
    """Each grounding method, and whether it cuts its passages."""
    return [[name, scope.study.method(name).cuts_last_sentence] for name in _methods(scope)]


def _methods(scope: Scope) -> tuple[str, ...]:
    return scope.study.grounding.methods if scope.study.grounding else ()


def _passages(scope: Scope, method: str) -> Mapping[str, Mapping[str, Passage]] | None:
    """Dataset → question_id → the method's passage; None from memory."""
    record = scope.study.method(method)
    return None if record.is_parametric else read_first_passages(scope.lake, record)


def _of_two_steps(scope: Scope) -> Iterator[Dataset]:
    if steps_of(scope.study, scope.model.name) == 2:
        yield from (
            dataset for dataset in scope.study.grounded_datasets if wants_short_answers(scope.study, dataset)
        )
