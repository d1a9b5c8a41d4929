"""Files that appear whole or not at all.

What belongs here: writing to a temporary file and renaming it, flushing, removing what killed writers left. What does
not: which files there are (`lake`, `warehouse`).
"""

from __future__ import annotations

import contextlib
import os
import re
import uuid
from collections.abc import Iterator
from pathlib import Path

from dagster_project.core.errors import LakeError
from dagster_project.core.ownership import is_process_alive

STAGING = ".staging"
_STAGED = re.compile(r"([1-9]\d*)-[0-9a-f]{32}-")


@contextlib.contextmanager
def atomic_file(path: Path, staging: Path | None = None) -> Iterator[Path]:
    """Yield a staging path on the same file system; on success, flush the file and rename it to `path`.

    The staging folder is a hidden sibling of the file's folder, never inside it, so that a glob over the folder finds
    whole files only. A file directly in a study's home needs another `staging` folder: Longtail writes nothing beside
    the home. After an error the staging file is removed and `path` is unchanged.
    """
    staging = staging or path.parent.parent / STAGING
    temporary = staging / f"{os.getpid()}-{uuid.uuid4().hex}-{path.name}"
    try:
        staging.mkdir(parents=True, exist_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        sync(temporary)
        os.replace(temporary, path)
        sync(path.parent)
    except OSError as error:
        raise LakeError(
            f"{path}: could not be written ({error.strerror or error}); what was there is unchanged"
        ) from error
    finally:
        temporary.unlink(missing_ok=True)


def remove_leftovers(staging: Path) -> None:
    """Remove the files that killed writers left in `staging`; files of living processes are kept."""
    for file in staging.glob("*"):
        writer = _STAGED.match(file.name)
        if writer and not is_process_alive(int(writer[1])):
            file.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Flush a file or folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
