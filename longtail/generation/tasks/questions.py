"""What tasks that ask the study's questions have in common: items, and the part of the study that decides them.

An item holds ids and records that items share, never a prompt: its text is built when it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from longtail.generation.engine.items import ModelInput, Request
from longtail.generation.prompts.build import Passages, Question, build_prompt
from longtail.prompt_formats import FOR_ENCODER_DECODERS, FORMATS
from longtail.study.models import Model
from longtail.study.prompts import Prompt
from longtail.study.study import Study


@dataclass(frozen=True, slots=True)
class Group:
    """What items of one dataset and prompt have in common; `prompt` is None for a table without that column.

    `declines`: the answers by which the model declines under this prompt.
    """

    dataset: str
    prompt: str | None
    template: str
    request: Request
    passages: Passages | None = None
    declines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class QuestionItem:
    """One question behind its demonstrations, of about 100 bytes: all it refers to is shared with other items."""

    group: Group
    question: Question
    shown: tuple[Question, ...] = field(default=(), kw_only=True)

    @property
    def request(self) -> Request:
        """The group's."""
        return self.group.request

    def key(self, part: int) -> dict[str, Any]:
        """Dataset, question, and prompt where the table has that column."""
        own = {"dataset": self.group.dataset, "question_id": self.question.question_id}
        return own if self.group.prompt is None else own | {"prompt": self.group.prompt}

    def prompt(self) -> ModelInput:
        """Demonstrations, then the question, each in the template and behind its passage, if it has one."""
        passages = self.group.passages
        text = build_prompt(self.question, self.group.template, self.shown, passages)
        apart = passages.apart.get(self.question.question_id, ()) if passages else ()
        return ModelInput(text, tuple(passage.text for passage in apart))

    def demonstration_ids(self) -> list[str]:
        """question_ids of the demonstrations, in the prompt's order."""
        return [question.question_id for question in self.shown]


def by_name(prompts: Iterable[Prompt]) -> list[Prompt]:
    """Prompts in the order of their rows."""
    return sorted(prompts, key=lambda prompt: prompt.name)


def template_of(prompt: Prompt, model: Model) -> str:
    """The text around a question that a model is asked."""
    return (FOR_ENCODER_DECODERS if model.encoder_decoder else FORMATS)[prompt.format]


def decisive_prompt(prompt: Prompt, model: Model) -> list[Any]:
    """What of a prompt decides the rows of a table that asks without passages."""
    drawn = [prompt.shots, prompt.draw, prompt.demonstrations_from] if prompt.shots else []
    return [prompt.name, template_of(prompt, model), prompt.declines, *drawn]


def declines_of(prompt: Prompt | None, model: Model) -> tuple[str, ...]:
    """The answers by which a model declines under a prompt of the study."""
    return (*model.declines, *(prompt.declines if prompt else ()))


def decisive_keys(study: Study, *prompts: list[Any], **more: Any) -> dict[str, Any]:
    """The keys of the study that decide the rows of every table of questions, and `more`."""
    datasets = sorted((one.name, study.drawn_as(one.name)) for one in study.datasets)
    return {"datasets": datasets, "seed": study.seed, "prompts": list(prompts), **more}
