"""Comments of the marts: read from one database and written to another."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import duckdb

SCHEMA = "marts"


@dataclass(frozen=True)
class Comment:
    """The comment of a mart, or of its `column`; `kind` is that of the mart: table or view."""

    mart: str
    kind: str
    column: str | None
    text: str


def literal(text: str) -> str:
    """A text as an SQL literal, for statements that take no parameters."""
    doubled = text.replace("'", "''")
    return f"'{doubled}'"


def marts_of(connection: duckdb.DuckDBPyConnection, database: str) -> dict[str, str]:
    """Every relation of the database's marts by name: table or view."""
    return dict(
        connection.execute(
            "select table_name, 'table' from duckdb_tables() where database_name = $1 and schema_name = $2 "
            "union all select view_name, 'view' from duckdb_views() where database_name = $1 and schema_name = $2 "
            "order by all",
            [database, SCHEMA],
        ).fetchall()
    )


def comments_of(
    connection: duckdb.DuckDBPyConnection, database: str, marts: Collection[str]
) -> list[Comment]:
    """The comments of `marts` in a database: first each mart's own comment, then those of its columns, in order."""
    rows = connection.execute(
        "with relations as ("
        "    select table_name, 'table' as kind, comment from duckdb_tables() "
        "    where database_name = $1 and schema_name = $2 "
        "    union all select view_name, 'view', comment from duckdb_views() "
        "    where database_name = $1 and schema_name = $2"
        "), said as ("
        "    select table_name, kind, null as column_name, comment, -1 as position from relations "
        "    union all select table_name, relations.kind, columns.column_name, columns.comment, columns.column_index "
        "    from duckdb_columns() as columns inner join relations using (table_name) "
        "    where columns.database_name = $1 and columns.schema_name = $2"
        ") select table_name, kind, column_name, comment from said "
        "where comment is not null and list_contains($3, table_name) order by table_name, position",
        [database, SCHEMA, list(marts)],
    ).fetchall()
    return [Comment(*row) for row in rows]


def write_comments(
    connection: duckdb.DuckDBPyConnection,
    comments: Sequence[Comment],
    schema: str = SCHEMA,
    kind: str | None = None,
) -> None:
    """Write comments in `schema`, all at once: a call per comment takes twice as long."""
    connection.execute("".join(f"{statement(comment, schema, kind)};\n" for comment in comments))


def statement(comment: Comment, schema: str = SCHEMA, kind: str | None = None) -> str:
    """The SQL that writes a comment in `schema`, where the relation may have another `kind`."""
    name = f'{schema}."{comment.mart}"'
    what = f'column {name}."{comment.column}"' if comment.column else f"{kind or comment.kind} {name}"
    return f"comment on {what} is {literal(comment.text)}"
