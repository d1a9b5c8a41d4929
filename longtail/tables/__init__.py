"""The columns of every lake table, read from `lake.yaml`: the one source for writers, readers, dbt and tests."""

from __future__ import annotations

import importlib.resources
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import yaml

_TYPES = {
    "text": pa.string(),
    "flag": pa.bool_(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float64": pa.float64(),
    "texts": pa.list_(pa.string()),
    "int32s": pa.list_(pa.int32()),
    "float32s": pa.list_(pa.float32()),
    "embedding": pa.list_(pa.float32(), 384),
}
"""The types of columns, as `lake.yaml` calls them."""


@dataclass(frozen=True)
class Column:
    """One column: its Arrow type and its meaning, with units."""

    name: str
    type: pa.DataType
    description: str
    nullable: bool = False


@dataclass(frozen=True)
class Table:
    """One lake table: its grain, its columns, and the columns that define its partitions."""

    name: str
    grain: str
    columns: tuple[Column, ...]
    partitioned_by: tuple[str, ...] = ()

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([pa.field(c.name, c.type, nullable=c.nullable) for c in self.columns])


def _columns(entries: Sequence[Any]) -> Iterator[Column]:
    """The columns of a list in which some entries are lists of columns themselves."""
    for entry in entries:
        if isinstance(entry[0], list):
            yield from _columns(entry)
        else:
            name, type_, description = entry
            yield Column(name, _TYPES[type_.removesuffix("?")], description, type_.endswith("?"))


_file = importlib.resources.files(__package__) / "lake.yaml"
_lake = yaml.load(_file.read_text(encoding="utf-8"), yaml.CSafeLoader)
TABLES = {
    name: Table(
        name, table["grain"], tuple(_columns(table["columns"])), tuple(table.get("partitioned_by", ()))
    )
    for name, table in _lake["tables"].items()
}
CONFIDENCE = tuple(_columns(_lake["shared"]["confidence"]))
"""The columns that say how sure a model was of its answer."""
