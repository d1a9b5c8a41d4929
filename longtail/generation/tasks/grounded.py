"""Lake tables of grounding (SPEC §9): every question under every grounding prompt, by each grounding method.

`grounded_answers` has the short answers of models that are asked for answer and explanation in two steps;
`grounded_generations` has the texts, whose explanation or long answer is compared with a data portrait.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from longtail.generation.backends.base import Generation
from longtail.generation.engine.task import Generate, ModelInput, Plan, Sample, Scope, Task
from longtail.generation.prompts.build import (
    Question,
    block,
    first_step_prompt,
    long_form_prompt,
    one_step_prompt,
    reference_parts,
    second_step_prompt,
    split_answer,
)
from longtail.generation.prompts.endings import END, FIRST_LINE, cut_text
from longtail.generation.prompts.inputs import first_passages, read_passages, read_questions, records
from longtail.generation.tasks.imported import import_generations
from longtail.generation.tasks.questions import storable, text_of, text_request
from longtail.prompt_formats import FORMATS, GROUNDING_PROMPTS, NULL, REFERENCE
from longtail.scoring.match import hotpot_f1, is_exact_match, kilt_rouge_l, rouge_l, token_f1
from longtail.storage.lake import Outcome
from longtail.study.datasets import Dataset
from longtail.study.imports import EXACT_MATCH, F1, ROUGE_L
from longtail.study.models import Model
from longtail.study.prompts import PROMPT_PLACE, Grounding
from longtail.study.study import Study

_REFERENCE_TEMPERATURE = 0.3


@dataclass(frozen=True, slots=True)
class GroundedItem:
    """A question by one method, with its passage: blank where it is asked from memory. `turns`: the text around the
    model's prompts, by its chat template if the study gives any."""

    dataset: str
    method: str
    question: Question
    passage: str
    request: Generate | Sample
    turns: str
    assembly: str

    def key(self, part: int) -> dict[str, Any]:
        """Dataset, question and method."""
        return {"dataset": self.dataset, "question_id": self.question.question_id, "method": self.method}

    def prompt(self) -> ModelInput:
        """The passage, then the text that asks."""
        return ModelInput(
            self.turns.replace(PROMPT_PLACE, block(FORMATS["question"], self.text(), self.passage))
        )

    def text(self) -> str:
        """The prompt of the first step: for the answer alone."""
        return first_step_prompt(self.question.question, self.assembly)


@dataclass(frozen=True, slots=True)
class GroundedQuestion(GroundedItem):
    """A question under a grounding prompt. `answer`: that of the first step, None where there is one step."""

    grounding_prompt: str
    end_task: str
    is_small: bool
    answer: str | None = None

    def key(self, part: int) -> dict[str, Any]:
        """Dataset, question, method and grounding prompt."""
        return GroundedItem.key(self, part) | {"grounding_prompt": self.grounding_prompt}

    def text(self) -> str:
        """For a long answer, for an explanation of the first step's answer, or for answer and explanation."""
        question, name, how = self.question.question, self.grounding_prompt, self.assembly
        if self.end_task == ROUGE_L:
            return long_form_prompt(question, name, how, is_small=self.is_small)
        if self.answer is None:
            return one_step_prompt(question, name, how)
        return second_step_prompt(question, self.answer, name, how)


class GroundedAnswers(Task):
    """Empty for models that are asked in one step. A question without a passage of the method gets no row."""

    table = "grounded_answers"
    keys = ("dataset", "question_id", "method")

    def is_asked(self, study: Study) -> bool:
        return any(_first_step_datasets(study, model) for model in study.models)

    def inputs(self, scope: Scope) -> list[str]:
        return _content_of_questions(scope)

    def decisive(self, scope: Scope) -> Mapping[str, Any]:
        grounding = _grounding(scope)
        return {
            "datasets": [dataset.name for dataset in _first_step_datasets(scope.study, scope.model)],
            "methods": _decisive_methods(scope),
            "seed": scope.study.seed,
            "max_new_tokens": scope.study.max_new_tokens,
            "prompt": first_step_prompt("{question}", grounding.assembly),
            "turns": grounding.turns_of(scope.model.name),
        }

    def plan(self, scope: Scope) -> Plan[GroundedItem]:
        """Ordered by dataset, method (as in the study) and question_id."""
        datasets = _first_step_datasets(scope.study, scope.model)
        return Plan(*_plan_questions(scope, datasets, scope.study.max_new_tokens, FIRST_LINE))

    def row(self, model: Model, item: GroundedItem, part: int, result: Generation) -> Mapping[str, Any]:
        text = storable(text_of(result, model))
        return {"raw_text": storable(result.raw_text), "answer": cut_text(text, FIRST_LINE).strip()}


