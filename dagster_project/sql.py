"""What `make sql` does: the published warehouse in the terminal, read-only and locked down.

The connection can read only this one file: no other file, no network, no extension, and no settings except those of
the display. It writes no file, not even the open one, and accepts only statements that read
(`core.warehouse.statements`). Several statements are answered one after the other, up to the first error. With
FORMAT=json each answer is an array; with csv and markdown each is a table, with an empty line between two of them. An
answer is printed whole or not at all.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import duckdb

from dagster_project.core.errors import LongtailError, PublishError, QueryError, single_line
from dagster_project.core.storage.home import command, study_file
from dagster_project.core.study.file import load_study
from dagster_project.core.warehouse.layouts import FORMATS, WRITERS, write_box
from dagster_project.core.warehouse.publication import connect_published, unreadable
from dagster_project.core.warehouse.statements import admitted, is_whole, lock
from dagster_project.sql_tables import Completion, listing

_TABLES = "select topic, table_name, n_rows, grain, description from catalogue order by topic, table_name"
_COLUMNS = (
    "select column_name, data_type, comment from duckdb_columns() "
    "where schema_name = 'marts' and table_name = $name order by column_index"
)
_EXAMPLE = "select example_query from catalogue where table_name = $name"
_HELP = """A query ends with ;  Numbers have four digits here, and all of them with FORMAT=csv. Tab completes names.
  tables, \\d  the tables, by question   \\d table    its columns and what they mean
  \\e table    its example query, run    \\x          records upright: always, or where a box is too wide
  help, \\h    this                      exit, quit, \\q  end, as Ctrl-D does
  Ctrl-C      stops a query"""
_WORDS = {"exit": "\\q", "quit": "\\q", "help": "\\h", "tables": "\\d"}
_UNUSABLE = (ArithmeticError, ValueError, MemoryError, RecursionError)
"""Python's message for a value that it cannot format."""
_OF_SPOOL = 64 * 2**20
_HISTORY_LINES = 2_000
_REFERENCE = re.compile(r"\{\{\s*ref\('(\w+)'\)\s*\}\}")


def connect(path: Path) -> duckdb.DuckDBPyConnection:
    """Open the published warehouse. Errors: `PublishError` if there is none yet, or it is not a DuckDB file."""
    connection = connect_published(path)
    try:
        connection.execute("set search_path = 'marts'")
    except duckdb.Error as error:
        raise unreadable(path, error) from error
    lock(connection)
    return connection


def _first_screen(path: Path) -> str:
    """What a person reads first; where Harlequin, an SQL editor for the terminal, is installed, also its command."""
    offer = (
        f"\nHarlequin is installed too: harlequin -r {shlex.quote(str(path))}"
        if shutil.which("harlequin")
        else ""
    )
    return f"{path}, read-only. Begin with `tables`.\n{_HELP}{offer}"


def main() -> int:
    """Run the query in `$Q`, or read queries from the terminal; return the exit code."""
    try:
        form = os.environ.get("FORMAT") or "box"
        if form not in FORMATS:
            raise PublishError(f"FORMAT={form} is not one of: {', '.join(FORMATS)}")
        study = load_study(study_file())
        shell = Shell(connect(study.home.published_warehouse), form)
    except LongtailError as error:
        print(f"error: {single_line(str(error))}", file=sys.stderr)
        return 1
    if isinstance(
        sys.stdout, io.TextIOWrapper
    ):  # other programs read UTF-8, with any setting of the terminal
        sys.stdout.reconfigure(encoding=None if form == "box" else "utf-8", errors="backslashreplace")
    query = os.environ.get("Q", "")
    try:
        if query.strip():
            return 0 if shell.read(query.split("\n")) else 1
        if not sys.stdin.isatty():
            return 0 if shell.read(sys.stdin) else 1
        print(_first_screen(study.home.published_warehouse))
        with _line_editing(study.home.root / "sql_history", shell):
            shell.converse()
        return 0
    except UnicodeError as error:
        print(f"error: standard input is no UTF-8 text: {single_line(str(error))}", file=sys.stderr)
        return 1
    except OSError as error:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  (Python flushes it once more at the end)
        if isinstance(error, BrokenPipeError):  # the reader stopped early, as in `make sql Q=… | head`
            return 0
        print(f"error: the answer could not be written: {error.strerror or error}", file=sys.stderr)
        return 1


