"""Lake tables of grounding (SPEC §9): every question under every grounding prompt, by each grounding method.

`grounded_answers` has the short answers of models that are asked for answer and explanation in two steps;
`grounded_generations` has the texts, whose explanation or long answer is compared with a data portrait.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from longtail.generation.backends.base import Generation
from longtail.generation.engine.task import ModelInput, Plan, Request, Scope, Task
from longtail.generation.prompts.build import (
    Question,
    block,
    first_passages,
    first_step_prompt,
    long_form_prompt,
    one_step_prompt,
    read_passages,
    read_questions,
    records,
    reference_parts,
    second_step_prompt,
    split_answer,
)
from longtail.generation.prompts.endings import END, FIRST_LINE, cut_text
from longtail.generation.tasks.imported import import_generations
from longtail.generation.tasks.questions import storable, text_decoding, text_of
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
class GroundedQuestion:
    """A question by one method, with its passage: blank where it is asked from memory. `turns`: the text around the
    model's prompts, by its chat template if the study gives any. `grounding_prompt`: None in the first step, which asks
    for the answer alone. `answer`: that of the first step, None where there is one step."""

    dataset: str
    method: str
    question: Question
    passage: str
    request: Request
    turns: str
    assembly: str
    end_task: str
    is_small: bool
    grounding_prompt: str | None = None
    answer: str | None = None

    def key(self, part: int) -> dict[str, Any]:
        """Dataset, question and method, and the grounding prompt in the table that has that column."""
        key = {"dataset": self.dataset, "question_id": self.question.question_id, "method": self.method}
        return key if self.grounding_prompt is None else key | {"grounding_prompt": self.grounding_prompt}

    def prompt(self) -> ModelInput:
        """The passage, then the text that asks."""
        asked = block(FORMATS["question"], self._text(), self.passage)
        return ModelInput(self.turns.replace(PROMPT_PLACE, asked))

    def _text(self) -> str:
        question, name, how = self.question.question, self.grounding_prompt, self.assembly
        if name is None:
            return first_step_prompt(question, how)
        if self.end_task == ROUGE_L:
            return long_form_prompt(question, name, how, is_small=self.is_small)
        if self.answer is None:
            return one_step_prompt(question, name, how)
        return second_step_prompt(question, self.answer, name, how)


class _GroundedTask(Task):
    def inputs(self, scope: Scope) -> list[str]:
        content, methods = scope.lake.content, map(scope.study.method, _grounding(scope).methods)
        passages = [
            content("retrieved_passages", method.name) for method in methods if not method.is_parametric
        ]
        return [*super().inputs(scope), *passages, *([content("cited_passages")] if passages else [])]

    def decisive(self, scope: Scope) -> Mapping[str, Any]:
        """What decides the rows of both tables: among others each method, and whether it cuts its passages."""
        study, grounding = scope.study, _grounding(scope)
        methods = [[name, study.method(name).cuts_last_sentence] for name in grounding.methods]
        return {"methods": methods, "seed": study.seed, "turns": grounding.turns_of(scope.model.name)}


class GroundedAnswers(_GroundedTask):
    """Empty for models that are asked in one step. A question without a passage of the method gets no row."""

    table = "grounded_answers"
    keys = ("dataset", "question_id", "method")

    def is_asked(self, study: Study) -> bool:
        return any(_first_step_datasets(study, model) for model in study.models)

    def decisive(self, scope: Scope) -> Mapping[str, Any]:
        return {
            **super().decisive(scope),
            "datasets": [dataset.name for dataset in _first_step_datasets(scope.study, scope.model)],
            "max_new_tokens": scope.study.max_new_tokens,
            "prompt": first_step_prompt("{question}", _grounding(scope).assembly),
        }

    def plan(self, scope: Scope) -> Plan[GroundedQuestion]:
        """Ordered by dataset, method (as in the study) and question_id."""
        datasets = _first_step_datasets(scope.study, scope.model)
        return Plan(*_plan_questions(scope, datasets, scope.study.max_new_tokens, FIRST_LINE))

    def row(self, model: Model, item: GroundedQuestion, part: int, result: Generation) -> Mapping[str, Any]:
        text = storable(text_of(result, model))
        return {"raw_text": storable(result.raw_text), "answer": cut_text(text, FIRST_LINE).strip()}


class GroundedGenerations(_GroundedTask):
    """Without a grounding prompt the table is empty. The texts end where the model ends them. A question without a
    passage of the method gets no row and is counted."""

    table = "grounded_generations"
    keys = ("dataset", "question_id", "method", "grounding_prompt")

    def is_asked(self, study: Study) -> bool:
        return bool(study.grounding_prompts)

    def source_table(self, scope: Scope) -> str | None:
        return "grounded_answers" if _first_step_datasets(scope.study, scope.model) else None

    def decisive(self, scope: Scope) -> Mapping[str, Any]:
        grounding = _grounding(scope)
        how = grounding.assembly
        return {
            **super().decisive(scope),
            "datasets": [[name, end_task] for name, end_task in _end_tasks(scope.study).items()],
            "prompts": [
                [name, GROUNDING_PROMPTS[name].behind(how)] for name in scope.study.grounding_prompts
            ],
            "steps": grounding.steps_of(scope.model.name),
            "texts": [
                one_step_prompt("{question}", NULL, how),
                second_step_prompt("{question}", "{answer}", NULL, how),
                long_form_prompt("{question}", NULL, how, is_small=True),
            ],
            "max_new_tokens": grounding.max_new_tokens + scope.model.thinking_tokens,
        }

    def plan(self, scope: Scope) -> Plan[GroundedQuestion]:
        """Ordered by dataset, method, grounding prompt (both as in the study) and question_id.

        A question whose first step failed is left out: the quarantine of grounded_answers has it.
        """
        study, n_new = scope.study, _grounding(scope).max_new_tokens
        questions, n_without = _plan_questions(scope, study.grounded_datasets, n_new, END)
        answers: dict[tuple[str, ...], str] = {}
        if before := self.source_table(scope):
            columns = ["dataset", "question_id", "method", "answer"]
            rows = records(scope.lake.read(before, scope.model.name, columns))
            answers = {(row["dataset"], row["question_id"], row["method"]): row["answer"] for row in rows}
        items = []
        for _, group in itertools.groupby(
            questions, key=lambda question: (question.dataset, question.method)
        ):
            for name, question in itertools.product(study.grounding_prompts, list(group)):
                answer = answers.get(tuple(question.key(0).values()))
                if answer is not None or not question.is_small or question.end_task == ROUGE_L:
                    items.append(dataclasses.replace(question, grounding_prompt=name, answer=answer))
        return Plan(items, n_without * len(study.grounding_prompts))

    def row(self, model: Model, item: GroundedQuestion, part: int, result: Generation) -> Mapping[str, Any]:
        golds, name = item.question.gold_answers, item.grounding_prompt or NULL
        return _columns(name, item.end_task, golds, item.answer, storable(text_of(result, model)))

    def import_rows(self, scope: Scope, run_id: str) -> Outcome:
        """The rows of table imported_answers under grounding prompts: answer and explanation in one text."""
        end_tasks = _end_tasks(scope.study)

        def columns(row: Mapping[str, Any], golds: Sequence[str]) -> dict[str, Any]:
            name = row["prompt"]
            return {"method": row["method"], "grounding_prompt": name} | _columns(
                name, end_tasks[row["dataset"]], golds, None, row["text"]
            )

        return import_generations(scope, run_id, columns, [end_tasks, self.code_version()])


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
        end_task: float(_SCORES[end_task]((explanation if answer is None else answer) or "", golds)),
        **_by_reference(end_task, golds, text if first_answer is None else f"{first_answer};{text}"),
    }


_SCORES: dict[str, Callable[[str, Sequence[str]], float]] = {
    ROUGE_L: rouge_l,
    F1: hotpot_f1,
    EXACT_MATCH: is_exact_match,
}
"""The one score by which a dataset is judged (SPEC §9)."""


def _by_reference(end_task: str, golds: Sequence[str], text: str) -> dict[str, Any]:
    """Explanation and score as the authors' code has them. `text`: two steps are joined by a semicolon."""
    if end_task == ROUGE_L:
        return {"reference_explanation": text, "kilt_score": kilt_rouge_l(text, golds)}
    answer, explanation = reference_parts(text)
    score = token_f1(answer, golds) if end_task == F1 else float(is_exact_match(answer, golds))
    return {"reference_explanation": explanation, "kilt_score": score}