class GroundedGenerations(Task):
    """Without a grounding prompt the table is empty. The texts end where the model ends them. A question without a
    passage of the method gets no row and is counted."""

    table = "grounded_generations"
    keys = ("dataset", "question_id", "method", "grounding_prompt")

    def is_asked(self, study: Study) -> bool:
        return bool(study.grounding_prompts)

    def inputs(self, scope: Scope) -> list[str]:
        before = self.source_table(scope)
        return [
            *_content_of_questions(scope),
            *([scope.lake.content(before, scope.model.name)] if before else []),
        ]

    def source_table(self, scope: Scope) -> str | None:
        return "grounded_answers" if _first_step_datasets(scope.study, scope.model) else None

    def decisive(self, scope: Scope) -> Mapping[str, Any]:
        grounding = _grounding(scope)
        how = grounding.assembly
        return {
            "datasets": [[name, end_task] for name, end_task in _end_tasks(scope.study).items()],
            "methods": _decisive_methods(scope),
            "seed": scope.study.seed,
            "prompts": [
                [name, GROUNDING_PROMPTS[name].behind(how)] for name in scope.study.grounding_prompts
            ],
            "steps": grounding.steps_of(scope.model.name),
            "turns": grounding.turns_of(scope.model.name),
            "texts": [
                one_step_prompt("{question}", NULL, how),
                second_step_prompt("{question}", "{answer}", NULL, how),
                long_form_prompt("{question}", NULL, how, is_small=True),
            ],
            "max_new_tokens": _request(scope, grounding.max_new_tokens, END).max_new_tokens,
        }

    def plan(self, scope: Scope) -> Plan[GroundedQuestion]:
        """Ordered by dataset, method, grounding prompt (both as in the study) and question_id.

        A question whose first step failed is left out: the quarantine of grounded_answers has it.
        """
        study, n_new = scope.study, _grounding(scope).max_new_tokens
        questions, n_without = _plan_questions(scope, study.grounded_datasets, n_new, END)
        return Plan(list(_items(scope, questions)), n_without * len(study.grounding_prompts))

    def row(self, model: Model, item: GroundedQuestion, part: int, result: Generation) -> Mapping[str, Any]:
        golds = item.question.gold_answers
        text = storable(text_of(result, model))
        return _columns(item.grounding_prompt, item.end_task, golds, item.answer, text)

    def import_rows(self, scope: Scope, run_id: str) -> Outcome:
        """The rows of table imported_answers under grounding prompts: answer and explanation in one text."""
        end_tasks = _end_tasks(scope.study)

        def columns(row: Mapping[str, Any], golds: Sequence[str]) -> dict[str, Any]:
            name = row["prompt"]
            return {"method": row["method"], "grounding_prompt": name} | _columns(
                name, end_tasks[row["dataset"]], golds, None, row["text"]
            )

        return import_generations(scope, run_id, columns, [end_tasks, self.code_version()])


def _items(scope: Scope, questions: Sequence[GroundedItem]) -> Iterator[GroundedQuestion]:
    study = scope.study
    first = _first_answers(scope) if _first_step_datasets(study, scope.model) else {}
    is_small = _grounding(scope).steps_of(scope.model.name) == 2
    end_tasks = _end_tasks(study)
    for (dataset, _), group in itertools.groupby(
        questions, key=lambda question: (question.dataset, question.method)
    ):
        together, end_task = list(group), end_tasks[dataset]
        needs_answer = is_small and end_task != ROUGE_L
        for name, question in itertools.product(study.grounding_prompts, together):
            answer = first.get(tuple(question.key(0).values()))
            if answer is not None or not needs_answer:
                shared = {field: getattr(question, field) for field in GroundedItem.__slots__}
                yield GroundedQuestion(
                    **shared, grounding_prompt=name, end_task=end_task, is_small=is_small, answer=answer
                )


def _end_tasks(study: Study) -> dict[str, str]:
    return {dataset.name: study.end_task_of(dataset) for dataset in study.grounded_datasets}


def _columns(
    grounding_prompt: str, end_task: str, golds: Sequence[str], first_answer: str | None, text: str
) -> dict[str, Any]:
    """What a text decides; `first_answer`: that of the first step, None where there is one step."""
    answer: str | None = first_answer
    explanation: str | None = text
    if end_task == ROUGE_L:
        answer = None
    elif first_answer is None:
        answer, explanation = split_answer(text)
    return {
        "grounding_kind": GROUNDING_PROMPTS[grounding_prompt].kind,
        "steps": 1 if first_answer is None else 2,
        "generation": text,
        "answer": answer,
        "explanation": explanation,  # None where it cannot be told apart
        "is_parsed": explanation is not None,
        **_scores(end_task, golds, (explanation if answer is None else answer) or ""),
        **_by_reference(end_task, golds, text if first_answer is None else f"{first_answer};{text}"),
    }


