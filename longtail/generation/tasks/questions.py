"""What tasks that ask the study's questions share: their items, what decides their rows, and the columns of a text.

An item holds ids and records that items share, never a prompt: its text is built when it is asked for.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from longtail.generation.backends.base import LENGTH, Decoding, Generation
from longtail.generation.engine.task import ModelInput, Request, Scope, Task
from longtail.generation.prompts.build import Passages, Question, background_passage_id, build_prompt
from longtail.generation.prompts.endings import AFTER_THINKING, FIRST_LINE, SENTENCE, cut_text
from longtail.prompt_formats import FOR_ENCODER_DECODERS, FORMATS
from longtail.scoring.match import has_answer, has_answer_popqa, score_answer
from longtail.scoring.model_answer import THINKING_CUT, ModelAnswer, NoAnswerError, is_declined
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
        columns = {"dataset": self.group.dataset, "question_id": self.question.question_id}
        return columns if self.group.prompt is None else columns | {"prompt": self.group.prompt}

    def prompt(self) -> ModelInput:
        """Demonstrations, then the question, each in the template and behind its passage, if it has one."""
        passages = self.group.passages
        text = build_prompt(self.question, self.group.template, self.shown, passages)
        apart = passages.apart.get(self.question.question_id, ()) if passages else ()
        return ModelInput(text, tuple(passage.text for passage in apart))

    def ingredients(self) -> dict[str, Any]:
        """The columns that say what is in the prompt: here its demonstrations, in their order."""
        return {"demonstration_ids": [question.question_id for question in self.shown]}


class QuestionTask(Task):
    """A table of answers to the study's questions; empty without `prompts`."""

    @abstractmethod
    def prompts(self, study: Study) -> Sequence[Prompt]:
        """The prompts of the study that ask for its rows."""

    def is_asked(self, study: Study) -> bool:
        return bool(self.prompts(study))

    def decisive(self, scope: Scope) -> Mapping[str, Any]:
        prompts = [decisive_prompt(prompt, scope.model) for prompt in by_name(self.prompts(scope.study))]
        return decisive_keys(scope.study, *prompts, max_new_tokens=scope.study.max_new_tokens)

    def row(self, model: Model, item: Any, part: int, result: Any) -> Mapping[str, Any]:
        answer = answer_of(result, model)
        golds, declines = item.question.gold_answers, item.group.declines
        columns = answer_columns(answer.text, golds, model, declines, answer.is_declined or None)
        confidence = dataclasses.asdict(result.confidence) if result.confidence else {}
        return {**item.ingredients(), **columns, "raw_text": storable(result.raw_text), **confidence}


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
    datasets = sorted((dataset.name, study.drawn_as(dataset.name)) for dataset in study.datasets)
    return {"datasets": datasets, "seed": study.seed, "prompts": list(prompts), **more}


_DECLINED = "the service declined to answer"


def answer_end(model: Model) -> str:
    """What is kept of a model's answer: a rambling model's first sentence, else the first line."""
    return SENTENCE if model.rambles else FIRST_LINE


def answer_decoding(model: Model, max_new_tokens: int) -> Decoding:
    """How an answer is asked for. A service stops at lines alone, and its paid answers keep that key unless their
    confidence is asked for, which is that of the part kept."""
    is_line = model.service is not None and not model.service.log_probabilities and not model.thinking_tokens
    return text_decoding(model, max_new_tokens, FIRST_LINE if is_line else answer_end(model))


def text_decoding(model: Model, max_new_tokens: int, end: str) -> Decoding:
    """How a text is asked for, which a model that thinks writes behind its reasoning, with tokens of its own for that."""
    end = f"{AFTER_THINKING}{end}" if model.thinking_tokens else end
    return Decoding(max_new_tokens + model.thinking_tokens, end=end)


def answer_of(generation: Generation, model: Model) -> ModelAnswer:
    """The model's answer, without its reasoning. Errors: `NoAnswerError` where there is none: also where a model that
    thinks has spent all its tokens, and nothing in its text tells reasoning from answer."""
    answer = generation.answer()
    is_unmarked = not (answer.reasoning or generation.reasoning_tokens or answer.is_declined)
    if model.thinking_tokens and is_unmarked and generation.finish_reason == LENGTH:
        raise NoAnswerError(THINKING_CUT)
    return answer


def text_of(generation: Generation, model: Model) -> str:
    """The answer's text, for tables that know no declined rows. Errors: `NoAnswerError` where it is none, or declined."""
    answer = answer_of(generation, model)
    if answer.is_declined:
        raise NoAnswerError(_DECLINED)
    return answer.text


def answer_columns(
    text: str,
    gold_answers: Sequence[str],
    model: Model,
    declines: Sequence[str],
    declined: bool | None = None,
) -> dict[str, Any]:
    """An answer's text, what is kept of it (a rambling model's first sentence), and its scores.

    `declined`: what its service or file says; None: it is declined if it is one of the phrases `declines`. A declined
    answer is wrong by every rule that has a gold answer, whatever it says.
    """
    raw_text = storable(text)
    prediction = cut_text(raw_text, answer_end(model))
    if declined is None:
        declined = is_declined(prediction, declines)
    scores = dataclasses.asdict(score_answer("" if declined else prediction, gold_answers))
    return {"raw_text": raw_text, "prediction": prediction, "is_declined": declined, **scores}


def background_columns(
    text: str, question_id: str, gold_answers: Sequence[str], model: Model, raw_text: str | None = None
) -> dict[str, Any]:
    """A background text, its first line, and whether that line holds an answer. `raw_text`: the text with reasoning."""
    raw_text = storable(text if raw_text is None else raw_text)
    passage = cut_text(storable(text), FIRST_LINE)
    return {
        "passage_id": background_passage_id(model.name, question_id),
        "raw_text": raw_text,
        "text": passage,
        "has_answer": has_answer(passage, gold_answers),
        "has_answer_popqa": has_answer_popqa(passage, gold_answers),
    }


def storable(text: str) -> str:
    """The text with question marks in place of lone surrogates, which Parquet cannot hold."""
    return text.encode("utf-8", "replace").decode()
