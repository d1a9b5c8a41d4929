"""Where published things are made before they appear: a folder on the same file system, one maker at a time.

What belongs here: the lock and the clearing-up. What does not: what is made (`publish`, `export`).
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
    """A new folder for what will be `published / name`; what a killed maker of the same left is removed."""
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
