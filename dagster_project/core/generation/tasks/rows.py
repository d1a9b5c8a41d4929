"""The columns that a text decides: the one builder of scored rows, for generated and for imported texts.

What belongs here: from a text to the columns of `answers`, its sister tables and `generated_passages`. What does not:
the rules of scoring (`scoring`), key columns (the tables' own modules), and accounts (`engine.accounts`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from dagster_project.core.generation.backends.base import Generation
from dagster_project.core.generation.prompts.build import background_passage_id
from dagster_project.core.generation.prompts.endings import FIRST_LINE, SENTENCE, kept_text
from dagster_project.core.scoring.confidence import Confidence
from dagster_project.core.scoring.match import has_answer, has_answer_popqa, score_answer
from dagster_project.core.study.models import Model


def kept_end(model: Model) -> str:
    """What is kept of a model's answer: a rambling model's first sentence, else the first line."""
    return SENTENCE if model.rambles else FIRST_LINE


def asked_end(model: Model) -> str:
    """Where a request for an answer may stop. A service stops at lines alone, and its paid answers keep that key unless
    their confidence is asked for, which is that of the part kept."""
    if model.service is not None and not model.service.log_probabilities:
        return FIRST_LINE
    return kept_end(model)


def generated_columns(generation: Generation, gold_answers: Sequence[str], model: Model) -> dict[str, Any]:
    """A generated answer: its text's columns, and how sure the model was of it."""
    return answer_columns(generation.text, gold_answers, model) | confidence_columns(generation.confidence)


def confidence_columns(confidence: Confidence | None) -> dict[str, Any]:
    """The columns of a confidence; none, which makes them null, where it is not known."""
    return {} if confidence is None else dataclasses.asdict(confidence)


def answer_columns(text: str, gold_answers: Sequence[str], model: Model) -> dict[str, Any]:
    """An answer's text, what is kept of it (a rambling model's first sentence), and its scores."""
    raw_text = storable(text)
    prediction = kept_text(raw_text, kept_end(model))
    scores = dataclasses.asdict(score_answer(prediction, gold_answers))
    return {"raw_text": raw_text, "prediction": prediction, **scores}


def background_columns(
    text: str, question_id: str, gold_answers: Sequence[str], model: Model
) -> dict[str, Any]:
    """A background text, its first line, and whether that line holds an answer."""
    raw_text = storable(text)
    passage = kept_text(raw_text, FIRST_LINE)
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
