"""dbt's declaration of the lake, written from `core.tables`.

What belongs here: the text of `dbt/models/staging/_lake__sources.yml`. What does not: the columns. After
a change of `tables`, `python -m dagster_project.core.warehouse.sources` rewrites it; a test compares.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from dagster_project.core.home import PROJECT_ROOT
from dagster_project.core.tables import TABLES, Column, Table

SOURCES_FILE = PROJECT_ROOT / "dbt" / "models" / "staging" / "_lake__sources.yml"

# The path ends up in an SQL literal, where quotes are doubled, after str.format, where braces are.
_LOCATION = (
    "read_parquet('{{ env_var('LONGTAIL_LAKE', '../data/lake')"
    " | replace(\"'\", \"''\") | replace('{', '{' * 2) | replace('}', '}' * 2) }}"
    "/{name}/*.parquet', union_by_name=true)"
)
_HEAD = """\
# Written by `python -m dagster_project.core.warehouse.sources` from dagster_project/core/tables.
version: 2

sources:
  - name: lake
    description: "Parquet files, one a partition; each table has one writer, an asset of the same name."
    config:
      meta:
        external_location: >-
          {location}
    tables:
"""
_TYPES = {
    pa.string(): "varchar",
    pa.bool_(): "boolean",
    pa.int32(): "integer",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
}


def sources_yaml() -> str:
    """The whole file: one source, `lake`, with every table and column of `core.tables`."""
    return _HEAD.replace("{location}", _LOCATION) + "".join(_table(table) for table in TABLES.values())


def duckdb_type(type_: pa.DataType) -> str:
    """The DuckDB type that an Arrow type is read as."""
    if pa.types.is_list(type_) or pa.types.is_fixed_size_list(type_):
        return f"{duckdb_type(type_.value_type)}[]"
    return _TYPES[type_]


def write_sources(path: Path = SOURCES_FILE) -> None:
    """Write the file again."""
    path.write_text(sources_yaml(), encoding="utf-8")


def _table(table: Table) -> str:
    lines = [
        f"      - name: {table.name}",
        f"        description: {_quoted(table.grain)}",
        f"        config: {{meta: {{dagster: {{asset_key: [lake, {table.name}]}}}}}}",
        "        columns:",
        *(line for column in table.columns for line in _column(column)),
    ]
    return "\n".join(lines) + "\n"


def _column(column: Column) -> list[str]:
    return [
        f"          - name: {column.name}",
        f"            data_type: {duckdb_type(column.type)}",
        f"            description: {_quoted(column.description)}",
    ]


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


if __name__ == "__main__":
    write_sources()
