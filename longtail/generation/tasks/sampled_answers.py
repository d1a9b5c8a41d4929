"""Lake table `sampled_answers`: several answers to every question, closed-book, at the study's temperature."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from longtail.generation.backends.base import Generation
from longtail.generation.engine.task import Plan, Request, Sample, Scope, Task
from longtail.generation.tasks.questions import (
    QuestionItem,
    ask_from_memory,
    by_name,
    decisive_keys,
    decisive_prompt,
    generation_columns,
    request_end,
)
from longtail.study.backends import SAMPLE
from longtail.study.models import Model
from longtail.study.study import Study


@dataclass(frozen=True, slots=True)
class SampledQuestion(QuestionItem):
    """One question whose samples are seeded by (the study's seed, dataset, question, number of the sample)."""

    @property
    def request(self) -> Request:
        sampling = cast(Sample, self.group.request)
        return dataclasses.replace(sampling, seeded_by=(*sampling.seeded_by, self.question.question_id))

    def key(self, part: int) -> dict[str, Any]:
        """Dataset, question, sample and prompt."""
        return QuestionItem.key(self, part) | {"sample": part}


class SampledAnswers(Task):
    """Without a prompt that asks samples the table is empty."""

    table = "sampled_answers"
    keys = ("dataset", "question_id", "sample", "prompt")
    capability = SAMPLE

    def is_asked(self, study: Study) -> bool:
        return bool(study.sample_prompts)

    def inputs(self, scope: Scope) -> list[str]:
        return [scope.lake.content("questions")]

    def decisive(self, scope: Scope) -> Mapping[str, Any]:
        study = scope.study
        prompts = [decisive_prompt(prompt, scope.model) for prompt in by_name(study.sample_prompts)]
        sampling = [study.sampling.n, study.sampling.temperature]
        return decisive_keys(study, *prompts, max_new_tokens=study.max_new_tokens, sampling=sampling)

    def plan(self, scope: Scope) -> Plan[SampledQuestion]:
        """Ordered by dataset, prompt and question_id; the rows of a question by sample."""
        study, end = scope.study, request_end(scope.model)
        n_new = study.max_new_tokens + scope.model.thinking_tokens
        n, temperature = study.sampling.n, study.sampling.temperature
        asked = ask_from_memory(
            scope,
            study.sample_prompts,
            lambda drawn_as: Sample(n, temperature, n_new, (study.seed, drawn_as), end),
        )
        return Plan([SampledQuestion(group, question, shown=shown) for group, question, shown in asked])

    def row(self, model: Model, item: SampledQuestion, part: int, result: Generation) -> Mapping[str, Any]:
        columns = generation_columns(result, item.question.gold_answers, model, item.group.declines)
        temperature = cast(Sample, item.group.request).temperature
        return {"demonstration_ids": item.demonstration_ids(), "temperature": temperature, **columns}
