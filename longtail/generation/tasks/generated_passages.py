"""Lake table `generated_passages`: a background text for every question, which genread puts before it (GenRead)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from longtail.generation.backends.base import Generation
from longtail.generation.engine.task import Generate, Plan, Scope, Task
from longtail.generation.prompts.endings import FIRST_LINE
from longtail.generation.prompts.inputs import read_questions
from longtail.generation.tasks.imported import import_passages
from longtail.generation.tasks.questions import (
    Group,
    QuestionItem,
    background_columns,
    decisive_keys,
    end_of,
    text_of,
)
from longtail.prompt_formats import BACKGROUND_TEMPLATE
from longtail.storage.lake import Outcome
from longtail.study.models import Model
from longtail.study.study import Study


class GeneratedPassages(Task):
    """The first line of each text later stands before the question."""

    table = "generated_passages"
    keys = ("dataset", "question_id")

    def is_asked(self, study: Study) -> bool:
        return study.writes_background

    def inputs(self, scope: Scope) -> list[str]:
        return [scope.lake.content("questions")]

    def decisive(self, scope: Scope) -> Mapping[str, Any]:
        tokens = scope.study.background_tokens
        return decisive_keys(scope.study, [BACKGROUND_TEMPLATE], background_tokens=tokens)

    def plan(self, scope: Scope) -> Plan[QuestionItem]:
        """Ordered by dataset and question_id."""
        n_new = scope.study.background_tokens + scope.model.thinking_tokens
        request = Generate(n_new, end_of(scope.model, FIRST_LINE))
        return Plan([
            QuestionItem(group, question)
            for dataset, questions in read_questions(scope.study, scope.lake).items()
            for group in [Group(dataset, None, BACKGROUND_TEMPLATE, request)]
            for question in questions
        ])  # fmt: skip

    def row(self, model: Model, item: QuestionItem, part: int, result: Generation) -> Mapping[str, Any]:
        question = item.question
        text = text_of(result, model)
        return background_columns(
            text, question.question_id, question.gold_answers, model, raw_text=result.raw_text
        )

    def import_rows(self, scope: Scope, run_id: str) -> Outcome:
        """The background texts that the model's files hold."""
        return import_passages(scope, run_id)
