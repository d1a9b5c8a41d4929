"""Which runs are alive: each process holds its run's lock file, so that a run killed with -9 is recognised."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from longtail.errors import LongtailError
from longtail.storage.files import sync

_GRACE_S = 60.0
_HELD: dict[Path, int] = {}
PLACE = "longtail/place"
"""The tag of a run that says in which home its lock is."""


def place_of(locks: Path) -> str:
    """The random id of the home with these locks; it is made when it is first needed.

    The file that has it also has its own inode, so that a copy of the home gets another id. Errors: `OSError`.
    """
    path = locks / "place"
    if place := _place(path):
        return place
    with only_one(locks / "place.lock", None):
        if place := _place(path):  # another process was first
            return place
        place, temporary = uuid.uuid4().hex, locks / "place.new"
        temporary.unlink(missing_ok=True)
        with temporary.open("x", encoding="ascii") as file:
            file.write(f"{place} {os.fstat(file.fileno()).st_ino}\n")
        sync(temporary)
        os.replace(temporary, path)
        return place


def _place(path: Path) -> str | None:
    """The id in a file, unless the file is a copy."""
    try:
        words = path.read_bytes().decode("ascii", "replace").split()
        return words[0] if len(words) == 2 and words[1] == str(path.stat().st_ino) else None
    except FileNotFoundError:
        return None


def hold_run(locks: Path, run_id: str) -> None:
    """Hold the lock of `run_id` until this process ends, for whatever reason. A second call changes nothing."""
    path = _run_lock(locks, run_id)
    if path in _HELD:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    fcntl.flock(descriptor, fcntl.LOCK_SH)  # shared: every process of a run may hold it
    _HELD[path] = descriptor


def is_run_dead(locks: Path, run_id: str, started_at: float | None) -> bool:
    """Whether no process holds the lock of a run that should be running.

    A run without a lock file counts as dead only a minute after `started_at` (seconds since the epoch):
    before, it may not have taken its lock yet. A start that far in the future tells of a clock that was set back.
    """
    path = _run_lock(locks, run_id)
    if path in _HELD:
        return False
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return started_at is None or abs(time.time() - started_at) > _GRACE_S
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def forget_run(locks: Path, run_id: str) -> None:
    """Remove the lock file of a run that has ended; release the lock if this process holds it."""
    path = _run_lock(locks, run_id)
    descriptor = _HELD.pop(path, None)
    path.unlink(missing_ok=True)
    if descriptor is not None:
        os.close(descriptor)


def list_runs(locks: Path) -> list[str]:
    """Ids of the runs that have a lock file, held or not."""
    return sorted(path.stem for path in (locks / "runs").glob("*.lock"))


@contextlib.contextmanager
def only_one(
    path: Path, message: str | None, *, shared: bool = False, on_wait: Callable[[], None] | None = None
) -> Iterator[None]:
    """Hold `path` exclusively, or `shared` with others that do; the lock is the kernel's and ends with the process.

    If another living process holds it otherwise: `LongtailError(message)`; without a message, call `on_wait` and wait.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    how = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        try:
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
        except BlockingIOError:
            if message:
                raise LongtailError(message) from None
            if on_wait:
                on_wait()
            fcntl.flock(descriptor, how)
        yield
    finally:
        os.close(descriptor)


def model_lock(folder: Path, model_name: str, log: logging.Logger) -> AbstractContextManager[None]:
    """Hold `<folder>/generation-<model>.lock`; wait, and say so, while another process holds it."""
    said = f"{model_name}: another run generates with this model; waiting"
    return only_one(folder / f"generation-{model_name}.lock", None, on_wait=lambda: log.info(said))


def _run_lock(locks: Path, run_id: str) -> Path:
    return locks / "runs" / f"{run_id}.lock"
