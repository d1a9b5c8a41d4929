"""The statements that a published warehouse accepts: they only read, over a connection that opens no other file.

What belongs here: locking a connection, accepting or refusing statements by their kind and their functions, and
deciding whether a text of SQL is complete. What does not: answers (`sql`).

A read-only connection without external access is not enough: DuckDB still lets a statement write to the path of the
open database and to its log. So there are two protections here, and each of them is sufficient.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

import duckdb
from duckdb import DuckDBPyConnection, Statement, StatementType

from dagster_project.core.errors import QueryError
from dagster_project.core.storage.home import command

DISPLAY_SETTINGS = ("TimeZone", "Calendar", "explain_output")
"""Settings that a statement may change: they only change how values and plans are shown."""

_LOCKS = (
    "set temp_directory = ''",
    "set enable_external_access = false",
    "set autoload_known_extensions = false",
    "set autoinstall_known_extensions = false",
    "set allow_community_extensions = false",
    "set python_enable_replacements = false",  # a variable of this program is no table
    # The lock on external access does not cover the path of the open database, but this one does.
    "set disabled_filesystems = 'LocalFileSystem'",
    f"set allowed_configs = {list(DISPLAY_SETTINGS)}",
    "set lock_configuration = true",
)
_ADMITTED = (
    f"`{command('sql')}` reads the published warehouse: it takes SELECT (also FROM, WITH, VALUES, TABLE, PIVOT), "
    f"DESCRIBE, SHOW, SUMMARIZE, EXPLAIN of these, and SET of {', '.join(DISPLAY_SETTINGS)}"
)
_COMPUTING = frozenset(
    {"generate_series", "histogram", "histogram_values", "icu_calendar_names", "json_each", "json_tree"}
    | {"pg_timezone_names", "query_table", "range", "repeat", "repeat_row", "summary", "unnest"}
)
_DESCRIBING = ("duckdb_", "pragma_")
"""Table functions of a SELECT, by name and by prefix, that compute or describe. DuckDB's other table functions act on the
database (`enable_profiling`), open files, or run a text that was not checked (`query`)."""

_FUNCTION = re.compile(r'"function_name":"((?:[^"\\]|\\.)*)"')
_WORD = re.compile(r"\w+", re.ASCII)
_TOKEN = re.compile(rb"\w+|.", re.DOTALL)


def lock(connection: DuckDBPyConnection) -> None:
    """Lock a connection: it can open no file and no network, and change only settings of display.

    Queries cannot write to the disk either: a query that needs more memory than there is fails.
    """
    for setting in _LOCKS:
        connection.execute(setting)


def is_whole(connection: DuckDBPyConnection, text: str) -> bool:
    """Whether `text` ends with the semicolon of a statement. A semicolon in a comment or quoted text does not count."""
    if not _is_utf8(text):
        return True
    tokens = _tokens(text)
    if not tokens or tokens[-1][1] != b";":
        return False
    try:
        connection.extract_statements(text)
    except duckdb.Error as error:
        return "unterminated" not in str(error)
    return True


def admitted(connection: DuckDBPyConnection, text: str) -> Sequence[Statement]:
    """The statements of `text`, which only read.

    Errors: `QueryError` if one of them does more than read; `duckdb.Error` if the text is not SQL.
    """
    if not _is_utf8(text):
        raise QueryError("the query is not UTF-8 text")
    statements = connection.extract_statements(text)
    # PIVOT without values becomes several statements, and their `query` is then not the text of a statement.
    is_expanded = any(statement.type == StatementType.CREATE for statement in statements)
    for statement in statements:
        if not _only_reads(connection, statement, text, is_expanded):
            raise QueryError(f"{statement.type.name.replace('_', ' ')} is refused: {_ADMITTED}")
    for name in sorted(_functions(connection, text) & _acting_functions()):
        raise QueryError(f"function {name} is refused: {_ADMITTED}")
    return statements


def _only_reads(connection: DuckDBPyConnection, statement: Statement, text: str, is_expanded: bool) -> bool:
    if statement.type == StatementType.SELECT:
        return True
    if (
        statement.type == StatementType.CREATE
    ):  # a type that PIVOT makes for its values; it is not in the text
        return "create" not in _words(text)
    if statement.type == StatementType.SET:
        return not is_expanded and _sets_display(statement.query)
    if statement.type != StatementType.EXPLAIN or is_expanded:
        return False
    explained = connection.extract_statements(_explained(statement.query))
    return [one.type for one in explained] == [StatementType.SELECT]


def _sets_display(query: str) -> bool:
    words = [word for _, word in _tokens(query)[1:] if word not in (b"session", b"global")]
    name = b"timezone" if words[:2] == [b"time", b"zone"] else b"".join(words[:1])
    return name in {setting.lower().encode() for setting in DISPLAY_SETTINGS}


def _explained(query: str) -> str:
    """The text after EXPLAIN and its options."""
    tokens = _tokens(query)[1:]
    words = [word for _, word in tokens]
    if words[:1] == [b"analyze"]:
        tokens = tokens[1:]
    elif words[:2] in ([b"(", b"analyze"], [b"(", b"format"]):
        tokens = tokens[words.index(b")") + 1 :]
    return query.encode()[tokens[0][0] :].decode() if tokens else ""


def _tokens(text: str) -> list[tuple[int, bytes]]:
    """Where each token begins, in bytes, and its word in lower case, or its first character; comments are not tokens.

    DuckDB's own lexer decides what a comment is.
    """
    encoded = text.encode()
    starts = [start for start, _ in duckdb.tokenize(text)]
    return [(start, _TOKEN.match(encoded, start)[0].lower()) for start in starts]  # type: ignore[index]


def _functions(connection: DuckDBPyConnection, text: str) -> set[str]:
    """Names of the functions in a text. If DuckDB's parser gives no tree for it, every word counts as a function."""
    row = connection.execute("select json_serialize_sql(?::varchar)", [text]).fetchone()
    tree = str(row[0]) if row else ""
    if not tree.startswith('{"error":false'):
        return _words(text)
    return {name.lower() for name in _FUNCTION.findall(tree)}


def _is_utf8(text: str) -> bool:
    """Whether the text can be encoded. Bytes that Python could not decode are lone surrogates in it."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


@functools.cache
def _acting_functions() -> frozenset[str]:
    """The table functions of this DuckDB, except those that compute or describe."""
    with duckdb.connect() as connection:
        rows = connection.execute(
            "select distinct function_name from duckdb_functions() where function_type in ('table', 'table_macro')"
        ).fetchall()
    names = {name for (name,) in rows}
    return frozenset(name for name in names - _COMPUTING if not name.startswith(_DESCRIBING))


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.lower()))