def _grounding(scope: Scope) -> Grounding:
    """That of the study; without any, no dataset and no prompt is asked."""
    return scope.study.grounding or Grounding()


def _first_step_datasets(study: Study, model: Model) -> list[Dataset]:
    """The datasets whose questions a model is asked for short answers first, as it needs two steps."""
    if study.grounding is None or study.grounding.steps_of(model.name) != 2:
        return []
    return [dataset for dataset in study.grounded_datasets if study.end_task_of(dataset) != ROUGE_L]


def _plan_questions(
    scope: Scope, datasets: Iterable[Dataset], max_new_tokens: int, end: str
) -> tuple[list[GroundedQuestion], int]:
    """The questions of datasets by each grounding method, ordered by dataset, method and question_id; and how many
    have no passage of a method. The authors' code draws the texts of services at a temperature."""
    study, grounding = scope.study, _grounding(scope)
    greedy = text_decoding(scope.model, max_new_tokens, end)
    request = Request(greedy)
    if grounding.assembly == REFERENCE and scope.model.service is not None:
        drawn = dataclasses.replace(greedy, temperature=_REFERENCE_TEMPERATURE)
        request = Request(drawn, seeded_by=(study.seed,))
    turns, is_small = grounding.turns_of(scope.model.name), grounding.steps_of(scope.model.name) == 2
    questions = read_questions(study, scope.lake)
    passages_of = {
        method.name: None if method.is_parametric else first_passages(read_passages(scope.lake, method, 0))
        for method in map(study.method, grounding.methods)
    }
    items: list[GroundedQuestion] = []
    n_without = 0
    for dataset, (method, passages) in itertools.product(datasets, passages_of.items()):
        by_question = None if passages is None else passages.get(dataset.name, {})
        for question in questions.get(dataset.name, ()):
            if by_question is not None and question.question_id not in by_question:
                n_without += 1
                continue
            passage = "" if by_question is None else by_question[question.question_id].text
            how, end_task = grounding.assembly, study.end_task_of(dataset)
            items.append(
                GroundedQuestion(
                    dataset.name, method, question, passage, request, turns, how, end_task, is_small
                )
            )
    return items, n_without
