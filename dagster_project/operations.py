"""Opens the Dagster instance of a home for an operator: its owner, runs whose process died, failing disks.

`run.py` and `ui.py` start with this module; it knows no assets.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ParamSpec

import dagster as dg
import yaml
from sqlalchemy import event
from sqlalchemy.engine import Engine
from sqlalchemy.exc import DBAPIError

from longtail.errors import LongtailError, StudyError, single_line
from longtail.storage.files import (
    MAKE_ROOM,
    STAGING,
    add_advice,
    atomic_file,
    describe_error,
    full_disk,
    has_no_room,
    is_disk_full,
    remove_leftovers,
)
from longtail.storage.home import PROJECT_ROOT, StudyHome, longtail_home
from longtail.storage.ownership import forget_run, list_dead_runs, only_one
from longtail.storage.sqlite_file import PATIENCE_S
from longtail.study.file import load_study
from longtail.study.study import Study

Parameters = ParamSpec("Parameters")
STATE_ERRORS = (OSError, sqlite3.Error, DBAPIError)
"""Errors of a disk or of the run history's database: the user can correct them, as with a `LongtailError`."""

STUDY = "longtail/study"
"""The tag of a run that names its study."""

RUN_SETTINGS = "run.yaml"
"""The settings of `make run`, whose display shows what stages print: Dagster then starts no processes that copy it,
unless the user's own settings say where to."""
_NO_COPIES = {"compute_logs": {
    "module": "dagster._core.storage.noop_compute_log_manager", "class": "NoOpComputeLogManager"
}}  # fmt: skip
_LOG = logging.getLogger("longtail")
_OWN_SETTINGS = "LONGTAIL_DAGSTER_YAML"
_OWNER = "study_file"
"""The file of a home that has the path of its study file."""


@contextmanager
def open_instance(study: Study, settings: str = "dagster.yaml") -> Iterator[dg.DagsterInstance]:
    """The Dagster instance of the study's home, with dead runs marked as failed. `settings`: a file of its folder.

    Errors: `StudyError` where the home belongs to another study.
    """
    home = study.home
    claim_home(study)
    prepare_dagster_home(home)
    with ExitStack() as stack:
        stack.enter_context(ease_history(home.dagster))
        # Dagster makes the tables of a new home, and two processes that did so at once would fail.
        with only_one(home.home / "locks" / "history.lock", None):
            instance = stack.enter_context(_instance(home.dagster, settings))
            reap_dead_runs(instance, home)
        yield instance


def check_settings() -> None:
    """Open an instance in a temporary folder by the user's own settings, if there are any. Errors: as `_instance`."""
    if own := os.environ.get(_OWN_SETTINGS):
        with TemporaryDirectory() as folder:
            Path(folder, "dagster.yaml").write_bytes(_settings(own))
            _instance(Path(folder), "dagster.yaml").dispose()


def _instance(folder: Path, settings: str) -> dg.DagsterInstance:
    """Errors: `LongtailError` where Dagster refuses the user's own settings."""
    own = os.environ.get(_OWN_SETTINGS)
    if own:
        # With a root logger without a handler, the first warning of a lost connection would print all later lines twice.
        logging.getLogger().addHandler(logging.NullHandler())
    try:
        return dg.DagsterInstance.from_config(str(folder), settings)
    except Exception as error:
        if is_for_the_user(error) or not own:
            raise
        cause = error.__cause__ or error  # a package that is missing, or a key that is unknown
        if isinstance(cause, dg.DagsterInvalidConfigError):
            cause = cause.errors[0].message.partition(" Expected: ")[0]  # all that Dagster knows follows
        raise LongtailError(f"{_OWN_SETTINGS} ({own}): Dagster refuses it: {cause}") from error


def is_for_the_user(error: Exception) -> bool:
    """Whether the user can correct the error. It is then shown in one line; any other error is a bug and keeps its
    trace."""
    is_of_postgres = isinstance(error.__cause__, DBAPIError)  # which was asked in vain several times
    return isinstance(error, (LongtailError, *STATE_ERRORS)) or is_disk_full(error) or is_of_postgres


def in_one_line(main: Callable[Parameters, int]) -> Callable[Parameters, int]:
    """A command that gives its exit code: errors for the user become one line on standard error, and the code 1."""

    @functools.wraps(main)
    def report_in_one_line(*arguments: Parameters.args, **parameters: Parameters.kwargs) -> int:
        try:
            return main(*arguments, **parameters)
        except Exception as error:
            if not is_for_the_user(error):
                raise
            print(f"error: {error_line(error)}", file=sys.stderr)
            return 1

    return report_in_one_line


def error_line(error: BaseException) -> str:
    """One line for the user: which path or key, and what to do."""
    if isinstance(error, LongtailError):
        return add_advice(single_line(str(error)))
    if isinstance(error.__cause__, DBAPIError):
        error = error.__cause__
    if isinstance(error, DBAPIError) and not isinstance(error.orig, sqlite3.Error):
        advice = f"check that it runs, and what {_OWN_SETTINGS} says of it"
        return single_line(f"the run history's database: {error.orig}; {advice}")
    # For a full disk, SQLite may report that it cannot read or write; other libraries have other messages.
    if not isinstance(error, STATE_ERRORS) or (
        not isinstance(error, OSError) and has_no_room(longtail_home())
    ):
        return full_disk(longtail_home())
    if isinstance(error, OSError):
        return describe_error(error)
    cause = error.orig if isinstance(error, DBAPIError) else error
    return single_line(f"LONGTAIL_HOME ({longtail_home()}): the run history's database: {cause}; {MAKE_ROOM}")