def _scores(end_task: str, golds: Sequence[str], text: str) -> dict[str, float]:
    """The one score by which the dataset is judged (SPEC §9)."""
    if end_task == ROUGE_L:
        return {ROUGE_L: rouge_l(text, golds)}
    if end_task == F1:
        return {F1: hotpot_f1(text, golds)}
    return {EXACT_MATCH: float(is_exact_match(text, golds))}


def _by_reference(end_task: str, golds: Sequence[str], text: str) -> dict[str, Any]:
    """Explanation and score as the authors' code has them. `text`: two steps are joined by a semicolon."""
    if end_task == ROUGE_L:
        return {"reference_explanation": text, "kilt_score": kilt_rouge_l(text, golds)}
    answer, explanation = reference_parts(text)
    score = token_f1(answer, golds) if end_task == F1 else float(is_exact_match(answer, golds))
    return {"reference_explanation": explanation, "kilt_score": score}


def _first_answers(scope: Scope) -> dict[tuple[str, ...], str]:
    """From (dataset, question_id, method) to the answer of the first step."""
    columns = ["dataset", "question_id", "method", "answer"]
    rows = records(scope.lake.read("grounded_answers", scope.model.name, columns))
    return {(row["dataset"], row["question_id"], row["method"]): row["answer"] for row in rows}


def _grounding(scope: Scope) -> Grounding:
    """That of the study; without any, no dataset and no prompt is asked."""
    return scope.study.grounding or Grounding()


def _first_step_datasets(study: Study, model: Model) -> list[Dataset]:
    """The datasets whose questions a model is asked for short answers first, as it needs two steps."""
    if study.grounding is None or study.grounding.steps_of(model.name) != 2:
        return []
    return [dataset for dataset in study.grounded_datasets if study.end_task_of(dataset) != ROUGE_L]


def _request(scope: Scope, max_new_tokens: int, end: str) -> Generate | Sample:
    """One greedy text; the authors' code draws the texts of services at a temperature."""
    greedy = text_request(scope.model, max_new_tokens, end)
    if _grounding(scope).assembly == REFERENCE and scope.model.service is not None:
        seeded_by = (scope.study.seed,)
        return Sample(1, _REFERENCE_TEMPERATURE, greedy.max_new_tokens, seeded_by, greedy.end)
    return greedy


def _plan_questions(
    scope: Scope, datasets: Iterable[Dataset], max_new_tokens: int, end: str
) -> tuple[list[GroundedItem], int]:
    """The questions of datasets by each grounding method, ordered by dataset, method and question_id; and how many
    have no passage of a method."""
    grounding, request = _grounding(scope), _request(scope, max_new_tokens, end)
    questions = read_questions(scope.study, scope.lake)
    records_of = [scope.study.method(name) for name in grounding.methods]
    passages_of = {
        method.name: None if method.is_parametric else first_passages(read_passages(scope.lake, method, 0))
        for method in records_of
    }
    items: list[GroundedItem] = []
    n_without = 0
    for dataset, (method, passages) in itertools.product(datasets, passages_of.items()):
        by_question = None if passages is None else passages.get(dataset.name, {})
        for question in questions.get(dataset.name, ()):
            if by_question is not None and question.question_id not in by_question:
                n_without += 1
                continue
            passage = "" if by_question is None else by_question[question.question_id].text
            turns = grounding.turns_of(scope.model.name)
            items.append(
                GroundedItem(dataset.name, method, question, passage, request, turns, grounding.assembly)
            )
    return items, n_without


def _content_of_questions(scope: Scope) -> list[str]:
    """Content hashes of the lake tables that `_plan_questions` reads."""
    methods = [scope.study.method(name) for name in _grounding(scope).methods]
    retrievers = [method.name for method in methods if not method.is_parametric]
    content = scope.lake.content
    passages = [content("cited_passages")] if retrievers else []
    return [content("questions"), *(content("retrieved_passages", name) for name in retrievers), *passages]


def _decisive_methods(scope: Scope) -> list[list[Any]]:
    """Each grounding method, and whether it cuts its passages."""
    return [[name, scope.study.method(name).cuts_last_sentence] for name in _grounding(scope).methods]
