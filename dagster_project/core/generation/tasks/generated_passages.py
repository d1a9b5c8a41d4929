"""Lake table `generated_passages`: a background text for every question, which genread puts before it (GenRead)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dagster_project.core.generation.backends.base import Generation
from dagster_project.core.generation.engine.items import Generate
from dagster_project.core.generation.engine.task import Plan, Scope, Task
from dagster_project.core.generation.prompts.endings import FIRST_LINE
from dagster_project.core.generation.prompts.inputs import read_questions
from dagster_project.core.generation.tasks.imported import import_passages
from dagster_project.core.generation.tasks.questions import Group, QuestionItem, decisive_keys
from dagster_project.core.generation.tasks.rows import background_columns, end_of, text_of
from dagster_project.core.prompt_formats import BACKGROUND_TEMPLATE
from dagster_project.core.storage.lake import Outcome
from dagster_project.core.study.models import Model
from dagster_project.core.study.study import Study


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

    def imported(self, scope: Scope, run_id: str) -> Outcome:
        """The background texts that the model's files hold."""
        return import_passages(scope, run_id)
