"""The lake tables of what models wrote: `answers`, `paraphrase_answers`, `sampled_answers`, `generated_passages`.

What belongs here: what each of them depends on, and what its rows say. What does not: prompts (`plan`), generating
and making rows (`partition`), what one user waits (`calibrate`).
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from typing import Any

from dagster_project.core.errors import StudyError
from dagster_project.core.generation.backends.base import Decoding
from dagster_project.core.generation.backends.registry import entry
from dagster_project.core.generation.engine.session import ModelSession
from dagster_project.core.generation.imported import import_passages, score_answers
from dagster_project.core.generation.partition import Partition, materialise, without_rows
from dagster_project.core.generation.plan import (
    PlannedRow,
    plan_answers,
    plan_generated_passages,
    plan_paraphrase_answers,
    plan_sampled_answers,
    prompt_slice,
)
from dagster_project.core.generation.prompts.build import background_passage_id, cut_answer, kept_answer
from dagster_project.core.lake import Lake, Outcome
from dagster_project.core.methods import BACKGROUND, METHODS, RETRIEVAL
from dagster_project.core.scoring.match import has_answer, has_answer_popqa, score_answer
from dagster_project.core.study.backends import GENERATE, SAMPLE
from dagster_project.core.study.study import Model, Study


def answer_questions(
    study: Study,
    lake: Lake,
    model_name: str,
    method: str,
    *,
    session: ModelSession,
    run_id: str,
    log: logging.Logger,
) -> Outcome:
    """Materialise partition `model|method` of `answers`: all datasets and answer prompts of the study.

    A question without a passage of the method gets no row and is counted. Errors: `LakeError` where an
    input is missing, `BackendError` where the model cannot be loaded or asked; what was generated before is
    kept. Of a model whose answers are imported nothing is generated: its rows come from table imported_answers.
    """
    if not study.model(model_name).generates:
        return score_answers(study, lake, study.model(model_name), method, run_id=run_id, log=log)
    model = _model(study, model_name, GENERATE)
    return materialise(
        Partition(
            study=study,
            lake=lake,
            table="answers",
            name=f"{model_name}|{method}",
            model=model,
            decoding=Decoding(study.max_new_tokens),
            inputs=answer_inputs(study, lake, model_name, method),
            decisive=prompt_slice(study, "answers", method),
            columns={"method": method},
            plan=lambda: plan_answers(study, lake, model_name, method, log),
            written=lambda row, text: _answer(row, text, model),
            session=session,
            run_id=run_id,
            log=log,
        )
    )


def answer_paraphrases(
    study: Study, lake: Lake, model_name: str, *, session: ModelSession, run_id: str, log: logging.Logger
) -> Outcome:
    """Materialise partition `model` of `paraphrase_answers`: all paraphrases (0 = the question), closed-book.

    Without a prompt that asks paraphrases the partition is empty, and so it is of a model whose answers are imported.
    Errors as in `answer_questions`.
    """
    if not study.model(model_name).generates:
        return without_rows(lake, "paraphrase_answers", model_name)
    model = _model(study, model_name, GENERATE)
    return materialise(
        Partition(
            study=study,
            lake=lake,
            table="paraphrase_answers",
            name=model_name,
            model=model,
            decoding=Decoding(study.max_new_tokens),
            inputs=[lake.content("questions"), lake.content("paraphrases")],
            decisive=prompt_slice(study, "paraphrase_answers"),
            columns={},
            plan=lambda: plan_paraphrase_answers(study, lake),
            written=lambda row, text: _answer(row, text, model),
            session=session,
            run_id=run_id,
            log=log,
        )
    )


def sample_answers(
    study: Study, lake: Lake, model_name: str, *, session: ModelSession, run_id: str, log: logging.Logger
) -> Outcome:
    """Materialise partition `model` of `sampled_answers`: `sampling.n` answers a question at its temperature.

    Without a prompt that asks samples the partition is empty, and so it is of a model whose answers are imported.
    Errors as in `answer_questions`, and where the model's backend cannot sample.
    """
    if not study.model(model_name).generates:
        return without_rows(lake, "sampled_answers", model_name)
    temperature = study.sampling.temperature
    model = _model(study, model_name, SAMPLE)
    return materialise(
        Partition(
            study=study,
            lake=lake,
            table="sampled_answers",
            name=model_name,
            model=model,
            decoding=Decoding(study.max_new_tokens, temperature),
            inputs=[lake.content("questions")],
            decisive=prompt_slice(study, "sampled_answers"),
            columns={"temperature": temperature},
            plan=lambda: plan_sampled_answers(study, lake),
            written=lambda row, text: _answer(row, text, model),
            session=session,
            run_id=run_id,
            log=log,
        )
    )


def generate_passages(
    study: Study, lake: Lake, model_name: str, *, session: ModelSession, run_id: str, log: logging.Logger
) -> Outcome:
    """Materialise partition `model` of `generated_passages`: a background text for every question (GenRead).

    Its first line is what later stands before the question. Errors as in `answer_questions`.
    """
    if not study.model(model_name).generates:
        return import_passages(study, lake, study.model(model_name), run_id=run_id)
    return materialise(
        Partition(
            study=study,
            lake=lake,
            table="generated_passages",
            name=model_name,
            model=_model(study, model_name, GENERATE),
            decoding=Decoding(study.background_tokens),
            inputs=[lake.content("questions")],
            decisive=prompt_slice(study, "generated_passages"),
            columns={},
            plan=lambda: plan_generated_passages(study, lake),
            written=lambda row, text: _background(row, text, model_name),
            session=session,
            run_id=run_id,
            log=log,
        )
    )


def answer_inputs(study: Study, lake: Lake, model_name: str, method: str) -> list[str]:
    """Content hashes of all that the prompts of a method are made from. Errors: `LakeError`, `StudyError`."""
    if method not in study.methods:
        raise StudyError(f"{study.path}: methods: {method!r} is not one of: {', '.join(study.methods)}")
    inputs = [lake.content("questions")]
    if METHODS[method].kind == RETRIEVAL:
        inputs += [lake.content("retrieved_passages", method), lake.content("passages")]
    if METHODS[method].kind == BACKGROUND:
        inputs.append(lake.content("generated_passages", model_name))
    return inputs


def _model(study: Study, model_name: str, capability: str) -> Model:
    """The model, whose backend can do what is asked of it. Errors: `StudyError`, `BackendError`."""
    model = study.model(model_name)
    entry(model, capability)
    return model


def _answer(row: PlannedRow, raw_text: str, model: Model) -> Mapping[str, Any]:
    prediction = kept_answer(raw_text, rambles=model.rambles)
    scores = dataclasses.asdict(score_answer(prediction, row.gold_answers))
    return {"prediction": prediction, **scores}


def _background(row: PlannedRow, raw_text: str, model_name: str) -> Mapping[str, Any]:
    text = cut_answer(raw_text)
    return {
        "passage_id": background_passage_id(model_name, row.question.question_id),
        "text": text,
        "has_answer": has_answer(text, row.gold_answers),
        "has_answer_popqa": has_answer_popqa(text, row.gold_answers),
    }
