"""Opening a study's Dagster instance as an operator: its home, pool limits, runs whose process died, failing disks.

`run.py` and `ui.py` begin with this; nothing here knows of assets.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
from sqlalchemy.exc import DBAPIError

from dagster_project.core.disk import advised, full_disk, has_no_room, is_disk_full
from dagster_project.core.errors import LongtailError, StudyError, single_line
from dagster_project.core.files import STAGING, atomic_file, remove_leftovers
from dagster_project.core.home import PROJECT_ROOT, StudyHome, longtail_home
from dagster_project.core.ownership import forget_run, is_run_dead, locked_runs
from dagster_project.core.study.file import load_study
from dagster_project.core.study.study import Study

STATE_ERRORS = (OSError, sqlite3.Error, DBAPIError)
"""What a disk or the run history's database raises: the user can act on it, as on a `LongtailError`."""

POOL_LIMITS = {"gpu": 1, "warehouse": 1}
_UNFINISHED = [
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
_ENDED = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]


@contextmanager
def open_instance(study: Study) -> Iterator[dg.DagsterInstance]:
    """The study's Dagster instance, with pool limits set and dead runs reaped.

    Errors: `StudyError` where the home is another study's.
    """
    home = study.home
    claim_home(study)
    prepare_dagster_home(home)
    with dg.DagsterInstance.get() as instance:
        for pool, limit in POOL_LIMITS.items():
            instance.event_log_storage.set_concurrency_slots(pool, limit)
        reap_dead_runs(instance, home)
        yield instance


def is_for_the_user(error: Exception) -> bool:
    """Whether the user can act on an error, in one line; any other is a fault of the program and keeps its trace."""
    return isinstance(error, (LongtailError, *STATE_ERRORS)) or is_disk_full(error)


def error_line(error: BaseException) -> str:
    """One line for the user: which path or key, and what to do."""
    if isinstance(error, LongtailError):
        return advised(single_line(str(error)))
    # SQLite says of a full disk also that it cannot read or write; other libraries have words of their own.
    if not isinstance(error, STATE_ERRORS) or (
        not isinstance(error, OSError) and has_no_room(longtail_home())
    ):
        return full_disk(longtail_home())
    if isinstance(error, OSError):
        place = error.filename or f"LONGTAIL_HOME ({longtail_home()})"
        what = f"{place}: {error.strerror or error}"
    else:
        cause = error.orig if isinstance(error, DBAPIError) else error
        what = f"LONGTAIL_HOME ({longtail_home()}): the run history's database: {cause}"
    line = (
        f"{what}; make room and check that it is writable, or choose another folder: LONGTAIL_HOME=<folder>"
    )
    return single_line(line)


def claim_home(study: Study) -> None:
    """Note in the home which study file it belongs to. Errors: `StudyError` where another file has that name."""
    note, path = study.home.root / "study_file", study.path.resolve()
    noted = note.read_bytes() if note.exists() else b""
    owner = Path(os.fsdecode(noted.strip())) if noted.strip() else path  # a full disk once left empty notes
    if owner != path and _is_named(owner, study.name):
        raise StudyError(
            f"{path}: name: {study.name!r} is the name of {owner} too, whose state is in {study.home.root}; "
            f"give one of them another name"
        )
    _write(note, os.fsencode(path) + b"\n", study.home)


def _write(path: Path, content: bytes, home: StudyHome) -> None:
    """Write a small file whole or not at all, unless it is so already."""
    if not path.exists() or path.read_bytes() != content:
        with atomic_file(path, staging=home.root / STAGING) as temporary:
            temporary.write_bytes(content)


def _is_named(study_file: Path, name: str) -> bool:
    """Whether the file is there and names its study so; one that cannot be read at present counts as doing so."""
    if not study_file.is_file():
        return False
    try:
        return load_study(study_file).name == name
    except StudyError:
        return True


def prepare_dagster_home(home: StudyHome) -> None:
    """Make the Dagster home with the project's settings, and point this process to it, and the hub's cache."""
    keep_downloads_in(home)
    remove_leftovers(home.root / STAGING)
    _write(home.dagster / "dagster.yaml", (PROJECT_ROOT / "dagster.yaml").read_bytes(), home)
    os.environ["DAGSTER_HOME"] = str(home.dagster)


def keep_downloads_in(home: StudyHome) -> None:
    """Point the hub's cache to the home, unless the user has named one. huggingface_hub reads this when imported."""
    os.environ.setdefault("HF_HOME", str(home.cache / "huggingface"))


def reap_dead_runs(instance: dg.DagsterInstance, home: StudyHome) -> list[str]:
    """Mark runs as failed whose process is gone, and free the pool slots that they hold; returns their ids.

    A run killed with -9 stays STARTED and keeps its slots, and the next run would wait for ever.
    """
    dead = []
    for record in instance.get_run_records(dg.RunsFilter(statuses=_UNFINISHED)):
        run = record.dagster_run
        if is_run_dead(home.locks, run.run_id, _began(record)):
            instance.report_run_failed(
                run, "The run's process died; its finished rows are kept. Run it again."
            )
            dead.append(run.run_id)
            logging.getLogger("longtail").info(
                "run %s was dead: marked as failed, its slots freed", run.run_id[:8]
            )
    _free_slots_of_ended_runs(instance, home)
    _forget_ended_runs(instance, home)
    return dead


def _began(record: dg.RunRecord) -> float:
    """Start in seconds since the epoch; of a run not yet started its last change: it may have queued for long."""
    return record.start_time or record.update_timestamp.timestamp()


def _forget_ended_runs(instance: dg.DagsterInstance, home: StudyHome) -> None:
    """Remove the lock files of ended runs; a process that still holds its lock keeps it."""
    for run_id in locked_runs(home.locks):
        run = instance.get_run_by_id(run_id)
        if (run is None or run.status in _ENDED) and is_run_dead(home.locks, run_id, None):
            forget_run(home.locks, run_id)


def _free_slots_of_ended_runs(instance: dg.DagsterInstance, home: StudyHome) -> None:
    storage = instance.event_log_storage
    infos = [storage.get_concurrency_info(pool) for pool in POOL_LIMITS]
    holders = {slot.run_id for info in infos for slot in info.claimed_slots}
    # A step killed between being assigned a slot and claiming it is pending, and blocks the pool all the same.
    holders |= {step.run_id for info in infos for step in info.pending_steps}
    for run_id in holders:
        run = instance.get_run_by_id(run_id)
        if run is None or run.status in _ENDED:
            storage.free_concurrency_slots_for_run(run_id)
            forget_run(home.locks, run_id)
