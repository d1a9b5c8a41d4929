"""Checksums of stored files: computed once per process for a file that nobody has written since.

What belongs here: the checksum of a file, and how a changed file is recognised. What does not: where checksums are
recorded, and what happens to a damaged file (the modules that store files).

A flipped bit on a disk changes no time and no size, so each run computes every checksum that it needs anew.
"""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path


def file_checksum(path: Path) -> str:
    """SHA-256 of a file, as hexadecimal digits. Errors: `OSError`."""
    found = path.stat()
    return _checksum(path, (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns))


@functools.lru_cache(maxsize=65_536)
def _checksum(path: Path, written: tuple[int, ...]) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
