"""Lake table `answers`: all datasets and answer prompts of the study, by one model and one method."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from longtail.generation.backends.base import Generation
from longtail.generation.engine.task import Generate, Plan, Scope, Task
from longtail.generation.prompts.build import Demonstrations, Passages, Question
from longtail.generation.prompts.inputs import (
    passages_of_questions,
    read_first_passages,
    read_generated_passages,
    read_passages_apart,
    read_questions,
)
from longtail.generation.tasks.imported import score_answers
from longtail.generation.tasks.questions import (
    Group,
    QuestionItem,
    by_name,
    decisive_keys,
    decisive_prompt,
    declines_of,
    generation_columns,
    request_end,
    template_of,
)
from longtail.methods import BACKGROUND, MEMORY, RETRIEVAL, Method
from longtail.progress import Progress
from longtail.storage.lake import Outcome
from longtail.study.models import Model
from longtail.study.prompts import Prompt
from longtail.study.study import Study


@dataclass(frozen=True, slots=True)
class AskedQuestion(QuestionItem):
    """One question behind its demonstrations, each with its passage where the method has one."""

    def ingredients(self) -> dict[str, Any]:
        """The ids of the passages and demonstrations in the prompt."""
        passages = self.group.passages or Passages({}, {})
        read = [passage.passage_id for passage in passages.of(self.question.question_id)]
        before = [passages.shown.get(question.question_id) for question in self.shown]
        return {
            "passage_id": read[0] if read else None,
            "passage_ids": read or None,
            "demonstration_ids": self.demonstration_ids(),
            "demonstration_passage_ids": [passage.passage_id if passage else None for passage in before],
        }


class Answers(Task):
    """A question without a passage of the method gets no row and is counted."""

    table = "answers"
    keys = ("dataset", "question_id", "prompt")

    def is_asked(self, study: Study) -> bool:
        return bool(study.answer_prompts)

    def inputs(self, scope: Scope) -> list[str]:
        lake, method = scope.lake, scope.method_record
        inputs = [lake.content("questions")]
        if method.kind == RETRIEVAL:
            inputs += [lake.content("retrieved_passages", method.name), lake.content("passages")]
        if before := self.source_table(scope):
            inputs.append(lake.content(before, scope.model.name))
        return inputs

    def source_table(self, scope: Scope) -> str | None:
        return "generated_passages" if scope.method_record.kind == BACKGROUND else None

    def decisive(self, scope: Scope) -> Mapping[str, Any]:
        method = scope.method_record
        prompts = [
            _decisive(prompt, scope.model, method) for prompt in by_name(scope.study.prompts_of(method.name))
        ]
        return decisive_keys(
            scope.study,
            *prompts,
            max_new_tokens=scope.study.max_new_tokens,
            cuts_last_sentence=method.cuts_last_sentence,
            passages=scope.n_apart,
        )

    def plan(self, scope: Scope) -> Plan[AskedQuestion]:
        """Ordered by dataset, prompt and question_id; the log hears how far the draws of demonstrations are."""
        study = scope.study
        by_dataset = read_questions(study, scope.lake)
        passages = _passages(scope)
        # Arrow keeps what it has read: as much memory again as the records take
        pa.default_memory_pool().release_unused()
        prompts = by_name(study.prompts_of(scope.method_record.name))
        n_new = study.max_new_tokens + scope.model.thinking_tokens
        request = Generate(n_new, request_end(scope.model))
        n_all = len(prompts) * sum(map(len, by_dataset.values()))
        progress = Progress(scope.log, f"{scope.method}: prompts planned", n_all)
        plan = plan_answers(
            scope.model, prompts, request, by_dataset, passages, study.seed, are_apart=scope.n_apart > 0,
            tick=lambda: progress.add(1), drawn_as=study.drawn_as,
        )  # fmt: skip
        progress.done()
        return plan

    def row(self, model: Model, item: AskedQuestion, part: int, result: Generation) -> Mapping[str, Any]:
        columns = generation_columns(result, item.question.gold_answers, model, item.group.declines)
        return item.ingredients() | columns

    def import_rows(self, scope: Scope, run_id: str) -> Outcome:
        """The rows of table imported_answers, scored by our rules."""
        return score_answers(scope, run_id)


def plan_answers(
    model: Model,
    prompts: Sequence[Prompt],
    request: Generate,
    questions: Mapping[str, Sequence[Question]],
    passages: Mapping[str, Mapping[str, Any]] | None,
    seed: int,
    *,
    are_apart: bool = False,
    tick: Callable[[], None] = lambda: None,
    drawn_as: Callable[[str], str] = str,
) -> Plan[AskedQuestion]:
    """Each question in each prompt, but for those without a passage; `passages` is None for a method without any.

    `questions`: by dataset. `passages`: dataset → question_id → passage, or passages, if the model reads them apart from
    the question. `seed`: of the draws of demonstrations, which `drawn_as` names (`Study.drawn_as`). `tick` is called
    once per item.
    """
    items: list[AskedQuestion] = []
    n_without = 0
    for dataset, all_questions in questions.items():
        by_question = None if passages is None else passages.get(dataset, {})
        asked = [
            question
            for question in all_questions
            if by_question is None or question.question_id in by_question
        ]
        pool = Demonstrations(drawn_as(dataset), all_questions, seed)
        for prompt in prompts:
            before = _passages_of(prompt, all_questions, by_question, are_apart=are_apart)
            template, declines = template_of(prompt, model), declines_of(prompt, model)
            group = Group(dataset, prompt.name, template, request, before, declines)
            for question in asked:
                items.append(AskedQuestion(group, question, shown=pool.draw(question, prompt)))
                tick()
            n_without += len(all_questions) - len(asked)
    return Plan(items, n_without)


def _decisive(prompt: Prompt, model: Model, method: Method) -> list[Any]:
    carries_passages = bool(prompt.shots) and method.kind != MEMORY
    looked_up = [prompt.reference_demos] if carries_passages else []
    return [*decisive_prompt(prompt, model), *looked_up]


def _passages_of(
    prompt: Prompt, questions: Sequence[Question], by_question: Mapping[str, Any] | None, *, are_apart: bool
) -> Passages | None:
    """The passages of a prompt. Where they are apart from the question, demonstrations have none (chosen)."""
    if by_question is None:
        return None
    if are_apart:
        return Passages({}, {}, by_question)
    return passages_of_questions(questions, by_question, reference_demos=prompt.reference_demos)


def _passages(scope: Scope) -> Mapping[str, Mapping[str, Any]] | None:
    """Dataset → question_id → the method's passage, or those that are apart; None for a method without passages."""
    method = scope.method_record
    if scope.n_apart:
        return read_passages_apart(scope.lake, method, scope.model.passages)
    if method.kind == RETRIEVAL:
        return read_first_passages(scope.lake, method)
    if method.kind == BACKGROUND:
        return read_generated_passages(scope.lake, scope.model.name)
    return None
