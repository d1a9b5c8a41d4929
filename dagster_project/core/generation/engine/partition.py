"""One partition of a generated table: kept where it is current, else computed and made into rows.

What belongs here: fingerprints, rows, the quarantine. What does not: which tables there are and their own columns
(`tasks`), computing results (`resume`), what rows cost (`accounts`).

A row's `is_reused` is true where its result was computed for another partition fingerprint (another study, an earlier
state of this one, other code). Results computed for this same fingerprint before a run was killed are resumed, not
reused, so that a resumed partition equals an uninterrupted one.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa

from dagster_project.core.errors import BackendError
from dagster_project.core.generation.backends.registry import entry
from dagster_project.core.generation.engine.accounts import accounts, notes
from dagster_project.core.generation.engine.items import Item, how
from dagster_project.core.generation.engine.job import Completed, Job
from dagster_project.core.generation.engine.resume import complete
from dagster_project.core.generation.engine.row_cache import RowCache
from dagster_project.core.generation.engine.session import ModelSession, model_lock
from dagster_project.core.generation.engine.task import Plan, Scope, Task
from dagster_project.core.progress import Progress
from dagster_project.core.storage.fingerprints import fingerprint
from dagster_project.core.storage.lake import Computed, Lake, Outcome, QuarantinedRow
from dagster_project.core.study.backends import BACKENDS, MEASURE
from dagster_project.core.study.models import Model
from dagster_project.core.study.study import Study
from dagster_project.core.tables import TABLES

_CHUNK_ITEMS = 1024
_RAW_CHARACTERS = 2000
"""The part of a prompt that the quarantine keeps."""


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

    `method` for tables that are partitioned by it. Errors: `LakeError` where an input is missing, `StudyError` where
    the study lacks the model or method, `BackendError` where the model cannot do what is asked or cannot be loaded,
    `LongtailError` of the row cache. What was computed before the error is kept.
    """
    scope = Scope(study, lake, study.model(model_name), method, log)
    if not scope.model.generates:
        return task.imported(scope, run_id)
    entry(scope.model, task.capability)
    p = _Partition(task, scope, session, run_id)
    stamp = _fingerprint(p)
    return one_at_a_time(
        study, lake, task.table, scope.name, stamp, scope.model, lambda: _compute(p, stamp), log
    )


@dataclass(frozen=True)
class _Partition:
    """One partition to be."""

    task: Task
    scope: Scope
    session: ModelSession
    run_id: str

    @property
    def label(self) -> str:
        """Its name for people."""
        return f"{self.task.table} {self.scope.name}"


def one_at_a_time(
    study: Study,
    lake: Lake,
    table: str,
    name: str,
    stamp: str,
    model: Model,
    compute: Callable[[], Computed],
    log: logging.Logger,
) -> Outcome:
    """Materialise partition `name` while no other process generates with the model for this study.

    Another process waits, and then finds the partition current; one that is current already waits for nobody.
    """
    current = lake.current(table, stamp, name)
    if current:
        return Outcome(table, name, current, was_current=True)
    with model_lock(study.home.locks, model.name, log):
        return lake.materialise(table, stamp, compute, name)


def _fingerprint(p: _Partition) -> str:
    """A hash of all that decides the rows; not of how fast or where they are computed, nor of what it may cost."""
    model = p.scope.model
    identity = p.session.identity(model)
    return fingerprint(
        p.task.table,
        p.task.decisive(p.scope),
        [model.name, model.device_hour_usd, model.rambles, identity.weights, identity.rules],
        p.task.inputs(p.scope),
        p.task.code_version(),
    )


