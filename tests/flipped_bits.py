"""Damage as a disk does it: a bit changes, and neither size nor time says so."""

from __future__ import annotations

import os
from pathlib import Path

from longtail.storage import checksums


def flip_bit(path: Path, at: float = 0.5) -> None:
    """Flip a bit at the share `at` of a file, and forget checksums as the next process does."""
    found, data = path.stat(), bytearray(path.read_bytes())
    data[int(len(data) * at)] ^= 4
    path.write_bytes(data)
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
    checksums._checksum.cache_clear()
