"""Lake table `grounded_generations`: every question under every grounding prompt, by each grounding method (SPEC §9)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from longtail.generation.backends.base import Generation
from longtail.generation.engine.task import Generate, ModelInput, Plan, Sample, Scope, Task
from longtail.generation.prompts.build import (
    long_form_prompt,
    one_step_prompt,
    reference_parts,
    second_step_prompt,
    split_answer,
)
from longtail.generation.prompts.endings import END
from longtail.generation.prompts.inputs import records
from longtail.generation.tasks.grounded_answers import (
    Asked,
    assembly_of,
    content_of_questions,
    decisive_methods,
    has_first_step,
    plan_questions,
    request_of,
    steps_of,
    turns_of,
)
from longtail.generation.tasks.imported import import_generations
from longtail.generation.tasks.questions import storable, text_of
from longtail.prompt_formats import GROUNDING_PROMPTS, NULL
from longtail.scoring.match import hotpot_f1, is_exact_match, kilt_rouge_l, rouge_l, token_f1
from longtail.storage.lake import Outcome
from longtail.study.imports import EXACT_MATCH, F1, ROUGE_L
from longtail.study.models import Model
from longtail.study.study import Study


@dataclass(frozen=True, slots=True)
class GroundedQuestion:
    """A question under a grounding prompt. `answer`: that of the first step, None where there is one step."""

    asked: Asked
    grounding_prompt: str
    end_task: str
    request: Generate | Sample
    is_small: bool
    turns: str
    assembly: str
    answer: str | None = None

    def key(self, part: int) -> dict[str, Any]:
        """Dataset, question, method and grounding prompt."""
        return self.asked.key() | {"grounding_prompt": self.grounding_prompt}

    def prompt(self) -> ModelInput:
        """For a long answer, for an explanation of the first step's answer, or for answer and explanation."""
        return self.asked.input(self._prompt(), self.turns)

    def _prompt(self) -> str:
        text, name, how = self.asked.question.question, self.grounding_prompt, self.assembly
        if self.end_task == ROUGE_L:
            return long_form_prompt(text, name, how, is_small=self.is_small)
        if self.answer is None:
            return one_step_prompt(text, name, how)
        return second_step_prompt(text, self.answer, name, how)


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
            *content_of_questions(scope),
            *([scope.lake.content(before, scope.model.name)] if before else []),
        ]

    def source_table(self, scope: Scope) -> str | None:
        return "grounded_answers" if _has_first_step(scope) else None

    def decisive(self, scope: Scope) -> Mapping[str, Any]:
        how = assembly_of(scope)
        return {
            "datasets": [
                [dataset.name, scope.study.end_task_of(dataset)] for dataset in scope.study.grounded_datasets
            ],
            "methods": decisive_methods(scope),
            "seed": scope.study.seed,
            "prompts": [
                [name, GROUNDING_PROMPTS[name].behind(how)] for name in scope.study.grounding_prompts
            ],
            "steps": steps_of(scope.study, scope.model.name),
            "turns": turns_of(scope),
            "texts": [
                one_step_prompt("{question}", NULL, how),
                second_step_prompt("{question}", "{answer}", NULL, how),
                long_form_prompt("{question}", NULL, how, is_small=True),
            ],
            "max_new_tokens": _request(scope).max_new_tokens,
        }

    def plan(self, scope: Scope) -> Plan[GroundedQuestion]:
        """Ordered by dataset, method, grounding prompt (both as in the study) and question_id.

        A question whose first step failed is left out: the quarantine of grounded_answers has it.
        """
        asked, n_without = plan_questions(scope, scope.study.grounded_datasets)
        return Plan(list(_items(scope, asked)), n_without * len(scope.study.grounding_prompts))

    def row(self, model: Model, item: GroundedQuestion, part: int, result: Generation) -> Mapping[str, Any]:
        golds = item.asked.question.gold_answers
        text = storable(text_of(result, model))
        return _columns(item.grounding_prompt, item.end_task, golds, item.answer, text)

    def import_rows(self, scope: Scope, run_id: str) -> Outcome:
        """The rows of table imported_answers under grounding prompts: answer and explanation in one text."""
        end_tasks = {
            dataset.name: scope.study.end_task_of(dataset) for dataset in scope.study.grounded_datasets
        }

        def columns(row: Mapping[str, Any], golds: Sequence[str]) -> dict[str, Any]:
            name = row["prompt"]
            return {"method": row["method"], "grounding_prompt": name} | _columns(
                name, end_tasks[row["dataset"]], golds, None, row["text"]
            )

        return import_generations(scope, run_id, columns, [end_tasks, self.code_version()])


def _items(scope: Scope, asked: Sequence[Asked]) -> Iterator[GroundedQuestion]:
    study, request, turns, how = scope.study, _request(scope), turns_of(scope), assembly_of(scope)
    first = _first_answers(scope) if _has_first_step(scope) else {}
    is_small = steps_of(study, scope.model.name) == 2
    end_tasks = {dataset.name: study.end_task_of(dataset) for dataset in study.grounded_datasets}
    for (dataset, _), group in itertools.groupby(
        asked, key=lambda question: (question.dataset, question.method)
    ):
        together, end_task = list(group), end_tasks[dataset]
        needs_answer = is_small and end_task != ROUGE_L
        for name, question in itertools.product(study.grounding_prompts, together):
            answer = first.get(tuple(question.key().values()))
            if answer is not None or not needs_answer:
                yield GroundedQuestion(question, name, end_task, request, is_small, turns, how, answer)


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


def _request(scope: Scope) -> Generate | Sample:
    return request_of(scope, scope.study.grounding.max_new_tokens if scope.study.grounding else 0, END)


def _has_first_step(scope: Scope) -> bool:
    return has_first_step(scope.study, scope.model.name)


def _first_answers(scope: Scope) -> dict[tuple[str, ...], str]:
    """From (dataset, question_id, method) to the answer of the first step."""
    columns = ["dataset", "question_id", "method", "answer"]
    rows = records(scope.lake.read("grounded_answers", scope.model.name, columns))
    return {(row["dataset"], row["question_id"], row["method"]): row["answer"] for row in rows}
