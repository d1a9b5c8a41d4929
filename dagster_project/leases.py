"""Leases of runs, where several machines share a history in Postgres: a machine that is gone does not block the others.

A lease ends by the database's clock, never by a machine's. The machine whose lease was taken stops, and what it has begun
changes nothing: the row cache keeps the first result, and the store of the lake refuses what it has not seen.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
from collections.abc import Callable

import dagster as dg
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from longtail.errors import single_line

LEASE_S = 300.0
"""A run may be silent for so long: some compiled loops let no other thread run meanwhile."""
EVERY_S = 15.0
_LOG = logging.getLogger("longtail")
_TABLE = "create table if not exists longtail_leases (run_id text primary key, place text, ends timestamptz)"
_ENDS = "clock_timestamp() + :seconds * interval '1 second'"
_RENEW = (
    f"insert into longtail_leases values (:run, :place, {_ENDS}) "  # noqa: S608
    "on conflict (run_id) do update set ends = excluded.ends where longtail_leases.place = excluded.place"
)
_RELEASE = "delete from longtail_leases where run_id = :run and place = :place"
_TAKE = (
    "update longtail_leases set place = null where run_id = :run and ends < clock_timestamp() "
    # nobody could renew a lease while the server was away
    "and pg_postmaster_start_time() < clock_timestamp() - :seconds * interval '1 second'"
)


class Lease:
    """The lease of a run of this process, from now until `release`; meanwhile `reap` is called again and again.

    If another machine has taken it, this process is interrupted as by Ctrl-C. Errors: `DBAPIError`.
    """

    def __init__(
        self, instance: dg.DagsterInstance, run_id: str, place: str, reap: Callable[[], object]
    ) -> None:
        self._instance, self._reap = instance, reap
        self._own = {"run": run_id, "place": place}
        self._released = threading.Event()
        try:
            _execute(instance, _TABLE)
        except DBAPIError:  # another machine makes it at the same time
            _execute(instance, _TABLE)
        self._renew()
        self._thread = threading.Thread(target=self._keep, name=f"lease of {run_id}", daemon=True)
        self._thread.start()

    def release(self) -> None:
        self._released.set()
        self._thread.join()
        with contextlib.suppress(Exception):  # it will end by itself
            _execute(self._instance, _RELEASE, **self._own)

    def _keep(self) -> None:
        while not self._released.wait(EVERY_S):
            try:
                if not self._renew():
                    _LOG.error(
                        "run %s: this machine was silent for so long that another has marked it as failed; it stops",
                        self._own["run"][:8],
                    )
                    os.kill(os.getpid(), signal.SIGINT)
                    return
                self._reap()
            except Exception as error:  # of Dagster's own kinds, too, while the server is away
                _LOG.warning(
                    "the run's lease could not be renewed, and is tried again: %s", single_line(str(error))
                )

    def _renew(self) -> bool:
        return _execute(self._instance, _RENEW, seconds=LEASE_S, **self._own) == 1


def has_leases(instance: dg.DagsterInstance) -> bool:
    """Whether the history is in Postgres."""
    return hasattr(instance.run_storage, "postgres_url")


def take(instance: dg.DagsterInstance, run_id: str) -> bool:
    """Whether the lease of a run has ended; nobody can renew it afterwards."""
    return has_leases(instance) and _execute(instance, _TAKE, run=run_id, seconds=LEASE_S) == 1


def _execute(instance: dg.DagsterInstance, statement: str, **values: object) -> int:
    with instance.run_storage.connect() as connection:  # type: ignore[attr-defined]
        return int(connection.execute(text(statement), values).rowcount)
