"""Adds columns to tables of any size."""

from __future__ import annotations

import pyarrow as pa


def with_constants(table: pa.Table, **constants: str) -> pa.Table:
    """The table with one more column for each keyword; each column holds one text in all rows."""
    for name, value in constants.items():
        table = table.append_column(name, pa.repeat(pa.scalar(value), table.num_rows))
    return table
