"""Rows of a lake table as Arrow, and the hash of their content."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from longtail.errors import LakeError
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
