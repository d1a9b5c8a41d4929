"""What a file of the lake records about itself, and whether the file still is what was written.

What belongs here: the stamp and the checksum in a file's Parquet metadata. What does not: which files there are, and
what makes a damaged one again (`lake`).

The checksum is the SHA-256 of all other bytes of the file. So it also covers the columns that the content hash leaves
out, and the footer, whose statistics decide which rows DuckDB skips. It is in the file itself, so that a partition
still appears in one step. Files of earlier versions have none: their rows are compared with the content hash.
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

from dagster_project.core.errors import LakeError
from dagster_project.core.storage.checksums import file_checksum, written
from dagster_project.core.storage.fingerprints import fingerprint
from dagster_project.core.storage.lake_rows import PART_ROWS, conform, content_hash
from dagster_project.core.tables import TABLES

_STAMP = b"longtail"
_CHECKSUM = b"longtail_checksum"
_DIGITS = 64
_MARK = _CHECKSUM + bytes([0x18, _DIGITS])
"""How the footer writes the key and, before its value, that it is a text of 64 bytes."""
_END = 1 << 16
"""The metadata are among the last bytes of a file: these."""
_WRITER = f"parquet-cpp-arrow version {pa.cpp_version}"


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


def stamp_of(table: str, path: Path) -> Stamp:
    """The stamp of a file of `table` that still is as it was written; found out once per process.

    Errors: `LakeError` where the file is damaged or has no stamp, `FileNotFoundError`.
    """
    return _checked(table, path, written(path))


def damage_of(table: str, path: Path) -> str | None:
    """What is wrong with a file of `table`; None where it is as it was written, and where it is missing."""
    try:
        stamp_of(table, path)
    except FileNotFoundError:
        return None
    except LakeError as error:
        return str(error)
    return None


@functools.lru_cache(maxsize=65_536)
def _checked(table: str, path: Path, when: tuple[int, ...]) -> Stamp:
    try:
        is_sealed = _is_sealed(path)
        metadata = pq.read_metadata(path).metadata or {}
        if _STAMP not in metadata:
            raise LakeError(f"{path} carries no stamp")
        stamp = Stamp(**json.loads(metadata[_STAMP]))
        if not is_sealed:
            _compare_rows(table, path, stamp)
    except (OSError, pa.ArrowException, ValueError, TypeError) as error:
        raise LakeError(f"{path} is damaged: {error}") from error
    return stamp


def _is_sealed(path: Path) -> bool:
    """Whether the file has a checksum, and it fits. Errors: `ValueError` where it does not fit."""
    place = _place(path)
    if not place:
        return False
    with path.open("rb") as file:
        file.seek(place)
        recorded = file.read(_DIGITS)
    if recorded != file_checksum(path, (place, place + _DIGITS)).encode():
        raise ValueError("its checksum does not fit")
    return True


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


def _compare_rows(table: str, path: Path, stamp: Stamp) -> None:
    """Compare the rows with the stamp's hash of them. Errors: `ValueError` where they differ.

    The hash depends on the library's version: rows of another version are not compared, nor rows of other columns.
    """
    with pq.ParquetFile(path) as file:
        if file.metadata.created_by != _WRITER or stamp.columns != columns_of(table):
            return
        is_streamed = file.metadata.row_group(0).num_rows <= PART_ROWS
        parts = map(file.read_row_group, range(file.num_row_groups)) if is_streamed else [file.read()]
        if stamp.content != content_of([content_hash(conform(table, part)) for part in parts]):
            raise ValueError("its rows are not those that were written")


def content_of(hashes: Sequence[str]) -> str:
    """The content hash of a partition from those of its parts: the streamed tables."""
    return hashes[0] if len(hashes) == 1 else fingerprint(*hashes)
