"""What may be asked of a published warehouse: statements that only read, over a connection that opens no file.

What belongs here: a connection's locks, admitting or refusing statements by their kind and their functions, telling a
whole text of SQL from the beginning of one. What does not: answers (`sql`).

A read-only connection without external access is no protection: DuckDB lets a statement write to the path of the
database that is open, and to its log. So each of the two halves here holds alone.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

import duckdb
from duckdb import DuckDBPyConnection, Statement, StatementType

from dagster_project.core.errors import QueryError

DISPLAY_SETTINGS = ("TimeZone", "Calendar", "explain_output")
"""What a statement may set: it changes how values and plans are shown, and nothing else."""

_LOCKS = (
    "set temp_directory = ''",
    "set enable_external_access = false",
    "set autoload_known_extensions = false",
    "set autoinstall_known_extensions = false",
    "set allow_community_extensions = false",
    "set python_enable_replacements = false",  # a variable of this program is no table
    # The path of the open database is exempt from the lock on external access, but not from this one.
    "set disabled_filesystems = 'LocalFileSystem'",
    f"set allowed_configs = {list(DISPLAY_SETTINGS)}",
    "set lock_configuration = true",
)
_ADMITTED = (
    "`make sql` reads the published warehouse: it takes SELECT (also FROM, WITH, VALUES, TABLE, PIVOT), DESCRIBE, SHOW, "
    f"SUMMARIZE, EXPLAIN of these, and SET of {', '.join(DISPLAY_SETTINGS)}"
)
_COMPUTING = frozenset(
    {"generate_series", "histogram", "histogram_values", "icu_calendar_names", "json_each", "json_tree"}
    | {"pg_timezone_names", "query_table", "range", "repeat", "repeat_row", "summary", "unnest"}
)
_DESCRIBING = ("duckdb_", "pragma_")
"""Table functions of a SELECT, by name and by prefix, that compute or describe. The others of DuckDB act on the database
(`enable_profiling`), open files, or run a text that nobody has looked at (`query`)."""

_FUNCTION = re.compile(r'"function_name":"((?:[^"\\]|\\.)*)"')
_WORD = re.compile(r"\w+", re.ASCII)
_TOKEN = re.compile(rb"\w+|.", re.DOTALL)


def lock(connection: DuckDBPyConnection) -> None:
    """Let a connection open no file and no network any more, and change no setting but those of display.

    Queries may not spill to the disk either: one that needs more memory than there is fails.
    """
    for setting in _LOCKS:
        connection.execute(setting)


def is_whole(connection: DuckDBPyConnection, text: str) -> bool:
    """Whether `text` ends with a statement's semicolon: one in a comment or a quoted text ends nothing."""
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

    Errors: `QueryError` where one of them does more; `duckdb.Error` where the text is no SQL.
    """
    if not _is_utf8(text):
        raise QueryError("the query is no UTF-8 text")
    statements = connection.extract_statements(text)
    # PIVOT without its values comes as several statements, whose `query` is then no statement's text.
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
    if statement.type == StatementType.CREATE:  # of PIVOT a type for the values; nobody wrote the word
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
    """What follows EXPLAIN and its options."""
    tokens = _tokens(query)[1:]
    words = [word for _, word in tokens]
    if words[:1] == [b"analyze"]:
        tokens = tokens[1:]
    elif words[:2] in ([b"(", b"analyze"], [b"(", b"format"]):
        tokens = tokens[words.index(b")") + 1 :]
    return query.encode()[tokens[0][0] :].decode() if tokens else ""


def _tokens(text: str) -> list[tuple[int, bytes]]:
    """Where each token begins, in bytes, and its word in lower case, or its first character; comments are none.

    DuckDB's own lexer says so: what it takes for a comment is not ours to decide.
    """
    encoded = text.encode()
    starts = [start for start, _ in duckdb.tokenize(text)]
    return [(start, _TOKEN.match(encoded, start)[0].lower()) for start in starts]  # type: ignore[index]


def _functions(connection: DuckDBPyConnection, text: str) -> set[str]:
    """Names of the functions of a text; of one that DuckDB's parser gives no tree for, every word."""
    row = connection.execute("select json_serialize_sql(?::varchar)", [text]).fetchone()
    tree = str(row[0]) if row else ""
    if not tree.startswith('{"error":false'):
        return _words(text)
    return {name.lower() for name in _FUNCTION.findall(tree)}


def _is_utf8(text: str) -> bool:
    """Whether it can be encoded; bytes that Python could not decode are lone surrogates in it."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


@functools.cache
def _acting_functions() -> frozenset[str]:
    """The table functions of this DuckDB but for those that compute or describe."""
    with duckdb.connect() as connection:
        rows = connection.execute(
            "select distinct function_name from duckdb_functions() where function_type in ('table', 'table_macro')"
        ).fetchall()
    names = {name for (name,) in rows}
    return frozenset(name for name in names - _COMPUTING if not name.startswith(_DESCRIBING))


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.lower()))
