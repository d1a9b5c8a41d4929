"""One partition of a table that a model wrote: current or not, generated, made into rows, once at a time.

What belongs here: fingerprints, rows, the quarantine. What does not: which tables there are (`run`,
`backgrounds`), prompts (`plan`), generating (`resume`), what rows cost (`accounts`).

A row's `is_reused` is true where its generation was computed for another partition fingerprint (another
study, an earlier state of this one, other code). Rows computed for this same fingerprint before a run was
killed are resumed, not reused, so that a resumed partition equals an uninterrupted one.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from dagster_project.core.errors import BackendError
from dagster_project.core.fingerprints import code_version, fingerprint
from dagster_project.core.generation.backends.base import Decoding
from dagster_project.core.generation.engine.accounts import accounts, notes
from dagster_project.core.generation.engine.job import Completed, Job
from dagster_project.core.generation.engine.progress import Progress
from dagster_project.core.generation.engine.resume import complete_prompts
from dagster_project.core.generation.engine.row_cache import RowCache
from dagster_project.core.generation.engine.session import ModelSession, model_lock
from dagster_project.core.generation.plan import Plan, PlannedRow
from dagster_project.core.lake import Computed, Lake, Outcome, QuarantinedRow
from dagster_project.core.study.backends import IMPORTED
from dagster_project.core.study.study import Model, Study
from dagster_project.core.tables import TABLES

_CHUNK_ROWS = 4096
_RAW_CHARACTERS = 2000
"""What the quarantine keeps of a prompt."""


@dataclass(frozen=True)
class Partition:
    """One partition to be: what it is made from, and how its rows come to be.

    `inputs` are content hashes of what it is made from, `decisive` the keys of the study that matter to it.
    `written` makes a row's own columns from its plan and the text as generated; `columns` are the same in all
    rows.
    """

    study: Study
    lake: Lake
    table: str
    name: str
    model: Model
    decoding: Decoding
    inputs: Sequence[str]
    decisive: Mapping[str, Any]
    columns: Mapping[str, Any]
    plan: Callable[[], Plan]
    written: Callable[[PlannedRow, str], Mapping[str, Any]]
    session: ModelSession
    run_id: str
    log: logging.Logger

    @property
    def label(self) -> str:
        """Its name for people."""
        return f"{self.table} {self.name}"


def materialise(p: Partition) -> Outcome:
    """Keep the partition where it is current, else generate what the row cache lacks and write it.

    Errors: `BackendError`, `LakeError`, `LongtailError` of the row cache; what was generated before is kept.
    """
    stamp = _fingerprint(p)
    return one_at_a_time(p.study, p.lake, p.table, p.name, stamp, p.model, lambda: _compute(p, stamp), p.log)


def without_rows(lake: Lake, table: str, name: str) -> Outcome:
    """Materialise a partition of no rows: of a model whose answers are imported nothing is generated or timed."""
    return lake.materialise(table, fingerprint(table, name, IMPORTED), lambda: Computed([]), name)


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


def _fingerprint(p: Partition) -> str:
    """A hash of all that decides the rows; not of how fast or where they are computed, nor of what it may cost."""
    identity = p.session.identity(p.model)
    model = [p.model.name, p.model.device_hour_usd, p.model.rambles, identity.weights]
    return fingerprint(
        p.table,
        p.decisive,
        model,
        identity.decoding(p.decoding),
        p.columns,
        list(p.inputs),
        code_version(p.written.__module__),
    )


def _compute(p: Partition, stamp: str) -> Computed:
    started = time.monotonic()
    plan = p.plan()
    with RowCache(p.study.home.row_cache, p.session.identity(p.model), p.log) as cache:
        done = complete_prompts(Job(p.model, p.decoding, cache, p.session, stamp, p.label, p.log), plan.rows)
    aside = _quarantined(p, plan, done)
    table = _table(p, plan, done, stamp)
    told = {**notes(table, done), "failed": len(aside), "without_passage": plan.n_without_passage}
    return Computed(table, aside, {**told, "seconds": round(time.monotonic() - started, 3)})


def _quarantined(p: Partition, plan: Plan, done: Completed) -> list[QuarantinedRow]:
    """Rows whose generation failed. Errors: `BackendError` where all did."""
    failed = [
        (row, done.failures[key])
        for row, key in zip(plan.rows, done.distinct.keys, strict=True)
        if key in done.failures
    ]
    if not failed:
        return []
    reason = failed[0][1].reason
    if len(failed) == len(plan.rows):
        raise BackendError(f"{p.label}: all {len(failed)} generations failed, the first one: {reason}")
    p.log.warning("%s: %s generations failed, see quarantine: %s", p.label, len(failed), reason)
    return [
        QuarantinedRow(row.row_key, failure.reason, row.text()[:_RAW_CHARACTERS]) for row, failure in failed
    ]


def _table(p: Partition, plan: Plan, done: Completed, stamp: str) -> pa.Table:
    """The rows that were generated, few at a time as Python objects."""
    schema = TABLES[p.table].schema
    constants = _constants(p)
    progress = Progress(f"{p.label}: rows", len(plan.rows), len(plan.rows), p.log)
    copies = Counter(done.distinct.keys)
    first = {key: number for number, key in reversed(list(enumerate(done.distinct.keys)))}
    chunks = [schema.empty_table()]
    for start in range(0, len(plan.rows), _CHUNK_ROWS):
        numbers = range(start, min(start + _CHUNK_ROWS, len(plan.rows)))
        rows = [
            {**constants, **_row(p, plan.rows[i], done, i, stamp, copies[key], first[key] == i)}
            for i in numbers
            if (key := done.distinct.keys[i]) in done.rows
        ]
        chunks.append(pa.Table.from_pylist(rows, schema=schema))
        progress.advance(len(numbers), len(numbers))
    return pa.concat_tables(chunks)


def _row(
    p: Partition,
    planned: PlannedRow,
    done: Completed,
    number: int,
    stamp: str,
    n_copies: int,
    is_first: bool,
) -> dict[str, Any]:
    cached = done.rows[done.distinct.keys[number]]
    raw_text = cached.generation.text.encode("utf-8", "replace").decode()
    seed = planned.sample_seed
    return {
        **planned.keys,
        **p.written(planned, raw_text),
        **accounts(cached.generation, p.model, n_copies, is_first),
        "raw_text": raw_text,
        "prompt_hash": done.distinct.of_row[number].digest.hex(),
        "seed": p.study.seed if seed is None else seed,
        "engine": cached.engine,
        "is_reused": cached.origin != stamp,
        "generated_for": cached.origin,
    }


def _constants(p: Partition) -> dict[str, Any]:
    identity = p.session.identity(p.model)
    return {
        **p.columns,
        "model": p.model.name,
        "revision": identity.revision,
        "dtype": identity.dtype,
        "quantisation": identity.quantisation,
        "decoding": identity.decoding(p.decoding),
        "run_id": p.run_id,
        "code_version": code_version(p.written.__module__),
    }