class Shell:
    """Queries and their answers over one connection. `form`: the output format of rows; `typed`: the query so far."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, form: str = "box") -> None:
        self.connection = connection
        self._form = form
        self._upright = False
        self.typed: list[str] = []
        self._n_answers, self._converses = 0, False

    def converse(self) -> None:
        """Read queries and commands from the terminal until a command or Ctrl-D ends it."""
        self._converses = True
        while True:
            try:
                line = input("     ...> " if self.typed else "longtail> ")
                if self.typed and _word(line) in _WORDS:
                    print("(part of the query above, which has no ; yet: Ctrl-C drops that query)")
                whole = self._take(line)
                if whole == "\\q":
                    return
                if whole:
                    self.do(whole)
            except EOFError:
                print()
                return
            except KeyboardInterrupt:  # also in the moment before a query runs, or after it
                print()
                self.typed = []

    def read(self, lines: Iterable[str]) -> bool:
        """Execute a text up to its end, a command that ends the session, or the first error; return whether there was
        none."""
        for line in lines:
            whole = self._take(line.rstrip("\n"))
            if whole == "\\q":
                return True
            if whole and not self.do(whole):
                return False
        return self.do("\n".join(self.typed))

    def _take(self, line: str) -> str:
        """Read one line; return a command, or the query that the line completes, or an empty text."""
        if not self.typed:
            if line.lstrip().startswith("\\"):
                return line.strip()
            if _word(line) in _WORDS:
                return _WORDS[_word(line)]
            if not line.strip() or line.lstrip().startswith("--"):
                return ""
        self.typed.append(line)
        text = "\n".join(self.typed)
        if ";" not in line or not is_whole(self.connection, text):
            return ""
        self.typed = []
        return text

    def do(self, whole: str) -> bool:
        """Execute a command or a query; return whether it succeeded."""
        if not whole.startswith("\\"):
            return self.show(whole)
        return self.command(whole)

    def command(self, line: str) -> bool:
        """Execute one of the commands in the help; return whether it succeeded."""
        name, _, table = line.strip().rstrip(";").partition(" ")
        table = table.strip()
        if name == "\\d" and not table:
            return self._list_tables()
        if name == "\\d":
            return self.show(_COLUMNS, {"name": table})
        if name == "\\e" and table:
            return self._show_example(table)
        if name == "\\x":
            self._upright = not self._upright
            print("records upright: " + ("always" if self._upright else "where a box is too wide"))
        else:
            print(_HELP)
        return True

    def show(self, query: str, parameters: dict[str, str] | None = None) -> bool:
        """Print the rows of a query's statements up to the first error, which goes to standard error.

        Returns whether all statements ran. Ctrl-C stops them. dbt's `{{ ref('table') }}` means the table, so that the
        files of `dbt/analyses` run unchanged.
        """
        try:
            for statement in admitted(self.connection, _REFERENCE.sub(r"\1", query)):
                relation = self.connection.sql(statement, params=parameters)
                if relation is not None:
                    self._write(relation)
            return True
        except (QueryError, duckdb.Error, *_UNUSABLE) as error:
            print(f"error: {_reason(error)}", file=sys.stderr)
        except (KeyboardInterrupt, RuntimeError) as error:
            # DuckDB answers Ctrl-C with a RuntimeError of its own.
            if isinstance(error, RuntimeError) and "interrupt" not in str(error).lower():
                raise
            # A stopped query blocks its connection until it is interrupted a second time.
            self.connection.interrupt()
            if not self._converses:
                raise KeyboardInterrupt from None
            print("stopped", file=sys.stderr)
        return False

    def _write(self, relation: duckdb.DuckDBPyRelation) -> None:
        """Print an answer when it is complete: if its last row fails, nothing is printed."""
        with tempfile.SpooledTemporaryFile(_OF_SPOOL, "w+", encoding="utf-8", newline="") as answer:
            if self._form != "box":
                WRITERS[self._form](relation, answer)
            else:
                write_box(relation, answer, _width(), self._upright)
            if self._n_answers and self._form in ("csv", "markdown"):
                print()
            answer.seek(0)
            shutil.copyfileobj(answer, sys.stdout)
        sys.stdout.flush()
        self._n_answers += 1

    def _list_tables(self) -> bool:
        if self._form != "box":
            return self.show(_TABLES)
        print("\n".join(listing(self.connection, _width())))
        return True

    def _show_example(self, table: str) -> bool:
        try:
            found = self.connection.execute(_EXAMPLE, {"name": table}).fetchone()
        except duckdb.CatalogException:
            found = None
        if found is None or found[0] is None:
            said = f"there is no example for {single_line(table)}; \\d lists the tables"
            print(f"error: {said}", file=sys.stderr)
            return False
        print(found[0])
        return self.show(found[0])


@contextlib.contextmanager
def _line_editing(path: Path, shell: Shell) -> Iterator[None]:
    """Line editing with completion and the lines of earlier sessions; only the user may read that file."""
    try:
        import readline
    except ImportError:  # this Python has no readline: no line editing
        yield
        return

    completion = Completion(shell.connection)

    def complete(word: str, number: int) -> str | None:
        found = completion.matches(word, "\n".join([*shell.typed, readline.get_line_buffer()]))
        return found[number] if number < len(found) else None

    readline.set_completer(complete)
    readline.set_completer_delims(" \t\n,;()=<>+-*/%|'\"")
    readline.parse_and_bind(
        "bind ^I rl_complete" if "libedit" in (readline.__doc__ or "") else "tab: complete"
    )
    with contextlib.suppress(OSError):
        readline.read_history_file(path)
    readline.set_history_length(_HISTORY_LINES)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
            readline.write_history_file(path)


def _width() -> int | None:
    """The characters of a line of the terminal; None for a pipe, where nothing is cut."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _word(line: str) -> str:
    return line.strip().rstrip("; ").lower()


def _reason(error: Exception) -> str:
    """An error in one line, without DuckDB's picture of the position."""
    said = str(error)
    if isinstance(error, duckdb.OutOfMemoryException):
        return "the query needs more memory than there is; ask for less, or in a DuckDB client that may use the disk"
    if "File system LocalFileSystem has been disabled" in said:
        return f"`{command('sql')}` reads the published warehouse, and opens no other file"
    if isinstance(error, _UNUSABLE):
        return f"a value cannot be written ({single_line(said) or type(error).__name__}); cast it: ::varchar"
    return single_line(said.split("\n\nLINE ")[0].split("\nLINE ")[0])
