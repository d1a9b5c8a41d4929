"""The lake tables `answers` and `paraphrase_answers`: one partition at a time, resumable, made once.

What belongs here: what a partition depends on, its rows, its report. What does not: prompts (`plan`),
batches and resuming (`resume`), models (`session`).

A row's `is_reused` is true where its generation was computed for another partition fingerprint (another
study, an earlier state of this one, other code). Rows computed for this same fingerprint before a run was
killed are resumed, not reused, so that a resumed partition equals an uninterrupted one.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dagster_project.core.generation.base import Decoding
from dagster_project.core.generation.plan import Plan, PlannedRow, plan_answers, plan_paraphrase_answers
from dagster_project.core.generation.prompts import cut_answer
from dagster_project.core.generation.resume import Completed, complete_prompts, distinct_prompts
from dagster_project.core.generation.row_cache import CachedRow, RowCache
from dagster_project.core.generation.session import ModelSession, model_lock
from dagster_project.core.lake import Computed, Lake, Outcome, QuarantinedRow, code_version, fingerprint
from dagster_project.core.scoring.match import score_answer
from dagster_project.core.study import RETRIEVERS, Model, Prompt, Study

_MODULES = ("generation", "scoring")


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
    input is missing, `BackendError` where the model cannot be loaded or asked; batches finished before it
    are kept.
    """
    inputs = [lake.content("questions")]
    if method in RETRIEVERS:
        inputs += [lake.content("retrieved_passages", method), lake.content("passages")]
    return _materialise(
        study, lake, "answers", f"{model_name}|{method}", study.model(model_name), study.answer_prompts,
        inputs, lambda: plan_answers(study, lake, method), {"method": method}, session, run_id, log,
    )  # fmt: skip


def answer_paraphrases(
    study: Study, lake: Lake, model_name: str, *, session: ModelSession, run_id: str, log: logging.Logger
) -> Outcome:
    """Materialise partition `model` of `paraphrase_answers`: all paraphrases (0 = the question), closed-book.

    Without a prompt that asks paraphrases the partition is empty. Errors as in `answer_questions`.
    """
    inputs = [lake.content("questions"), lake.content("paraphrases")]
    return _materialise(
        study, lake, "paraphrase_answers", model_name, study.model(model_name), study.paraphrase_prompts,
        inputs, lambda: plan_paraphrase_answers(study, lake), {}, session, run_id, log,
    )  # fmt: skip


def _materialise(
    study: Study,
    lake: Lake,
    table: str,
    partition: str,
    model: Model,
    prompts: Sequence[Prompt],
    inputs: list[str],
    plan: Callable[[], Plan],
    columns: Mapping[str, Any],
    session: ModelSession,
    run_id: str,
    log: logging.Logger,
) -> Outcome:
    stamp = fingerprint(table, _slice(study, model, prompts), columns, inputs,
                        session.identity(model).weights, code_version(*_MODULES))  # fmt: skip

    def compute() -> Computed:
        started = time.monotonic()
        planned = plan()
        hashes, texts = distinct_prompts([row.prompt for row in planned.rows])
        what = f"{table} {partition}"
        with RowCache(study.home.row_cache, session.identity(model), log) as cache:
            done = complete_prompts(texts, model, Decoding(study.max_new_tokens), cache, session,
                                    origin=stamp, what=what, log=log)  # fmt: skip
        common = {**columns, "model": model.name, **_row_constants(study, model, session, run_id)}
        rows = [
            {**common, **_row(row, digest, done.rows[digest], model, stamp)}
            for row, digest in zip(planned.rows, hashes, strict=True)
            if digest in done.rows
        ]
        aside = _quarantined(planned.rows, hashes, done)
        if aside:
            log.warning("%s: %s generations failed, see quarantine: %s", what, len(aside), aside[0].reason)
        notes = _notes(planned, rows, aside, done, len(texts), time.monotonic() - started)
        return Computed(rows, aside, notes)

    found = lake.current(table, stamp, partition)
    if found:
        return Outcome(table, partition, found, was_current=True)
    with model_lock(study.home.locks, model.name, log):
        return lake.materialise(table, stamp, compute, partition)


def _slice(study: Study, model: Model, prompts: Sequence[Prompt]) -> dict[str, Any]:
    """What of the study decides the rows; not how fast or where they are computed."""
    return {
        "datasets": sorted(dataset.name for dataset in study.datasets),
        "prompts": sorted([p.name, p.format, p.shots, p.draw or ""] for p in prompts),
        "model": [model.name, model.dtype, model.quantisation, model.device_hour_usd],
        "max_new_tokens": study.max_new_tokens,
        "seed": study.seed,
    }


def _row_constants(study: Study, model: Model, session: ModelSession, run_id: str) -> dict[str, Any]:
    identity = session.identity(model)
    return {
        "revision": identity.revision,
        "dtype": identity.dtype,
        "quantisation": identity.quantisation,
        "seed": study.seed,
        "run_id": run_id,
        "code_version": code_version(*_MODULES),
    }


def _row(row: PlannedRow, digest: str, cached: CachedRow, model: Model, stamp: str) -> dict[str, Any]:
    generation = cached.generation
    raw_text = generation.text.encode("utf-8", "replace").decode()
    prediction = cut_answer(raw_text)
    price = model.device_hour_usd
    return {
        **row.keys,
        "prompt_hash": digest,
        "prediction": prediction,
        "raw_text": raw_text,
        **dataclasses.asdict(score_answer(prediction, row.gold_answers)),
        "prompt_tokens": generation.prompt_tokens,
        "new_tokens": generation.new_tokens,
        "n_truncated_tokens": generation.n_truncated_tokens,
        "latency_ms": generation.latency_ms,
        "batch_size": generation.batch_size,
        "cost_usd": None if price is None else price * generation.latency_ms / 3_600_000,
        "engine": cached.engine,
        "is_reused": cached.origin != stamp,
    }


def _quarantined(rows: Sequence[PlannedRow], hashes: Sequence[str], done: Completed) -> list[QuarantinedRow]:
    return [
        QuarantinedRow(row.row_key, done.failures[digest].reason, row.prompt)
        for row, digest in zip(rows, hashes, strict=True)
        if digest in done.failures
    ]


def _notes(
    plan: Plan,
    rows: Sequence[Mapping[str, Any]],
    aside: Sequence[QuarantinedRow],
    done: Completed,
    n_distinct: int,
    seconds: float,
) -> dict[str, Any]:
    """The partition's report; `rows_per_second` counts computed prompts over the time of computing them."""
    n_correct = sum(row["is_correct"] for row in rows)
    return {
        "rows": len(rows),
        "accuracy": n_correct / len(rows) if rows else None,
        "distinct_prompts": n_distinct,
        "computed": done.n_computed,
        "resumed": done.n_resumed,
        "reused": done.n_reused,
        "failed": len(aside),
        "without_passage": plan.n_without_passage,
        "truncated": sum(row["n_truncated_tokens"] > 0 for row in rows),
        "prompt_tokens": sum(row["prompt_tokens"] for row in rows),
        "new_tokens": sum(row["new_tokens"] for row in rows),
        "seconds": round(seconds, 3),
        "rows_per_second": round(done.n_computed / done.seconds, 1) if done.n_computed else None,
        "device": done.usage.device if done.usage else None,
        "peak_memory_mb": round(done.usage.peak_memory_mb, 1) if done.usage else None,
    }
