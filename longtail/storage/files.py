"""Files and folders that appear whole or not at all; a full disk: how it is recognised, and the line that reports it."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import os
import re
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from longtail.errors import LakeError, single_line
from longtail.storage.home import PROJECT_ROOT, longtail_home

if TYPE_CHECKING:
    import numpy as np

STAGING = ".staging"
_STAGED = re.compile(r"[0-9a-f]{32}\.part")
"""Names in a staging folder."""
_LOCK = ".lock"

_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT})
_SAID = re.compile(
    r"no space left on device|disk quota exceeded"  # the operating system, quoted by dbt, pyarrow and DuckDB
    r"|disk is full"  # SQLite
    r"|max_temp_directory_size"  # DuckDB of its temporary files
    r"|not enough free space to write|\d+ requested and \d+ written",  # numpy
    re.IGNORECASE,
)
_ADVICE = "make room and run again: finished work is kept"
MAKE_ROOM = "make room and check that it is writable, or choose another folder: LONGTAIL_HOME=<folder>"
_MEBIBYTE = 1 << 20


@contextlib.contextmanager
def stage(staging: Path, name: str) -> Iterator[Path]:
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
            descriptor = _lock_folder(folder)
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
        with whole(path, staging or path.parent.parent / STAGING) as temporary:
            yield temporary
    except OSError as error:
        raise LakeError(
            f"{path}: could not be written ({error.strerror or error}); what was there is unchanged"
        ) from error


@contextlib.contextmanager
def whole(path: Path, staging: Path | None = None) -> Iterator[Path]:
    """Yield a path for a file or a folder; on success flush it and rename it to `path`, which it replaces.

    `staging`: a folder on the same file system; without one, that of `path`. After an error nothing is left.
    Errors: `OSError`.
    """
    with stage(staging or path.parent, path.name) as temporary:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        for file in (*temporary.rglob("*"), temporary):
            sync(file)
        if temporary.is_dir():
            remove(path)
        os.replace(temporary, path)
        sync(path.parent)


@contextlib.contextmanager
def temporary_folder(name: str) -> Iterator[Path]:
    """An empty folder in the home's cache, as long as the context lasts. Errors: `OSError`."""
    with stage(longtail_home() / "cache" / STAGING, name) as folder:
        folder.mkdir()
        yield folder


def remove_leftovers(folder: Path) -> None:
    """Remove what killed processes were writing in `folder` (see `stage`); what living ones write is kept."""
    for part in list(folder.glob("*")):
        if not _STAGED.fullmatch(part.name):
            continue
        if not part.is_dir():
            part.unlink(missing_ok=True)
        elif (descriptor := _lock_folder(part)) is not None:
            shutil.rmtree(part, ignore_errors=True)
            os.close(descriptor)


_remove_leftovers_once = functools.cache(remove_leftovers)


def _lock_folder(folder: Path) -> int | None:
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


def is_disk_full(failure: BaseException | str) -> bool:
    """Whether a full disk caused the failure. The messages and the numbers of all errors in the chain are checked."""
    if isinstance(failure, str):
        return _SAID.search(failure) is not None
    seen: set[int] = set()
    error: BaseException | None = failure
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if (isinstance(error, OSError) and error.errno in _ERRNOS) or is_disk_full(str(error)):
            return True
        error = error.__cause__ or error.__context__
    return False


def has_no_room(place: Path) -> bool:
    """Whether less than a mebibyte is left: an unclear failure there is then caused by the full disk."""
    return _free(place) < _MEBIBYTE


def full_disk(place: Path, what: str = "") -> str:
    """One line about the full disk of `place`, and about what the program was doing there."""
    # Zero explains itself; a little more shows that a large file did not fit.
    reason = f"{place}: the disk is full ({_free(place) / _MEBIBYTE:.1f} MiB are left)"
    return f"{what}: {reason}; {_ADVICE}" if what else f"{reason}; {_ADVICE}"


def add_advice(line: str) -> str:
    """The line with advice added if it reports a full disk; any other line unchanged."""
    has_advice = "run again" in line or "make room" in line
    return f"{line}; {_ADVICE}" if is_disk_full(line) and not has_advice else line


def describe_error(error: OSError) -> str:
    """One line for the user: which path, what is wrong with it, and what to do."""
    place = error.filename or f"LONGTAIL_HOME ({longtail_home()})"
    return single_line(f"{place}: {error.strerror or error}; {_advice(error, Path(str(place)))}")


def _advice(error: OSError, place: Path) -> str:
    """What to do about a file: only what may be full, or may forbid to write, is said to be so."""
    home = longtail_home()
    if isinstance(error, FileNotFoundError):
        if place.is_relative_to(PROJECT_ROOT) and not place.is_relative_to(home):
            return "it belongs to the program; fetch the program's files again"
        if not home.is_dir():
            return "the folder of all state cannot be made there; choose another: LONGTAIL_HOME=<folder>"
        return "something removed it; run again"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "let this user read and write it, or choose another folder: LONGTAIL_HOME=<folder>"
    return MAKE_ROOM


def _free(place: Path) -> int:
    """Free bytes where `place` is or will be."""
    return shutil.disk_usage(next(folder for folder in (place, *place.parents) if folder.exists())).free


def remove(path: Path) -> None:
    """Remove a file or a folder, if there is one."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def write_array(path: Path, array: np.ndarray) -> None:
    """Write a `.npy` file. Errors: `OSError`; `numpy.save` is silent where the last bytes find no room."""
    import numpy as np

    array = np.ascontiguousarray(array)
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(array))
        file.write(array.data)
