"""The folder in which published files are made before they appear: on the same file system, for one process at a time.

What belongs here: the lock and the cleaning. What does not: making the files (`publish`, `export`).
"""

from __future__ import annotations

import fcntl
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def staging_beside(published: Path, name: str) -> Iterator[Path]:
    """A new folder for the future `published / name`. Removes what a killed process left of the same."""
    staging = published / f".staging-{name}"
    published.mkdir(parents=True, exist_ok=True)
    with (published / f".lock-{name}").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(staging, ignore_errors=True)
        folder = staging / uuid.uuid4().hex
        folder.mkdir(parents=True)
        try:
            yield folder
        finally:
            shutil.rmtree(staging, ignore_errors=True)
