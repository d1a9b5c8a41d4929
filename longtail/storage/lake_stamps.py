"""What a file of the lake records about itself, and whether the file still is what was written.

The checksum is the SHA-256 of all other bytes of the file. So it also covers the columns that the content hash leaves
out, and the footer, whose statistics decide which rows DuckDB skips. It is in the file itself, so that a partition
still appears in one step.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from longtail.errors import LakeError
from longtail.storage.checksums import file_checksum, file_state
from longtail.storage.fingerprints import fingerprint
from longtail.tables import TABLES

_STAMP = b"longtail"
_CHECKSUM = b"longtail_checksum"
_DIGITS = 64
_MARK = _CHECKSUM + bytes([0x18, _DIGITS])
"""How the footer writes the key and, before its value, that it is a text of 64 bytes."""
_END = 1 << 16
"""The metadata are among the last bytes of a file: these."""


@dataclass(frozen=True)
class Stamp:
    """What a partition's file records about itself; `columns` is a hash of the table's columns when it was written."""

    fingerprint: str
    content: str
    n_rows: int
    n_quarantined: int
    columns: str = ""


def metadata_of(stamp: Stamp) -> dict[bytes, bytes]:
    """The Parquet metadata of a file that is being written, with room for its checksum."""
    return {_STAMP: json.dumps(stamp.__dict__).encode(), _CHECKSUM: b"0" * _DIGITS}


def columns_of(table: str) -> str:
    """A hash of a table's columns: a partition with other columns is not current."""
    return fingerprint(str(TABLES[table].schema))


def seal(path: Path) -> None:
    """Write the checksum of a finished file into it. Errors: `OSError`, `LakeError` for thousands of columns."""
    place = _place(path)
    if not place:
        raise LakeError(f"{path}: its last {_END:,} bytes have no room for a checksum")
    checksum = file_checksum(path, (place, place + _DIGITS))
    with path.open("r+b") as file:
        file.seek(place)
        file.write(checksum.encode())


def stamp_of(path: Path) -> Stamp:
    """The stamp of a file that still is as it was written; found out once per process.

    Errors: `LakeError` where the file is damaged, `FileNotFoundError`.
    """
    return _check(path, file_state(path))


def damage_of(path: Path) -> str | None:
    """What is wrong with a file; None where it is as it was written, and where it is missing."""
    try:
        stamp_of(path)
    except FileNotFoundError:
        return None
    except LakeError as error:
        return str(error)
    return None


@functools.lru_cache(maxsize=65_536)
def _check(path: Path, when: tuple[int, ...]) -> Stamp:
    try:
        _compare_checksum(path)
        return Stamp(**json.loads(pq.read_metadata(path).metadata[_STAMP]))
    except (OSError, pa.ArrowException, LookupError, ValueError, TypeError) as error:
        raise LakeError(f"{path} is damaged: {error}") from error


def _compare_checksum(path: Path) -> None:
    """Compare the file with its checksum. Errors: `ValueError` where it has none, or it does not fit."""
    place = _place(path)
    if not place:
        raise ValueError("it has no checksum")
    with path.open("rb") as file:
        file.seek(place)
        recorded = file.read(_DIGITS)
    if recorded != file_checksum(path, (place, place + _DIGITS)).encode():
        raise ValueError("its checksum does not fit")


def checksum_of(path: Path) -> str:
    """The checksum that a file has of its other bytes, or one of all its bytes. Errors: `OSError`."""
    place = _place(path)
    if not place:
        return file_checksum(path)
    with path.open("rb") as file:
        file.seek(place)
        return file.read(_DIGITS).decode("ascii", "replace")


def _place(path: Path) -> int:
    """Where the file's checksum begins; 0 if it has none."""
    with path.open("rb") as file:
        start = max(0, file.seek(0, os.SEEK_END) - _END)
        file.seek(start)
        found = file.read().rfind(_MARK)
    return start + found + len(_MARK) if found >= 0 else 0


def content_of(hashes: Sequence[str]) -> str:
    """The content hash of a partition from those of its parts: the streamed tables."""
    return hashes[0] if len(hashes) == 1 else fingerprint(*hashes)
