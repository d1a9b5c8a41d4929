"""What `make sql` does: the published warehouse in the terminal, read-only and locked down.

The connection can read the one file and nothing else: no other file, no network, no extension, no settings.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import duckdb

from dagster_project.core.errors import LongtailError, PublishError
from dagster_project.core.home import study_file
from dagster_project.core.study_file import load_study
from dagster_project.core.warehouse.layouts import FORMATS, WRITERS, write_box
from dagster_project.core.warehouse.publication import connect_published, unreadable

_TABLES = (
    "select topic, table_name, n_rows, grain, description from catalogue "
    "order by topic = 'audit', topic = 'catalogue', topic, table_name"
)
_SHORT_TABLES = "select topic, table_name, n_rows from catalogue order by topic, table_name"
_TABLES_OF_OLD_FILES = (
    "select table_name, estimated_size as n_rows from duckdb_tables() "
    "union all select view_name, null from duckdb_views() where schema_name = 'marts' order by table_name"
)
_COLUMNS = (
    "select column_name, data_type, comment from duckdb_columns() "
    "where schema_name = 'marts' and table_name = $name order by column_index"
)
_EXAMPLE = "select example_query from catalogue where table_name = $name"
_LOCKS = (
    "set enable_external_access = false",
    "set autoload_known_extensions = false",
    "set autoinstall_known_extensions = false",
    "set allow_community_extensions = false",
    "set python_enable_replacements = false",  # a variable of this program is no table
    "set lock_configuration = true",
)
_HELP = """A query ends with ;
  \\d          tables            \\d table    its columns and what they mean
  \\e table    its example query, run
  \\x          records upright: always, or only where a box is too wide for the terminal
  Ctrl-C      stops a query     Ctrl-D      ends"""
_HISTORY_LINES = 2_000
_REFERENCE = re.compile(r"\{\{\s*ref\('(\w+)'\)\s*\}\}")


def connect(path: Path) -> duckdb.DuckDBPyConnection:
    """Open the published warehouse. Errors: `PublishError` if there is none yet, or it is no DuckDB file."""
    connection = connect_published(path)
    try:
        connection.execute("set search_path = 'marts'")
    except duckdb.Error as error:
        raise unreadable(path, error) from error
    for lock in _LOCKS:
        connection.execute(lock)
    return connection


def main(arguments: Sequence[str]) -> int:
    """Run the query of the arguments or of `$Q`, or read queries from the terminal; returns the exit code."""
    try:
        form = os.environ.get("FORMAT") or "box"
        if form not in FORMATS:
            raise PublishError(f"FORMAT={form} is not one of: {', '.join(FORMATS)}")
        study = load_study(study_file())
        shell = Shell(connect(study.home.published_warehouse), form)
    except LongtailError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    query = " ".join(arguments) or os.environ.get("Q", "")
    try:
        if query.strip():
            return 0 if shell.show(query) else 1
        if not sys.stdin.isatty():
            return 0 if shell.show(sys.stdin.read()) else 1
        print(f"{study.home.published_warehouse}, read-only.")
        shell.command("\\d")
        print(_HELP)
        with _history(study.home.root / "sql_history"):
            shell.converse()
        return 0
    except BrokenPipeError:  # the reader has seen enough, as in `make sql Q=… | head`
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  (Python flushes it once more at the end)
        return 0


class Shell:
    """Queries and their answers over one connection. `form`: how rows are written."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, form: str = "box") -> None:
        self._connection = connection
        self._form = form
        self._upright = False

    def converse(self) -> None:
        """Read queries and commands from the terminal until Ctrl-D."""
        lines: list[str] = []
        while True:
            try:
                line = input("longtail> " if not lines else "     ...> ")
                if not lines and line.lstrip().startswith("\\"):
                    self.command(line)
                elif lines or line.strip():
                    lines.append(line)
                    if line.rstrip().endswith(";"):
                        query, lines = "\n".join(lines), []
                        self.show(query)
            except EOFError:
                print()
                return
            except KeyboardInterrupt:  # also in the moment before a query runs, or after it
                print()
                lines = []

    def command(self, line: str) -> None:
        """One of the commands of the help."""
        name, _, table = line.strip().rstrip(";").partition(" ")
        table = table.strip()
        if name == "\\d" and not table:
            self._list_tables()
        elif name == "\\d":
            self.show(_COLUMNS, {"name": table})
        elif name == "\\e" and table:
            self._show_example(table)
        elif name == "\\x":
            self._upright = not self._upright
            print("records upright: " + ("always" if self._upright else "where a box is too wide"))
        else:
            print(_HELP)

    def show(self, query: str, parameters: dict[str, str] | None = None) -> bool:
        """Print a query's rows, or its error on standard error; returns whether it ran. Ctrl-C stops the query.

        dbt's `{{ ref('table') }}` stands for the table, so that the files of `dbt/analyses` run as they are.
        """
        try:
            relation = self._connection.sql(_REFERENCE.sub(r"\1", query), params=parameters)
            if relation is not None:
                self._write(relation)
            return True
        except duckdb.Error as error:
            print(f"error: {one_line(error)}", file=sys.stderr)
        except (KeyboardInterrupt, RuntimeError) as error:
            # DuckDB answers Ctrl-C with a RuntimeError of its own.
            if isinstance(error, RuntimeError) and "interrupt" not in str(error).lower():
                raise
            # A stopped query holds its connection until it is told once more.
            self._connection.interrupt()
            print("stopped", file=sys.stderr)
        return False

    def _write(self, relation: duckdb.DuckDBPyRelation) -> None:
        if self._form != "box":
            WRITERS[self._form](relation, sys.stdout)
        else:
            width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
            write_box(relation, sys.stdout, width, self._upright)
        sys.stdout.flush()

    def _list_tables(self) -> None:
        try:
            wide = shutil.get_terminal_size().columns >= 250
            self._write(self._connection.sql(_TABLES if wide else _SHORT_TABLES))
        except duckdb.CatalogException:  # published before there was a catalogue
            self.show(_TABLES_OF_OLD_FILES)

    def _show_example(self, table: str) -> None:
        try:
            found = self._connection.execute(_EXAMPLE, {"name": table}).fetchone()
        except duckdb.CatalogException:
            found = None
        if found is None or found[0] is None:
            print(f"error: there is no example for {table}; \\d lists the tables", file=sys.stderr)
            return
        print(found[0])
        self.show(found[0])


@contextlib.contextmanager
def _history(path: Path) -> Iterator[None]:
    """Line editing, with the lines of earlier sessions; they are the user's own, and nobody else may read them."""
    try:
        import readline
    except ImportError:  # Python without it: lines are typed as they are
        yield
        return
    with contextlib.suppress(OSError):
        readline.read_history_file(path)
    readline.set_history_length(_HISTORY_LINES)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
            readline.write_history_file(path)


def one_line(error: Exception) -> str:
    """DuckDB's message without the picture of where it happened."""
    return " ".join(str(error).split("\n\nLINE ")[0].split("\nLINE ")[0].split())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