def _compute(p: _Partition, stamp: str) -> Computed:
    started = time.monotonic()
    plan, model, log = p.task.plan(p.scope), p.scope.model, p.scope.log
    measures = MEASURE in BACKENDS[model.backend].capabilities
    identity = p.session.identity(model)
    with RowCache(p.scope.study.home.row_cache, identity, log, measures=measures) as cache:
        done = complete(Job(model, cache, p.session, stamp, p.label, log), plan.items)
    rejected = _quarantined(p, plan, done)
    table = _table(p, plan, done, stamp)
    told = {**notes(table, done), "failed": len(rejected), "without_passage": plan.n_without_passage}
    return Computed(table, rejected, {**told, "seconds": round(time.monotonic() - started, 3)})


def _quarantined(p: _Partition, plan: Plan[Item], done: Completed) -> list[QuarantinedRow]:
    """The rows whose results failed. Errors: `BackendError` where all did."""
    failed = [
        (item, part, done.failures[key])
        for item, keys in zip(plan.items, done.distinct.keys, strict=True)
        for part, key in enumerate(keys)
        if key in done.failures
    ]
    if not failed:
        return []
    reason = failed[0][2].reason
    if len(failed) == sum(map(len, done.distinct.keys)):
        raise BackendError(f"{p.label}: all {len(failed)} generations failed, the first one: {reason}")
    p.scope.log.warning("%s: %s generations failed, see quarantine: %s", p.label, len(failed), reason)
    return [
        QuarantinedRow(_row_key(p.task, item, part), failure.reason, item.prompt().text[:_RAW_CHARACTERS])
        for item, part, failure in failed
    ]


def _row_key(task: Task, item: Item, part: int) -> str:
    """The key columns in one text."""
    key = item.key(part)
    return "/".join(str(key[name]) for name in task.keys)


def _table(p: _Partition, plan: Plan[Item], done: Completed, stamp: str) -> pa.Table:
    """The rows that have a result, few at a time as Python objects."""
    schema = TABLES[p.task.table].schema
    make = _Rows(p, done, stamp)
    progress = Progress(p.scope.log, f"{p.label}: rows", len(plan.items))
    chunks = [schema.empty_table()]
    for start in range(0, len(plan.items), _CHUNK_ITEMS):
        numbers = range(start, min(start + _CHUNK_ITEMS, len(plan.items)))
        rows = [row for number in numbers for row in make.rows(number, plan.items[number])]
        chunks.append(pa.Table.from_pylist(rows, schema=schema))
        progress.add(len(numbers))
    progress.done()
    return pa.concat_tables(chunks)


class _Rows:
    """Makes rows, and remembers which results it has met: the first row of a result bears the prompt's tokens."""

    def __init__(self, p: _Partition, done: Completed, stamp: str) -> None:
        self._p, self._done, self._stamp = p, done, stamp
        self._copies = Counter(chain.from_iterable(done.distinct.keys))
        self._met: set[bytes] = set()
        self._identity = p.session.identity(p.scope.model)
        self._constants = {
            "model": p.scope.model.name,
            "method": p.scope.method,
            "revision": self._identity.revision,
            "dtype": self._identity.dtype,
            "quantisation": self._identity.quantisation,
            "run_id": p.run_id,
            "code_version": p.task.code_version(),
        }

    def rows(self, number: int, item: Item) -> Iterator[dict[str, Any]]:
        """The rows of an item: one per part that has a result."""
        request, distinct = item.request, self._done.distinct
        for part, (key, seed) in enumerate(zip(distinct.keys[number], request.seeds, strict=True)):
            cached = self._done.rows.get(key)
            if cached is None:
                continue
            yield {
                **self._constants,
                **item.key(part),
                **self._p.task.row(self._p.scope, item, part, cached.result),
                **accounts(cached.result, self._p.scope.model, self._copies[key], key not in self._met),
                "prompt_hash": distinct.of_item[number].prompt_hash,
                "decoding": how(request, self._identity),
                "seed": self._p.scope.study.seed if seed is None else seed,
                "engine": cached.engine,
                "is_reused": cached.origin != self._stamp,
                "generated_for": cached.origin,
            }
            self._met.add(key)
