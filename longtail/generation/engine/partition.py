"""One partition of a generated table: kept where it is current, else computed and made into rows.

A row's `is_reused` is true where its result was computed for another partition fingerprint (another study, an earlier
state of this one, other code). Results computed for this same fingerprint before a run was killed are resumed, not
reused, so that a resumed partition equals an uninterrupted one.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from longtail.errors import BackendError
from longtail.generation.backends.base import Accounts, entry
from longtail.generation.engine.job import Completed, Job, Shard, complete
from longtail.generation.engine.row_cache import RowCache
from longtail.generation.engine.session import ModelSession
from longtail.generation.engine.task import Item, Plan, Scope, Task, describe_decoding
from longtail.progress import Progress
from longtail.scoring.model_answer import LIMIT_BEFORE_TEXT, THINKING_CUT, NoAnswerError
from longtail.storage.fingerprints import fingerprint
from longtail.storage.lake import Computed, Lake, Outcome, QuarantinedRow, Streamed
from longtail.storage.ownership import model_lock
from longtail.study.models import Model
from longtail.study.study import Study
from longtail.tables import TABLES

_RAW_CHARACTERS = 2000
"""The part of a prompt that the quarantine keeps."""
_MOST_REASONS = 3


def generate(
    task: Task,
    study: Study,
    lake: Lake,
    model_name: str,
    method: str | None = None,
    *,
    session: ModelSession,
    run_id: str,
    log: logging.Logger,
) -> Outcome:
    """Materialise one partition of a task's table: keep it where it is current, else compute what the row cache lacks.

    `method` for tables that are partitioned by it. Another process that generates with the model for this study is
    waited for. Errors: `LakeError` where an input is missing, `StudyError` where the study lacks the model or method,
    `BackendError` where the model cannot do what is asked or cannot be loaded, `LongtailError` of the row cache. What
    was computed before the error is kept.
    """
    model = study.model(model_name)
    scope = Scope(study, lake, model, method, log)
    if not model.generates:
        return task.import_rows(scope, run_id)
    entry(model, task.capability)  # a backend that cannot do it is refused before anything is read
    stamp, home = fingerprint_of(task, scope, session), study.home

    def compute() -> Computed:
        started, plan = time.monotonic(), task.plan(scope)
        with cache_of(task, scope, session) as cache:
            job = Job(model, cache, session, stamp, f"{task.table} {scope.name}", log, started)
            constants = {"method": method, "run_id": run_id, "code_version": task.code_version()}
            return generate_rows(task, plan, job, study.seed, constants)

    lock = model_lock(home.locks, model.name, log)
    return lake.materialise(task.table, stamp, compute, scope.name, lock)


def generate_shard(task: Task, scope: Scope, shard: Shard, session: ModelSession) -> tuple[int, int]:
    """Compute one shard's batches of a partition, into the row cache alone: how many results it has now, and of how many.

    `generate` makes the partition, once the row cache has the results of all shards. Errors: as `generate`.
    """
    model, log = scope.model, scope.log
    entry(model, task.capability)
    stamp = fingerprint_of(task, scope, session)
    if current := scope.lake.current(task.table, stamp, scope.name):
        return current.n_rows, current.n_rows
    plan = task.plan(scope)
    with cache_of(task, scope, session) as cache:
        job = Job(model, cache, session, stamp, f"{task.table} {scope.name}", log, shard=shard)
        done = complete(job, plan.items)
        keys = [key for work in done.distinct.works for key in work.keys]
        of_others = cache.find(key for key in keys if key not in done.rows)  # which may have ended meanwhile
    _warn_of_failures(job, [failure.reason for failure in done.failures.values()], len(keys))
    return len(done.rows) + len(of_others), len(keys)


def fingerprint_of(task: Task, scope: Scope, session: ModelSession) -> str:
    """A hash of all that decides the rows; not of how fast or where they are computed, nor of what it may cost.

    Errors: as `generate`.
    """
    model, identity = scope.model, session.identity(scope.model)
    return fingerprint(
        task.table,
        task.decisive(scope),
        [model.name, model.device_hour_usd, model.rambles, model.thinking_tokens, model.declines],
        [identity.weights, identity.rules, identity.greedy_rules],
        task.inputs(scope),
        task.code_version(),
    )


def cache_of(task: Task, scope: Scope, session: ModelSession) -> RowCache:
    return RowCache(scope.study.home.row_cache, session.identity(scope.model), scope.log)


def generate_rows(
    task: Task, plan: Plan[Item], job: Job, seed: int, constants: Mapping[str, Any]
) -> Computed:
    """The rows of a plan: their results come from the job's cache, else from its model.

    `constants`: columns that are the same in all rows. `seed`: what a row states whose request has no seed. Errors: as
    `generate`.
    """
    done = complete(job, plan.items)
    rejected: list[QuarantinedRow] = []
    rows = Streamed.of(task.table, _rows(task, plan, done, job, seed, constants, rejected))
    table = pa.concat_tables([TABLES[task.table].schema.empty_table(), *rows.tables])
    _warn_of_failures(job, [row.reason for row in rejected], sum(map(len, done.distinct.keys)))
    report = {**notes(table, done), "failed": len(rejected), "without_passage": plan.n_without_passage}
    return Computed(table, rejected, {**report, "seconds": round(time.monotonic() - job.started, 3)})


def _warn_of_failures(job: Job, reasons: Sequence[str], n_all: int) -> None:
    """Warn of failed generations, reason by reason. Errors: `BackendError` where all failed."""
    if not reasons:
        return
    n, counts = len(reasons), Counter(reasons)
    needs_tokens = not counts.keys().isdisjoint((THINKING_CUT, LIMIT_BEFORE_TEXT))
    advice = f"; raise thinking_tokens of model {job.model.name} in the study" if needs_tokens else ""
    if n == n_all:
        raise BackendError(f"{job.label}: all {n} generations failed, the first one: {reasons[0]}{advice}")
    then = "tried again when the table is made" if job.shard else "see quarantine"
    named = "; ".join(f"{reason} ({count})" for reason, count in counts.most_common(_MOST_REASONS))
    job.log.warning("%s: %s generations failed, %s: %s%s", job.label, n, then, named, advice)


def _rows(
    task: Task,
    plan: Plan[Item],
    done: Completed,
    job: Job,
    seed: int,
    constants: Mapping[str, Any],
    rejected: list[QuarantinedRow],
) -> Iterator[dict[str, Any]]:
    """A row for each part of an item that has an answer; the first row of a result bears the prompt's tokens.

    Parts that failed, or whose result holds no answer, go to `rejected`. What a result without an answer has cost is
    added to `done.lost_usd`.
    """
    identity, distinct = job.session.identity(job.model), done.distinct
    names = {name: getattr(identity, name) for name in ("revision", "dtype", "quantisation")}
    copies, met = Counter(chain.from_iterable(distinct.keys)), set[bytes]()
    progress = Progress(job.log, f"{job.label}: rows", len(plan.items))
    for item, keys, work in zip(plan.items, distinct.keys, distinct.of_item, strict=True):
        for part, (key, own_seed) in enumerate(zip(keys, item.request.seeds, strict=True)):
            cached, decided = done.rows.get(key), None
            reason = done.failures[key].reason if key in done.failures else None
            if cached is not None:
                try:
                    decided = task.row(job.model, item, part, cached.result)
                except NoAnswerError as error:
                    reason = str(error)
                    done.lost_usd += (cached.result.cost_usd or 0.0) / copies[key]
            if reason is not None:
                name = "/".join(str(item.key(part)[column]) for column in task.keys)
                rejected.append(QuarantinedRow(name, reason, item.prompt().text[:_RAW_CHARACTERS]))
            if cached is None or decided is None:
                continue
            yield {
                **constants,
                "model": job.model.name,
                **names,
                **item.key(part),
                **decided,
                **accounts(cached.result, job.model, copies[key], key not in met),
                "prompt_hash": work.prompt_hash,
                "decoding": describe_decoding(item.request, identity),
                "seed": seed if own_seed is None else own_seed,
                "engine": cached.engine,
                "is_reused": cached.origin != job.origin,
                "generated_for": cached.origin,
            }
            met.add(key)
        progress.add(1)
    progress.done()


_SECONDS_PER_HOUR = 3600
_OF_RESULT = (
    "prompt_tokens", "shared_tokens", "new_tokens", "reasoning_tokens", "n_truncated_tokens", "latency_ms", "batch_size",
    "device_seconds", "served_model",
)  # fmt: skip


def accounts(result: Accounts, model: Model, n_copies: int = 1, is_first: bool = True) -> dict[str, Any]:
    """The accounting columns that a result decides; `cost_usd` in US dollars: what a service billed, else the device's
    time at the model's price of an hour, None without a price.

    Rows of equal prompts are copies of one result: each bears its share of time and cost, the first one the
    prompt's tokens. The time of a service's request is not shared: each copy waited for all of it.
    """
    columns = {name: getattr(result, name) for name in _OF_RESULT}
    costs = {"cost_usd": result.cost_usd, "reasoning_usd": result.reasoning_usd}
    if not is_first:
        columns["shared_tokens"] = result.prompt_tokens
    if result.device_seconds is not None:
        columns["device_seconds"] = result.device_seconds / n_copies
        columns["latency_ms"] = result.latency_ms / n_copies
        if result.cost_usd is None and model.device_hour_usd is not None:
            costs["cost_usd"] = model.device_hour_usd * result.device_seconds / _SECONDS_PER_HOUR
    return columns | {name: None if cost is None else cost / n_copies for name, cost in costs.items()}


def notes(table: pa.Table, done: Completed) -> dict[str, Any]:
    """A partition's report from its rows, and from what was computed for them now.

    Tokens, cost and the share of shared prompt tokens cover all rows. Rates cover the results computed now, without
    shared tokens, over the time that they took. `cost_usd` is None without prices. `lost_usd` is what services billed
    on top, for failures and lost answers.
    """
    counted = ("prompt_tokens", "shared_tokens", "new_tokens")
    totals = {name: pc.sum(table[name]).as_py() or 0 for name in counted}
    n_shared, n_prompt = totals["shared_tokens"], totals["prompt_tokens"]
    judged = next((name for name in ("is_correct", "has_answer") if name in table.column_names), None)
    mean = pc.mean(table[judged].cast(pa.float64())).as_py() if judged else None
    usage = done.usage
    return {
        "rows": table.num_rows,
        "has_answer" if judged == "has_answer" else "accuracy": mean,
        "distinct_prompts": len(done.distinct.works),
        "computed": done.n_computed,
        "resumed": done.n_resumed,
        "reused": done.n_reused,
        "truncated": pc.sum(pc.greater(table["n_truncated_tokens"], 0)).as_py() or 0,
        **totals,
        "shared_share": round(n_shared / n_prompt, 4) if n_prompt else None,
        "cost_usd": pc.sum(table["cost_usd"]).as_py(),
        "lost_usd": done.lost_usd,
        "rows_per_second": _rate(done.n_computed, done.seconds),
        "tokens_per_second": _rate(done.n_tokens, done.seconds),
        "device": usage.device if usage else None,
        "peak_memory_mb": round(usage.peak_memory_mb, 1) if usage and usage.peak_memory_mb else None,
    }


def _rate(n: int, seconds: float) -> float | None:
    return round(n / seconds, 1) if n and seconds else None
