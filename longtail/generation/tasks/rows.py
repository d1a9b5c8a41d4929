"""The columns that a text decides: the one builder of scored rows, for generated and for imported texts."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from longtail.generation.backends.base import LENGTH, Generation
from longtail.generation.prompts.build import background_passage_id
from longtail.generation.prompts.endings import AFTER_THINKING, FIRST_LINE, SENTENCE, kept_text
from longtail.scoring.confidence import Confidence
from longtail.scoring.match import has_answer, has_answer_popqa, score_answer
from longtail.scoring.model_answer import THINKING_CUT, ModelAnswer, NoAnswerError, is_declined
from longtail.study.models import Model

_DECLINED = "the service declined to answer"


def kept_end(model: Model) -> str:
    """What is kept of a model's answer: a rambling model's first sentence, else the first line."""
    return SENTENCE if model.rambles else FIRST_LINE


def asked_end(model: Model) -> str:
    """Where a request for an answer may stop: for a model that thinks, behind its reasoning. A service stops at lines
    alone, and its paid answers keep that key unless their confidence is asked for, which is that of the part kept."""
    is_line = model.service is not None and not model.service.log_probabilities and not model.thinking_tokens
    return end_of(model, FIRST_LINE if is_line else kept_end(model))


def end_of(model: Model, end: str) -> str:
    """An end, behind the reasoning of a model that thinks."""
    return f"{AFTER_THINKING}{end}" if model.thinking_tokens else end


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


def generated_columns(
    generation: Generation, gold_answers: Sequence[str], model: Model, declines: Sequence[str]
) -> dict[str, Any]:
    """A generated answer: its text's columns, and how sure the model was of it. Errors: `NoAnswerError`."""
    answer = answer_of(generation, model)
    columns = answer_columns(answer.text, gold_answers, model, declines, answer.is_declined or None)
    return columns | {"raw_text": storable(generation.raw_text)} | confidence_columns(generation.confidence)


def confidence_columns(confidence: Confidence | None) -> dict[str, Any]:
    """The columns of a confidence; none, which makes them null, where it is not known."""
    return {} if confidence is None else dataclasses.asdict(confidence)


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
    prediction = kept_text(raw_text, kept_end(model))
    if declined is None:
        declined = is_declined(prediction, declines)
    scores = dataclasses.asdict(score_answer("" if declined else prediction, gold_answers))
    return {"raw_text": raw_text, "prediction": prediction, "is_declined": declined, **scores}


def background_columns(
    text: str, question_id: str, gold_answers: Sequence[str], model: Model, raw_text: str | None = None
) -> dict[str, Any]:
    """A background text, its first line, and whether that line holds an answer. `raw_text`: the text with reasoning."""
    raw_text = storable(text if raw_text is None else raw_text)
    passage = kept_text(storable(text), FIRST_LINE)
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
