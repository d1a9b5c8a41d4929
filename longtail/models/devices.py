"""Leases of GPUs: one process holds a GPU at a time, over all studies, homes and users of a machine.

A lease is a `flock` on a file named after the GPU, in one folder per machine: `/tmp/longtail-leases`, or
`$LONGTAIL_LEASES` (containers that share GPUs need a folder that they share too). The kernel drops it with
its process, also after kill -9. A process that holds a GPU shares it with itself: a second model of the same
process goes to the same GPU.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import re
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from longtail.errors import BackendError

_LOG = logging.getLogger(__name__)
_FOLDER = "/tmp/longtail-leases"  # noqa: S108 - every user's processes must agree on it, and TMPDIR is one's own
_POLL_SECONDS = 0.5
_REMIND_SECONDS = 30.0


@dataclass
class _Held:
    descriptor: int
    n_leases: int


_HELD: dict[Path, _Held] = {}
"""The GPUs that this process holds: a second `flock` of the same process would wait for itself."""
_GUARD = threading.Lock()


@dataclass(frozen=True)
class Lease:
    """GPUs held for one model: `positions` among those visible, `paths` of their lock files."""

    positions: tuple[int, ...] = ()
    paths: tuple[Path, ...] = ()

    def release(self) -> None:
        """Give the GPUs back; to be called once."""
        for path in self.paths:
            _release(path)


def lease_folder() -> Path:
    """The folder of the lock files, made where it is missing and open to all users."""
    folder = Path(os.environ.get("LONGTAIL_LEASES") or _FOLDER)
    with contextlib.suppress(FileExistsError):
        folder.mkdir(parents=True)
        folder.chmod(0o1777)
    return folder


def visible_gpus() -> list[str]:
    """A name for each GPU that torch sees, the same in every process of the machine."""
    import torch

    if not torch.cuda.is_available():
        return []
    # slices of one GPU (MIG) may share its UUID, so the name under which they were made visible counts
    named = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    return [
        named[i].strip()
        if i < len(named) and named[i].strip().startswith("MIG-")
        else str(torch.cuda.get_device_properties(i).uuid)
        for i in range(torch.cuda.device_count())
    ]


def lease_one(gpus: Sequence[str], positions: Sequence[int], folder: Path, model_name: str) -> Lease:
    """The first free GPU among `positions` of the visible `gpus`; a GPU that this process holds already comes first.

    It waits, and says so, while all are taken. Errors: `BackendError`.
    """
    paths = {_path(folder, gpus[position]): position for position in positions}
    reminded = float("-inf")
    while True:
        for path in sorted(paths, key=lambda path: path not in _HELD):
            if _acquire(path, model_name):
                return Lease((paths[path],), (path,))
        reminded = _wait(paths, model_name, reminded)


def lease_all(gpus: Sequence[str], folder: Path, model_name: str) -> Lease:
    """All visible GPUs; waits, and says so, for those that are taken. Errors: `BackendError`.

    Every process takes them in the same order, so that two processes that want all never wait for each other.
    """
    positions = sorted(range(len(gpus)), key=gpus.__getitem__)
    taken: list[Path] = []
    try:
        for position in positions:
            path = _path(folder, gpus[position])
            reminded = float("-inf")
            while not _acquire(path, model_name):
                reminded = _wait([path], model_name, reminded)
            taken.append(path)
    except BaseException:
        for path in taken:
            _release(path)
        raise
    return Lease(tuple(positions), tuple(taken))


def _path(folder: Path, gpu: str) -> Path:
    return folder / f"gpu-{re.sub(r'[^A-Za-z0-9-]', '_', gpu)}.lock"


def _acquire(path: Path, model_name: str) -> bool:
    with _GUARD:
        if path in _HELD:
            _HELD[path].n_leases += 1
            return True
        descriptor = _open(path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"process {os.getpid()} with {model_name}".encode())
        _HELD[path] = _Held(descriptor, 1)
        return True


def _release(path: Path) -> None:
    with _GUARD:
        held = _HELD[path]
        held.n_leases -= 1
        if held.n_leases == 0:
            os.close(_HELD.pop(path).descriptor)


def _open(path: Path) -> int:
    """Another user's file is opened without O_CREAT, which kernels refuse in a folder like /tmp."""
    try:
        with contextlib.suppress(FileNotFoundError):
            return os.open(path, os.O_RDWR | os.O_NOFOLLOW)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW)
        with contextlib.suppress(PermissionError):  # another user was quicker
            os.fchmod(descriptor, 0o666)
        return descriptor
    except OSError as error:
        raise BackendError(
            f"no GPU can be leased: {path} cannot be opened ({error.strerror}); set LONGTAIL_LEASES to a folder "
            "that every process on this machine may write to"
        ) from None


def _wait(paths: Sequence[Path] | dict[Path, int], model_name: str, reminded: float) -> float:
    """Sleep a moment; the time when the log last named the holders of the GPUs."""
    if time.monotonic() - reminded >= _REMIND_SECONDS:
        reminded = time.monotonic()
        owners = ", ".join(
            dict.fromkeys(path.read_text(errors="replace") or "another process" for path in paths)
        )
        _LOG.info("%s: waiting for a GPU; held by %s", model_name, owners)
    time.sleep(_POLL_SECONDS)
    return reminded
