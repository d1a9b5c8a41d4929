"""Which runs are alive: each process holds its run's lock file, so that a run killed with -9 is recognised."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from longtail.errors import LongtailError
from longtail.storage.files import STAGING, stage

_HELD: dict[Path, int] = {}


def hold_run(folder: Path, run_id: str) -> None:
    """Hold the lock of `run_id` until this process ends, for whatever reason. A second call changes nothing.

    A new lock file is locked before it gets its name: a start of the home takes one without a lock for a dead run's.
    """
    path = _run_lock(folder, run_id)
    if path in _HELD:
        return
    folder.mkdir(parents=True, exist_ok=True)
    with stage(folder.parent / STAGING, path.name) as new:
        descriptor = _lock_shared(new)
        try:
            os.link(new, path)
        except FileExistsError:  # another process of this run holds it, too
            os.close(descriptor)
            descriptor = _lock_shared(path)
    _HELD[path] = descriptor


def _lock_shared(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    return descriptor


def list_dead_runs(folder: Path) -> list[str]:
    """Ids of the runs whose lock file is there, but held by no process."""
    return sorted(path.stem for path in folder.glob("*.lock") if path not in _HELD and _is_free(path))


def _is_free(path: Path) -> bool:
    try:
        with only_one(path, "is held"):
            return True
    except LongtailError:
        return False


def forget_run(folder: Path, run_id: str) -> None:
    """Remove the lock file of a run that has ended; release the lock if this process holds it."""
    path = _run_lock(folder, run_id)
    descriptor = _HELD.pop(path, None)
    path.unlink(missing_ok=True)
    if descriptor is not None:
        os.close(descriptor)


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


def _run_lock(folder: Path, run_id: str) -> Path:
    return folder / f"{run_id}.lock"
