"""A real full disk: a small file system that can grow. It is in a mount namespace of its own process, so that no other
process sees it, and it disappears with that process."""

from __future__ import annotations

import contextlib
import functools
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

_NAMESPACES = (["unshare", "--mount"], ["unshare", "--mount", "--map-root-user"])
_TRIAL = 'mount -t tmpfs -o size=64k tmpfs "$0"'
_MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class SmallDisk:
    """A folder on its own file system; only a process started by `run_with_small_disk` can create it."""

    folder: Path

    @classmethod
    def of(cls, folder: Path, mebibytes: float) -> SmallDisk:
        folder.mkdir(parents=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", _size(mebibytes), "tmpfs", str(folder)], check=True)
        return cls(folder)

    def resize(self, mebibytes: float) -> None:
        subprocess.run(["mount", "-o", f"remount,{_size(mebibytes)}", str(self.folder)], check=True)


@contextlib.contextmanager
def files_up_to(n_bytes: int) -> Iterator[None]:
    """No file of this process may grow beyond `n_bytes`: the operating system refuses the write, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def _size(mebibytes: float) -> str:
    return f"size={round(mebibytes * 1024)}k"


def run_with_small_disk(
    module: str, *arguments: str, timeout: float = 600
) -> subprocess.CompletedProcess[str]:
    """Run `python -m module` where it can mount a small disk; skip the test with a reason where mounting is forbidden."""
    command = [*_namespace(), sys.executable, "-m", module, *arguments]
    project = str(Path(__file__).resolve().parents[1])
    environment = {**os.environ, "PYTHONPATH": project}
    return subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True, timeout=timeout
    )


@functools.cache
def _namespace() -> list[str]:
    for namespace in _NAMESPACES if shutil.which("unshare") else ():
        trial = subprocess.run([*namespace, "sh", "-c", _TRIAL, tempfile.gettempdir()], capture_output=True)
        if trial.returncode == 0:
            return namespace
    pytest.skip("no file system can be mounted here: nothing was tried on a full disk")
