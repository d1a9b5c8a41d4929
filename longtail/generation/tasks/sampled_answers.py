"""Lake table `sampled_answers`: several answers to every question, closed-book, at the study's temperature."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from longtail.generation.backends.base import Generation
from longtail.generation.engine.task import Plan, Request, Sample, Scope, Task
from longtail.generation.prompts.build import Demonstrations
from longtail.generation.prompts.inputs import read_questions
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
from longtail.study.backends import SAMPLE
from longtail.study.models import Model
from longtail.study.study import Study


@dataclass(frozen=True, slots=True)
class SampledQuestion(QuestionItem):
    """One question whose samples are seeded by (the study's seed, dataset, question, number of the sample)."""

    sampling: Sample

    @property
    def request(self) -> Request:
        seeded_by = (*self.sampling.seeded_by, self.question.question_id)
        return dataclasses.replace(self.sampling, seeded_by=seeded_by)

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
        study = scope.study
        n_new = study.max_new_tokens + scope.model.thinking_tokens
        n, temperature, end = study.sampling.n, study.sampling.temperature, request_end(scope.model)
        return Plan([
            SampledQuestion(group, question, request, shown=pool.draw(question, prompt))
            for dataset, questions in read_questions(study, scope.lake).items()
            for drawn_as in [study.drawn_as(dataset)]
            for request in [Sample(n, temperature, n_new, (study.seed, drawn_as), end)]
            for pool in [Demonstrations(drawn_as, questions, study.seed)]
            for prompt in by_name(study.sample_prompts)
            for declines in [declines_of(prompt, scope.model)]
            for group in [
                Group(dataset, prompt.name, template_of(prompt, scope.model), request, declines=declines)
            ]
            for question in questions
        ])  # fmt: skip

    def row(self, model: Model, item: SampledQuestion, part: int, result: Generation) -> Mapping[str, Any]:
        columns = generation_columns(result, item.question.gold_answers, model, item.group.declines)
        drawn = {
            "demonstration_ids": item.demonstration_ids(),
            "temperature": item.sampling.temperature,
        }
        return drawn | columns
