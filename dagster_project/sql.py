"""What `make sql` does: the published warehouse in the terminal, read-only and locked down.

The connection can read the one file and nothing else: no other file, no network, no settings.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import duckdb

from dagster_project.core.errors import LongtailError, PublishError
from dagster_project.core.home import study_file
from dagster_project.core.study_file import load_study

_TABLES = (
    "select table_name, estimated_size as n_rows, comment from duckdb_tables() "
    "union all select view_name, null, comment from duckdb_views() where not internal order by table_name"
)
_LOCKS = (
    "set enable_external_access = false",
    "set autoload_known_extensions = false",
    "set autoinstall_known_extensions = false",
    "set lock_configuration = true",
)


def connect(path: Path) -> duckdb.DuckDBPyConnection:
    """Open the published warehouse. Errors: `PublishError` if there is none yet."""
    if not path.exists():
        raise PublishError(f"{path}: no published warehouse yet; `make run` makes it")
    connection = duckdb.connect(str(path), read_only=True)
    connection.execute("set search_path = 'marts'")
    for lock in _LOCKS:
        connection.execute(lock)
    return connection


def main(arguments: Sequence[str]) -> int:
    """Run the query of the arguments or of `$Q`, or read queries from the terminal; returns the exit code."""
    try:
        study = load_study(study_file())
        connection = connect(study.home.published_warehouse)
    except LongtailError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    query = " ".join(arguments) or os.environ.get("Q", "")
    if query.strip():
        return 0 if show(connection, query) else 1
    if sys.stdin.isatty():
        print(f"{study.home.published_warehouse}, read-only. A query ends with ; — tables: \\d — end: Ctrl-D")
        show(connection, _TABLES)
    return _read_queries(connection)


def _read_queries(connection: duckdb.DuckDBPyConnection) -> int:
    if sys.stdin.isatty():
        import readline  # noqa: F401  (line editing and history for input())
    lines: list[str] = []
    ok = True
    while True:
        try:
            line = input(("longtail> " if not lines else "     ...> ") if sys.stdin.isatty() else "")
        except EOFError:
            if "".join(lines).strip():
                ok &= show(connection, "\n".join(lines))
            return 0 if ok else 1
        except KeyboardInterrupt:
            print()
            lines = []
            continue
        if line.strip() == "\\d" and not lines:
            show(connection, _TABLES)
            continue
        lines.append(line)
        if line.rstrip().endswith(";"):
            ok &= show(connection, "\n".join(lines))
            lines = []


def show(connection: duckdb.DuckDBPyConnection, query: str) -> bool:
    """Print a query's rows, or its error in one line; returns whether it ran."""
    try:
        relation = connection.sql(query)
        if relation is not None:
            relation.show(max_rows=200, max_width=160)
        return True
    except duckdb.Error as error:
        print(f"error: {error}", file=sys.stderr)
        return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
