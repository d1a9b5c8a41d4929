"""What `longtail generate` does: asks a study's models, on a machine that needs neither Dagster nor dbt.

The study's home holds what `longtail run --prepare` made (questions, passages), and is copied here and back, unless the
machines share an object store. The tables are those of a run: `longtail run` takes them as finished. Several processes
or machines may each compute a shard.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from longtail.errors import LongtailError, single_line
from longtail.generation.engine import row_cache
from longtail.generation.engine.job import Shard
from longtail.generation.engine.partition import generate, generate_shard
from longtail.generation.engine.row_cache import DATABASE
from longtail.generation.engine.session import ModelSession
from longtail.generation.engine.task import Scope, Task
from longtail.generation.tasks.registry import TASKS, needs_of_models, tell_accuracy
from longtail.needs import needs_of_machines
from longtail.storage.files import add_advice, describe_error
from longtail.storage.home import study_file
from longtail.storage.lake import Lake
from longtail.storage.object_store import STORE
from longtail.storage.ownership import only_one
from longtail.study.file import load_study
from longtail.study.study import Study
from longtail.tables import TABLES

RUN_ID = "longtail generate"
"""What the rows name as their run."""
_LOG = logging.getLogger("longtail")


def main(shard: str = "", merge: str = "") -> int:
    """Generate what is missing; return the exit code. A model that fails is one line on standard error.

    `shard`: such as 2/4, for the second of four parts. `merge`: folders of row caches, whose results are added first.
    """
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    try:
        study, part = load_study(study_file()), _read_shard(shard)
        for need in (*needs_of_machines(), *needs_of_models(study)):
            need.check()
        for other in filter(None, merge.split(os.pathsep)):
            n = row_cache.merge(study.home.row_cache, Path(other), _LOG)
            _LOG.info("%s: %s results are in the row cache now", other, f"{n:,}")
        with _alone(study, part):
            failures = list(_of_all_models(study, part))
    except (LongtailError, OSError) as error:
        failures = [_line(error)]
    for failure in failures:
        print(f"error: {failure}", file=sys.stderr)
    if failures:
        return 1
    if part is None:
        copied = "" if os.environ.get(STORE) else f"Copy {study.home.root} back; "
        print(f"All is generated. {copied}`longtail run` finishes the study where it was prepared.")
        return 0
    is_shared = bool(os.environ.get(DATABASE))
    place = f"the database of {DATABASE}" if is_shared else study.home.row_cache
    merging = "" if is_shared else "; with --merge, it adds the results of other machines first"
    print(
        f"Shard {part} is done; its results are in {place}. After all shards, run `longtail generate` without "
        f"--shard{merging}."
    )
    return 0


def _read_shard(text: str) -> Shard | None:
    """Errors: `LongtailError` unless `text` is empty or a number and how many there are, such as 2/4."""
    if not text:
        return None
    found = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", text)
    if not found or int(found[1]) > int(found[2]):
        raise LongtailError(f"shard {text!r}: give one of several, such as 2/4 for the second of four")
    return Shard(int(found[1]), int(found[2]))


@contextlib.contextmanager
def _alone(study: Study, shard: Shard | None) -> Iterator[None]:
    """No other run of the study, and no other process with the same shard; other shards may run beside it."""
    locks, busy = study.home.locks, f"another run works on study {study.name}; wait for it"
    with contextlib.ExitStack() as held:
        held.enter_context(only_one(locks / "run.lock", busy, shared=shard is not None))
        if shard:
            own = locks / f"shard-{shard.number}-of-{shard.count}.lock"
            held.enter_context(only_one(own, f"another process computes shard {shard} of {study.name}"))
        yield


def _of_all_models(study: Study, shard: Shard | None) -> Iterator[str]:
    """Every model after the other; yields why one is not finished."""
    lake = Lake.of(study.name, study.home.lake)
    with ModelSession(_LOG) as session:
        for model in study.models:
            scope = Scope(study, lake, model, None, _LOG)
            try:
                lake.synchronise()
                if shard:
                    _shard_of_model(scope, shard, session)
                else:
                    for task, own in _partitions(scope):
                        _make(task, own, session)
            except (LongtailError, OSError) as error:
                yield f"{model.name}: {_line(error)}"


def _make(task: Task, scope: Scope, session: ModelSession) -> None:
    study, lake, model = scope.study, scope.lake, scope.model.name
    outcome = generate(task, study, lake, model, scope.method, session=session, run_id=RUN_ID, log=_LOG)
    state = "was finished before" if outcome.was_current else f"{outcome.stamp.n_rows:,} rows"
    _LOG.info("%s %s: %s", task.table, scope.name, state)
    tell_accuracy(lake, outcome, _LOG)


def _shard_of_model(scope: Scope, shard: Shard, session: ModelSession) -> None:
    """The last shard makes a table, unless a result failed. What is made from a table waits until that is made."""
    if scope.model.service:
        _LOG.info("%s: not sharded, since a service answers; `longtail run` asks it", scope.model.name)
        return
    unfinished = set()
    for task, own in _partitions(scope):
        if (before := task.source_table(own)) in unfinished:
            _LOG.info(
                "%s %s waits for %s: when all shards are done, run them again", task.table, own.name, before
            )
            continue
        n_done, n_all = generate_shard(task, own, shard, session)
        if n_done == n_all:
            _make(task, own, session)
        else:
            unfinished.add(task.table)
            _LOG.info("%s %s: %s of %s results are there", task.table, own.name, f"{n_done:,}", f"{n_all:,}")


def _partitions(scope: Scope) -> Iterator[tuple[Task, Scope]]:
    """What a model is asked for: tables in their order, with each method for those that are partitioned by it."""
    for table, task in TASKS.items():
        if scope.model.generates and task.is_asked(scope.study):
            by_method = "method" in TABLES[table].partitioned_by
            for method in scope.study.methods if by_method else (None,):
                yield task, dataclasses.replace(scope, method=method)


def _line(error: LongtailError | OSError) -> str:
    return describe_error(error) if isinstance(error, OSError) else add_advice(single_line(str(error)))
