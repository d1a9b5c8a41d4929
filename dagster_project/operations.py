"""Opening a study's Dagster instance as an operator: its home, pool limits, and runs whose process died.

`run.py` and `ui.py` begin with this; nothing here knows of assets.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from dagster_project.core.home import PROJECT_ROOT, StudyHome
from dagster_project.core.ownership import forget_run, is_run_dead

POOL_LIMITS = {"gpu": 1, "warehouse": 1}
_UNFINISHED = [
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
_ENDED = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]


@contextmanager
def open_instance(home: StudyHome) -> Iterator[dg.DagsterInstance]:
    """The study's Dagster instance, with pool limits set and dead runs reaped."""
    prepare_dagster_home(home)
    with dg.DagsterInstance.get() as instance:
        for pool, limit in POOL_LIMITS.items():
            instance.event_log_storage.set_concurrency_slots(pool, limit)
        reap_dead_runs(instance, home)
        yield instance


def prepare_dagster_home(home: StudyHome) -> None:
    """Make the Dagster home with the project's settings, and point this process to it."""
    home.dagster.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(PROJECT_ROOT / "dagster.yaml", home.dagster / "dagster.yaml")
    os.environ["DAGSTER_HOME"] = str(home.dagster)


def reap_dead_runs(instance: dg.DagsterInstance, home: StudyHome) -> list[str]:
    """Mark runs as failed whose process is gone, and free the pool slots that they hold; returns their ids.

    A run killed with -9 stays STARTED and keeps its slots, and the next run would wait for ever.
    """
    dead = []
    for record in instance.get_run_records(dg.RunsFilter(statuses=_UNFINISHED)):
        run = record.dagster_run
        if is_run_dead(home.locks, run.run_id, record.start_time or record.create_timestamp.timestamp()):
            instance.report_run_failed(
                run, "The run's process died; its finished rows are kept. Run it again."
            )
            dead.append(run.run_id)
            logging.getLogger("longtail").info(
                "run %s was dead: marked as failed, its slots freed", run.run_id[:8]
            )
    _free_slots_of_ended_runs(instance, home)
    return dead


def _free_slots_of_ended_runs(instance: dg.DagsterInstance, home: StudyHome) -> None:
    storage = instance.event_log_storage
    holders = {run_id for pool in POOL_LIMITS for run_id in storage.get_concurrency_info(pool).active_run_ids}
    holders |= {
        run_id for pool in POOL_LIMITS for run_id in storage.get_concurrency_info(pool).pending_run_ids
    }
    for run_id in holders:
        run = instance.get_run_by_id(run_id)
        if run is None or run.status in _ENDED:
            storage.free_concurrency_slots_for_run(run_id)
            forget_run(home.locks, run_id)
