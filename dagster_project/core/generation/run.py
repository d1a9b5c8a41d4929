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
from dataclasses import dataclass
from typing import Any

from dagster_project.core.errors import BackendError, StudyError
from dagster_project.core.generation.base import Decoding
from dagster_project.core.generation.plan import Plan, PlannedRow, plan_answers, plan_paraphrase_answers
from dagster_project.core.generation.prompts import cut_answer
from dagster_project.core.generation.resume import Completed, Job, complete_prompts, distinct_prompts
from dagster_project.core.generation.row_cache import CachedRow, RowCache
from dagster_project.core.generation.session import ModelSession, model_lock
from dagster_project.core.lake import Computed, Lake, Outcome, QuarantinedRow, code_version, fingerprint
from dagster_project.core.scoring.match import score_answer
from dagster_project.core.study import RETRIEVERS, Model, Prompt, Study

_MODULES = ("generation", "scoring")


@dataclass(frozen=True)
class _Partition:
    """One partition to be: what it is made from, and what its rows have in common."""

    study: Study
    lake: Lake
    table: str
    name: str
    model: Model
    prompts: tuple[Prompt, ...]
    inputs: tuple[str, ...]
    plan: Callable[[], Plan]
    columns: Mapping[str, Any]
    session: ModelSession
    run_id: str
    log: logging.Logger


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
    if method not in study.methods:
        raise StudyError(f"{study.path}: methods: {method!r} is not one of: {', '.join(study.methods)}")
    inputs = [lake.content("questions")]
    if method in RETRIEVERS:
        inputs += [lake.content("retrieved_passages", method), lake.content("passages")]
    return _materialise(
        _Partition(
            study=study,
            lake=lake,
            table="answers",
            name=f"{model_name}|{method}",
            model=study.model(model_name),
            prompts=study.answer_prompts,
            inputs=tuple(inputs),
            plan=lambda: plan_answers(study, lake, model_name, method),
            columns={"method": method},
            session=session,
            run_id=run_id,
            log=log,
        )
    )


def answer_paraphrases(
    study: Study, lake: Lake, model_name: str, *, session: ModelSession, run_id: str, log: logging.Logger
) -> Outcome:
    """Materialise partition `model` of `paraphrase_answers`: all paraphrases (0 = the question), closed-book.

    Without a prompt that asks paraphrases the partition is empty. Errors as in `answer_questions`.
    """
    return _materialise(
        _Partition(
            study=study,
            lake=lake,
            table="paraphrase_answers",
            name=model_name,
            model=study.model(model_name),
            prompts=study.paraphrase_prompts,
            inputs=(lake.content("questions"), lake.content("paraphrases")),
            plan=lambda: plan_paraphrase_answers(study, lake),
            columns={},
            session=session,
            run_id=run_id,
            log=log,
        )
    )


def _materialise(p: _Partition) -> Outcome:
    stamp = _fingerprint(p)
    current = p.lake.current(p.table, stamp, p.name)
    if current:
        return Outcome(p.table, p.name, current, was_current=True)
    with model_lock(p.study.home.locks, p.model.name, p.log):
        return p.lake.materialise(p.table, stamp, lambda: _compute(p, stamp), p.name)


def _compute(p: _Partition, stamp: str) -> Computed:
    started = time.monotonic()
    planned = p.plan()
    hashes, texts = distinct_prompts([row.text() for row in planned.rows])
    label = f"{p.table} {p.name}"
    with RowCache(p.study.home.row_cache, p.session.identity(p.model), p.log) as cache:
        decoding = Decoding(p.study.max_new_tokens)
        done = complete_prompts(Job(p.model, decoding, cache, p.session, stamp, label, p.log), texts)
    constants = _constants(p)
    rows = [
        {**constants, **_row(row, digest, done.rows[digest], p.model, stamp)}
        for row, digest in zip(planned.rows, hashes, strict=True)
        if digest in done.rows
    ]
    aside = _quarantined(planned.rows, hashes, done)
    if aside and not rows:
        raise BackendError(f"{label}: all {len(aside)} generations failed, the first one: {aside[0].reason}")
    if aside:
        p.log.warning("%s: %s generations failed, see quarantine: %s", label, len(aside), aside[0].reason)
    return Computed(rows, aside, _notes(planned, rows, aside, done, len(texts), time.monotonic() - started))


def _fingerprint(p: _Partition) -> str:
    """A hash of all that decides the rows; not of how fast or where they are computed."""
    decisive = {
        "datasets": sorted(dataset.name for dataset in p.study.datasets),
        "prompts": sorted([t.name, t.format, t.shots, t.draw or ""] for t in p.prompts),
        "model": [p.model.name, p.model.device_hour_usd, p.session.identity(p.model).weights],
        "max_new_tokens": p.study.max_new_tokens,
        "seed": p.study.seed,
        **p.columns,
    }
    return fingerprint(p.table, decisive, p.inputs, code_version(*_MODULES))


def _constants(p: _Partition) -> dict[str, Any]:
    identity = p.session.identity(p.model)
    return {
        **p.columns,
        "model": p.model.name,
        "revision": identity.revision,
        "dtype": identity.dtype,
        "quantisation": identity.quantisation,
        "seed": p.study.seed,
        "run_id": p.run_id,
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
        "shared_tokens": generation.shared_tokens,
        "new_tokens": generation.new_tokens,
        "n_truncated_tokens": generation.n_truncated_tokens,
        "latency_ms": generation.latency_ms,
        "batch_size": generation.batch_size,
        "device_seconds": generation.device_seconds,
        "cost_usd": None if price is None else price * generation.latency_ms / 3_600_000,
        "engine": cached.engine,
        "is_reused": cached.origin != stamp,
    }


def _quarantined(rows: Sequence[PlannedRow], hashes: Sequence[str], done: Completed) -> list[QuarantinedRow]:
    return [
        QuarantinedRow(row.row_key, done.failures[digest].reason, row.text())
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
