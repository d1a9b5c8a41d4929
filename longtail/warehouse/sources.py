"""What dbt says about the lake, generated from `longtail.tables`: its sources, and docs blocks for their columns.

After a change of `longtail.tables`, run `python -m longtail.warehouse.sources`. A test compares the files with
`longtail.tables`.

The description of a lake column is thus written once, and so is one that columns of several marts share (docs.md). A
mart's column without a description of its own has that of its name (`describe_columns`). A description that says more
begins with the docs block: `{{ doc('lake_relation') }}; …`. If no other model has named the block before, run the command
again.
"""

from __future__ import annotations

import functools
import json
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import duckdb

from longtail.storage.home import PROJECT_ROOT
from longtail.tables import TABLES, Table

_STAGING = PROJECT_ROOT / "dbt" / "models" / "staging"
SOURCES_FILE = _STAGING / "_lake__sources.yml"
_SHARED_DOCS = PROJECT_ROOT / "dbt" / "models" / "docs.md"
DOCS_FILE = _STAGING / "_lake__docs.md"
NOT_READ = frozenset({"passages"})
"""Lake tables that may be too large for dbt: it reads cited_passages, the passages that a retriever found."""

# The path goes through str.format, where braces are doubled, into an SQL literal, where quotes are doubled. The columns
# are named, because a file of a partition that is not current may have others.
_LOCATION = (
    "(select {selected} from read_parquet('{{ env_var('LONGTAIL_LAKE', '../data/lake')"
    " | replace(\"'\", \"''\") | replace('{', '{' * 2) | replace('}', '}' * 2) }}"
    "/{name}/*.parquet', union_by_name=true))"
)
_HEAD = """\
# Written by `python -m longtail.warehouse.sources` from longtail/tables.
sources:
  - name: lake
    description: "Parquet files, one per partition. Only the asset of the same name writes a table."
    config:
      meta:
        external_location: >-
          {location}
    tables:
"""
_DOCS_HEAD = """\
Descriptions of the lake's columns.
Written by `python -m longtail.warehouse.sources` from longtail/tables.
"""


def sources_yaml() -> str:
    """The whole file: one source, `lake`, with every table of `longtail.tables` that dbt may read."""
    read = (table for name, table in TABLES.items() if name not in NOT_READ)
    return _HEAD.replace("{location}", _LOCATION) + "".join(map(_table, read))


def lake_docs() -> str:
    """A docs block for each column that a model passes on by it, named as `docs_block` says."""
    passed_on = {
        name
        for path in _STAGING.parent.rglob("*.yml")
        for name in re.findall(r"doc\('(\w+)'\)", path.read_text(encoding="utf-8"))
    }
    lines = [
        f"{{% docs {name} %}}{text}{{% enddocs %}}"
        for name, text in sorted(lake_texts().items())
        if name in passed_on
    ]
    return "\n".join([_DOCS_HEAD, *lines]) + "\n"


@functools.cache
def lake_texts() -> dict[str, str]:
    """The descriptions of all lake columns, by docs block."""
    return {
        docs_block(table.name, column.name): column.description
        for table in TABLES.values()
        for column in table.columns
    }


@functools.cache
def _common_texts() -> dict[str, str]:
    """The descriptions that columns of several marts share, by name; an interval's ends have one each."""
    blocks = re.findall(r"{% docs (\w+) %}(.*?){% enddocs %}", _SHARED_DOCS.read_text(encoding="utf-8"))
    return dict(blocks)


def describe_column(name: str) -> str:
    """The description of marts' columns of this name that have none of their own; empty if there is none."""
    end = re.search("ci_(low|high)$", name)
    return _common_texts().get(end[0] if end else name) or lake_texts().get(f"lake_{name}", "")


def describe_columns(node: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a model's entry in dbt's manifest, each without a description with that of columns of its name."""
    return {
        name: {**column, "description": column["description"] or describe_column(name)}
        for name, column in node["columns"].items()
    }


def docs_block(table: str, column: str) -> str:
    """The name of the docs block that describes a lake column.

    It is `lake_<column>` for the description that several tables share, or that the only table with the column has.
    Any other description has a block of its own, `lake_<table>__<column>`.
    """
    descriptions = {
        name: other.description for name, t in TABLES.items() for other in t.columns if other.name == column
    }
    ((most_used, n_tables),) = Counter(descriptions.values()).most_common(1)
    is_shared = n_tables > 1 or len(descriptions) == 1
    return f"lake_{column}" if is_shared and descriptions[table] == most_used else f"lake_{table}__{column}"


def document_columns(table: str) -> dict[str, dict[str, str]]:
    """The columns of a lake table as dbt's manifest has those of a source, with the types as which DuckDB reads them."""
    types = duckdb.from_arrow(TABLES[table].schema.empty_table()).types
    return {
        column.name: {
            "name": column.name,
            "data_type": re.sub(
                r"\[\d+\]", "[]", str(type_).lower()
            ),  # a Parquet file does not say how long lists are
            "description": column.description,
        }
        for column, type_ in zip(TABLES[table].columns, types, strict=True)
    }


def _table(table: Table) -> str:
    selected = ", ".join(f'"{column.name}"' for column in table.columns)
    lines = [
        f"      - name: {table.name}",
        f"        description: {json.dumps(table.grain, ensure_ascii=False)}",
        f"        config: {{meta: {{dagster: {{asset_key: [lake, {table.name}]}}, selected: '{selected}'}}}}",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    SOURCES_FILE.write_text(sources_yaml(), encoding="utf-8")
    DOCS_FILE.write_text(lake_docs(), encoding="utf-8")
