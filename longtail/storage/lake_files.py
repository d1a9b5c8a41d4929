"""Files of the lake: rows as Arrow and the hash of their content, and whether a file still is what was written.

The checksum is the SHA-256 of all other bytes of the file. So it also covers the columns that the content hash leaves
out, and the footer, whose statistics decide which rows DuckDB skips. It is in the file itself, so that a partition
still appears in one step.
"""

from __future__ import annotations

import functools
import hashlib
import io
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from longtail.errors import LakeError
from longtail.storage.checksums import file_checksum, file_state
from longtail.storage.fingerprints import fingerprint
from longtail.tables import TABLES

PART_ROWS = 250_000
"""Rows of a streamed table that are in memory at a time."""
BATCH_ROWS = 5_000
_VOLATILE = frozenset({
    "run_id", "latency_ms", "batch_size", "shared_tokens", "device_seconds", "cost_usd", "is_reused", "generated_for",
    "code_version",
    # their last digits depend on the batch; the text and the encoder say which vector it is
    "embedding", "query_embedding",
})  # fmt: skip


def conform(table: str, rows: pa.Table | Iterable[Mapping[str, Any]]) -> pa.Table:
    """The rows with the columns and types of a lake table, in their order.

    Errors: `LakeError` that names the table and, for a null that may not be, column and row.
    """
    schema = TABLES[table].schema
    try:
        data = (
            rows.select(schema.names).cast(schema) if isinstance(rows, pa.Table) else _as_table(table, rows)
        )
    except (pa.ArrowException, KeyError) as error:
        raise _misfit(table, error) from error
    for column in TABLES[table].columns:
        if not column.nullable and data[column.name].null_count:
            first = pc.index(data[column.name].is_null(), True).as_py()
            raise LakeError(f"lake table {table}: column {column.name} is null in row {first}; it may not be")
    return data


def part_of(table: str, rows: Iterator[Mapping[str, Any]]) -> pa.Table | None:
    """The next `PART_ROWS` rows; None at the end. They become Arrow in small batches: Python objects take more."""
    batches = (_as_table(table, islice(rows, BATCH_ROWS)) for _ in range(PART_ROWS // BATCH_ROWS))
    part = pa.concat_tables([batch for batch in batches if batch.num_rows] or [_as_table(table, ())])
    return part if part.num_rows else None


def _as_table(table: str, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    try:
        return pa.Table.from_pylist([dict(row) for row in rows], schema=TABLES[table].schema)
    except (pa.ArrowException, UnicodeEncodeError) as error:
        raise _misfit(table, error) from error


def _misfit(table: str, error: Exception) -> LakeError:
    return LakeError(f"lake table {table}: rows do not fit its columns: {error}")


def content_hash(data: pa.Table) -> str:
    """A hash of the rows in their order, without the columns that only describe the run that wrote them.

    It is that of an uncompressed Parquet file of the rows; the file is hashed as it is written and kept nowhere.
    """
    columns = data.select([name for name in data.column_names if name not in _VOLATILE])
    sink = _Hashing()
    pq.write_table(
        columns.replace_schema_metadata(None).combine_chunks(), pa.PythonFile(sink, "w"), compression="none"
    )
    return sink.digest.hexdigest()[:32]


class _Hashing(io.RawIOBase):
    """A file that hashes what is written to it."""

    def __init__(self) -> None:
        self.digest, self._place = hashlib.sha256(), 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.digest.update(data)
        self._place += len(data)
        return len(data)

    def tell(self) -> int:
        return self._place


def add_constants(table: pa.Table, **constants: str) -> pa.Table:
    """The table with one more column for each keyword; each column holds one text in all rows."""
    for name, value in constants.items():
        table = table.append_column(name, pa.repeat(pa.scalar(value), table.num_rows))
    return table


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
    place, _ = _recorded(path)
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
        place, recorded = _recorded(path)
        if not place:
            raise ValueError("no checksum")
        if recorded != file_checksum(path, (place, place + _DIGITS)):
            raise ValueError("checksum mismatch")
        return Stamp(**json.loads(pq.read_metadata(path).metadata[_STAMP]))
    except (OSError, pa.ArrowException, LookupError, ValueError, TypeError) as error:
        raise LakeError(f"{path} is damaged: {error}") from error


def checksum_of(path: Path) -> str:
    """The checksum that a file has of its other bytes, or one of all its bytes. Errors: `OSError`."""
    place, recorded = _recorded(path)
    return recorded if place else file_checksum(path)


def _recorded(path: Path) -> tuple[int, str]:
    """Where the file's checksum begins, 0 if it has none, and the checksum."""
    with path.open("rb") as file:
        start = max(0, file.seek(0, os.SEEK_END) - _END)
        file.seek(start)
        before, mark, after = file.read().rpartition(_MARK)
    place = start + len(before) + len(mark) if mark else 0
    return place, after[:_DIGITS].decode("ascii", "replace")


def content_of(hashes: Sequence[str]) -> str:
    """The content hash of a partition from those of its parts: the streamed tables."""
    return hashes[0] if len(hashes) == 1 else fingerprint(*hashes)
