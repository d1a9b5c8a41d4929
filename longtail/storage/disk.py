"""A full disk: how it is recognised in the messages of any library, and the one line that reports it."""

from __future__ import annotations

import errno
import re
import shutil
from pathlib import Path

_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT})
_SAID = re.compile(
    r"no space left on device|disk quota exceeded"  # the operating system, quoted by dbt, pyarrow and DuckDB
    r"|disk is full"  # SQLite
    r"|max_temp_directory_size"  # DuckDB of its temporary files
    r"|not enough free space to write|\d+ requested and \d+ written",  # numpy
    re.IGNORECASE,
)
_ADVICE = "make room and run again: finished work is kept"
_MEBIBYTE = 1 << 20


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
    reason = f"{place}: the disk is full{_left(place)}"
    return f"{what}: {reason}; {_ADVICE}" if what else f"{reason}; {_ADVICE}"


def advised(line: str) -> str:
    """The line with advice added if it reports a full disk; any other line unchanged."""
    has_advice = "run again" in line or "make room" in line
    return f"{line}; {_ADVICE}" if is_disk_full(line) and not has_advice else line


def _left(place: Path) -> str:
    """How much is left. Zero explains itself; a little more shows that a large file did not fit."""
    return f" ({_free(place) / _MEBIBYTE:.1f} MiB are left)"


def _free(place: Path) -> int:
    """Free bytes where `place` is or will be."""
    return shutil.disk_usage(next(folder for folder in (place, *place.parents) if folder.exists())).free