def claim_home(study: Study) -> None:
    """Record in the home which study file owns it. Errors: as `check_owner`."""
    check_owner(study)
    _write(study.home.root / _OWNER, os.fsencode(study.path.resolve()) + b"\n", study.home)


def check_owner(study: Study) -> None:
    """Errors: `StudyError` where another study file of that name owns the home."""
    note, path = study.home.root / _OWNER, study.path.resolve()
    noted = note.read_bytes() if note.exists() else b""
    owner = Path(os.fsdecode(noted.strip())) if noted.strip() else path  # a full disk may leave it empty
    if owner != path and _is_named(owner, study.name):
        raise StudyError(
            f"{path}: name: {study.name!r} is also the name of {owner}, whose state is in {study.home.root}; "
            f"give one of them another name"
        )


def studies_of_home() -> dict[str, Path]:
    """The files of the studies that have run in this home, by their names, without those that cannot be read."""
    home, studies = longtail_home(), {}
    for note in (home / _OWNER, *sorted(home.glob(f"*/{_OWNER}"))):
        with suppress(OSError, StudyError):
            study = load_study(Path(os.fsdecode(note.read_bytes().strip())))
            if study.home.root == note.parent:  # another one is the home of a quick run
                studies[study.name] = study.path.resolve()
    return studies


def _write(path: Path, content: bytes, home: StudyHome, *, is_secret: bool = False) -> None:
    """Write a small file whole or not at all, unless it already has this content. A secret one is for this user alone."""
    if not path.exists() or path.read_bytes() != content:
        with atomic_file(path, staging=home.root / STAGING) as temporary:
            temporary.touch(0o600 if is_secret else 0o666)
            temporary.write_bytes(content)


def _is_named(study_file: Path, name: str) -> bool:
    """Whether the file exists and names its study so; also true if the file cannot be read at present."""
    if not study_file.is_file():
        return False
    try:
        return load_study(study_file).name == name
    except StudyError:
        return True


def prepare_dagster_home(home: StudyHome) -> None:
    """Create the Dagster home with its settings; set this process's DAGSTER_HOME."""
    remove_leftovers(home.root / STAGING)
    own = os.environ.get(_OWN_SETTINGS)
    settings = _settings(own)
    _write(home.dagster / "dagster.yaml", settings, home, is_secret=bool(own))
    without_copies = yaml.safe_dump({**_NO_COPIES, **yaml.safe_load(settings)}).encode()
    _write(home.dagster / RUN_SETTINGS, without_copies, home, is_secret=bool(own))
    os.environ["DAGSTER_HOME"] = str(home.dagster)


def _settings(path: str | None) -> bytes:
    """The project's dagster.yaml; keys of the user's `own` file replace those. Errors: `LongtailError` naming it."""
    shipped = (PROJECT_ROOT / "dagster.yaml").read_bytes()
    if not path:
        return shipped
    try:
        keys = yaml.safe_load(Path(path).read_bytes())
    except (OSError, yaml.YAMLError) as error:
        raise LongtailError(
            f"{_OWN_SETTINGS} ({path}): {getattr(error, 'strerror', None) or error}"
        ) from None
    if not isinstance(keys, dict):
        raise LongtailError(
            f"{_OWN_SETTINGS} ({path}): keys of Dagster's dagster.yaml are expected, such as storage"
        )
    return yaml.safe_dump({**yaml.safe_load(shipped), **keys}).encode()


def reap_dead_runs(instance: dg.DagsterInstance, home: StudyHome) -> list[str]:
    """Mark runs of this home whose process is gone as failed, and free their pool slots; return their ids.

    A run killed with -9 stays STARTED and keeps its slots, so that the next run would wait for ever. A home knows its
    runs by their lock files, so homes may share a history.
    """
    dead = []
    for run_id in list_dead_runs(home.runs):
        run = instance.get_run_by_id(run_id)
        if run is not None and not run.is_finished:
            instance.report_run_failed(
                run, "The run's process died; its finished rows are kept. Run it again."
            )
            dead.append(run_id)
            _LOG.info("run %s was dead: marked as failed, its slots freed", run_id[:8])
        instance.event_log_storage.free_concurrency_slots_for_run(run_id)
        forget_run(home.runs, run_id)
    return dead


@contextlib.contextmanager
def ease_history(folder: Path) -> Iterator[None]:
    """Until this ends, SQLite does not wait for the disk at every change of the databases below `folder`.

    Dagster opens and closes a database for each of a run's thousand events. SQLite then waits for the disk twice: for the
    event, and since the last connection has closed. Here one connection to each database stays open, and SQLite waits
    only where it tidies up. A killed process loses nothing, and a power cut at most the last events of the history; the
    lake does not depend on them. A lock of another process is waited for as long as in the project's own files.
    """
    connections: dict[str, sqlite3.Connection] = {}
    real = folder.resolve()

    def ease(connection: object, _record: object) -> None:
        if not isinstance(connection, sqlite3.Connection):
            return
        file = connection.execute("pragma database_list").fetchone()[2]
        if not Path(file).is_relative_to(real):
            return
        connection.execute("pragma synchronous = normal")
        connection.execute(f"pragma busy_timeout = {PATIENCE_S * 1000:.0f}")
        if file not in connections:
            connections[file] = sqlite3.connect(file, timeout=0, check_same_thread=False)
        with contextlib.suppress(
            sqlite3.OperationalError
        ):  # a new database may be locked; the next time will do
            connections[file].execute("pragma schema_version").fetchone()

    event.listen(Engine, "connect", ease)
    try:
        yield
    finally:
        event.remove(Engine, "connect", ease)
        for connection in connections.values():
            connection.close()
