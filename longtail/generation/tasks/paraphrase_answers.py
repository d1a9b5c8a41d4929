"""Lake table `paraphrase_answers`: all wordings of every question (0 = the question itself), closed-book.

In its prompts, a wording stands behind the demonstrations of its question: they are the same for all its wordings.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from longtail.generation.backends.base import Generation
from longtail.generation.engine.task import Generate, ModelInput, Plan, Scope, Task
from longtail.generation.prompts.build import build_prompt
from longtail.generation.prompts.inputs import read_wordings
from longtail.generation.tasks.questions import (
    QuestionItem,
    ask_from_memory,
    by_name,
    decisive_keys,
    decisive_prompt,
    generation_columns,
    request_end,
)
from longtail.study.models import Model
from longtail.study.study import Study


@dataclass(frozen=True, slots=True)
class WordedQuestion(QuestionItem):
    """One wording of a question."""

    wording: str
    paraphrase_id: int

    def key(self, part: int) -> dict[str, Any]:
        """Dataset, question, paraphrase and prompt."""
        return QuestionItem.key(self, part) | {"paraphrase_id": self.paraphrase_id}

    def prompt(self) -> ModelInput:
        """Demonstrations, then the wording."""
        worded = dataclasses.replace(self.question, question=self.wording)
        return ModelInput(build_prompt(worded, self.group.template, self.shown))


class ParaphraseAnswers(Task):
    """Without a prompt that asks paraphrases the table is empty."""

    table = "paraphrase_answers"
    keys = ("dataset", "question_id", "paraphrase_id", "prompt")

    def is_asked(self, study: Study) -> bool:
        return bool(study.paraphrase_prompts)

    def inputs(self, scope: Scope) -> list[str]:
        return [scope.lake.content("questions"), scope.lake.content("paraphrases")]

    def decisive(self, scope: Scope) -> Mapping[str, Any]:
        prompts = [decisive_prompt(prompt, scope.model) for prompt in by_name(scope.study.paraphrase_prompts)]
        return decisive_keys(scope.study, *prompts, max_new_tokens=scope.study.max_new_tokens)

    def plan(self, scope: Scope) -> Plan[WordedQuestion]:
        """Ordered by dataset, prompt, question_id and paraphrase_id."""
        wordings = read_wordings(scope.lake)
        n_new = scope.study.max_new_tokens + scope.model.thinking_tokens
        request = Generate(n_new, request_end(scope.model))
        return Plan([
            WordedQuestion(group, question, wording, number, shown=shown)
            for group, question, shown in ask_from_memory(
                scope, scope.study.paraphrase_prompts, lambda _: request
            )
            for number, wording in wordings.get((group.dataset, question.question_id), ())
        ])  # fmt: skip

    def row(self, model: Model, item: WordedQuestion, part: int, result: Generation) -> Mapping[str, Any]:
        columns = generation_columns(result, item.question.gold_answers, model, item.group.declines)
        return {"demonstration_ids": item.demonstration_ids(), **columns}
