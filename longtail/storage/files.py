"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import re
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

from longtail.errors import LakeError
from longtail.storage.home import longtail_home

STAGING = ".staging"
_STAGED = re.compile(r"[0-9a-f]{32}\.part")
"""Names in a staging folder."""
_LOCK = ".lock"


@contextlib.contextmanager
def staged(staging: Path, name: str) -> Iterator[Path]:
    """Yield a path in `staging` for a file or a folder called `name`; what is there at the end is removed.

    The path is in a folder of its own, whose lock this process holds: a writer in another container is recognised by
    its lock, where its process id would say nothing. A process first removes what killed ones left there.
    Errors: `OSError`.
    """
    _remove_leftovers_once(staging)
    descriptor = None
    try:
        while descriptor is None:  # another process may just have removed the folder, which had no lock yet
            folder = staging / f"{uuid.uuid4().hex}.part"
            folder.mkdir(parents=True)
            descriptor = _locked(folder)
        yield folder / name
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if descriptor is not None:
            os.close(descriptor)


@contextlib.contextmanager
def atomic_file(path: Path, staging: Path | None = None) -> Iterator[Path]:
    """Yield a staging path on the same file system; on success, flush the file and rename it to `path`.

    The staging folder is a hidden sibling of the file's folder, never inside it, so that a glob over the folder finds
    whole files only. A file directly in a study's home needs another `staging` folder: Longtail writes nothing beside
    the home. After an error the staging file is removed and `path` is unchanged.
    """
    try:
        with staged(staging or path.parent.parent / STAGING, path.name) as temporary:
            path.parent.mkdir(parents=True, exist_ok=True)
            yield temporary
            sync(temporary)
            os.replace(temporary, path)
            sync(path.parent)
    except OSError as error:
        raise LakeError(
            f"{path}: could not be written ({error.strerror or error}); what was there is unchanged"
        ) from error


@contextlib.contextmanager
def temporary_folder(name: str) -> Iterator[Path]:
    """An empty folder in the home's cache, as long as the context lasts. Errors: `OSError`."""
    with staged(longtail_home() / "cache" / STAGING, name) as folder:
        folder.mkdir()
        yield folder


def remove_leftovers(folder: Path) -> None:
    """Remove what killed processes were writing in `folder` (see `staged`); what living ones write is kept."""
    for part in list(folder.glob("*")):
        if not _STAGED.fullmatch(part.name):
            continue
        if not part.is_dir():
            part.unlink(missing_ok=True)
        elif (descriptor := _locked(part)) is not None:
            shutil.rmtree(part, ignore_errors=True)
            os.close(descriptor)


_remove_leftovers_once = functools.cache(remove_leftovers)


def _locked(folder: Path) -> int | None:
    """The lock of a folder, held until it is closed; None where another process holds it or removes the folder."""
    try:
        descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_nlink:
            return descriptor
    except BlockingIOError:
        pass
    os.close(descriptor)
    return None


def sync(path: Path) -> None:
    """Flush a file or folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
