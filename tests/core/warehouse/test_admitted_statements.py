"""Which statements are put to a published warehouse; that nothing harms it whatever is put, `tests/test_sql.py` shows."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from dagster_project.core.errors import QueryError
from dagster_project.core.warehouse.statements import admitted, is_whole, lock

READING = (
    "select 1",
    "from words",
    "with a as (from words) select * from a",
    "values (1)",
    "table words",
    "describe words",
    "show tables",
    "summarize words",
    "select text as query, 'checkpoint' as enable_logging from words",
    "pivot words on text",
    "from (pivot words on text using count(*)) as p",
    "pivot words on text in ('a')",
    "unpivot words on text",
    "explain select 1",
    "explain analyze from words",
    "explain (format json) select 1",
    "explain (analyze, format json) (select 1)",
    "explain /* ( */ analyze -- why\n select 1",
    "-- note\nset TimeZone = 'UTC'",
    "set session timezone to 'UTC'",
    "set time zone 'UTC'",
    "reset Calendar",
    "set explain_output = 'all'",
    "pragma table_info('words')",
    "select unnest([1]), r from range(3) as t (r), json_each('[1]'), duckdb_tables()",
    "select 1; from words; select 2",
    "",
    "-- nothing",
)
REFUSED = {
    "copy words to 'x'": "COPY",
    "select 1; copy words to 'x'": "COPY",
    "with a as (select 1) insert into words from a": "INSERT",
    "explain copy words to 'x'": "EXPLAIN",
    "explain analyze copy words to 'x'": "EXPLAIN",
    "explain (analyze) insert into words values ('b')": "EXPLAIN",
    # DuckDB's comments nest, and end at a carriage return too: what stands after them is the statement.
    "explain analyze /* /* */ select 1 -- */ copy words to 'x'": "EXPLAIN",
    "explain analyze --\rcopy (select 1 as \"a\nselect 1 --\") to 'x'": "EXPLAIN",
    "explain pivot words on text": "TRANSACTION",
    "create temp table words as select 1": "CREATE",
    "create temp table words as pivot words on text": "TRANSACTION",
    "pivot words on text; create temp table words as select 1": "CREATE",
    "pivot words on text; call enable_logging()": "CALL",
    "pivot (from enable_logging()) on Success": "function enable_logging",
    "pivot (from query('from enable_' || 'logging()')) on Success": "function query",
    "from enable_logging()": "function enable_logging",
    "select (from system.main.\"Enable_Logging\" (storage := 'stdout'))": "function enable_logging",
    "from\u00a0enable_logging\u00a0()": "function enable_logging",
    "with a as (from checkpoint()) select 1": "function checkpoint",
    "from query('from enable_' || 'logging()')": "function query",
    "from json_execute_serialized_sql(json_serialize_sql('from words'))": "function json_execute",
    "select 1; from enable_logging(); explain select 1": "function enable_logging",
    "from enable_profiling()": "function enable_profiling",
    "from read_csv('x')": "function read_csv",
    "set threads = 1": "SET",
    "set variable TimeZone = 1": "SET",
    "set search_path = 'main'": "SET",
    "use main": "SET",
    "pragma threads = 1": "SET",
    "pragma enable_profiling": "PRAGMA",
    "prepare p as select 1": "PREPARE",
    "begin": "TRANSACTION",
    "select '\udcff'": "not UTF-8",
}


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> duckdb.DuckDBPyConnection:
    """A read-only one, as of a published file."""
    file = tmp_path_factory.mktemp("published") / "warehouse.duckdb"
    with duckdb.connect(str(file)) as writing:
        writing.execute("create table words as select 'a' as text")
    return duckdb.connect(str(file), read_only=True)


@pytest.mark.parametrize("text", READING)
def test_what_reads_is_admitted_and_runs(connection: duckdb.DuckDBPyConnection, text: str) -> None:
    for statement in admitted(connection, text):
        connection.execute(statement)
        connection.fetchall()
    connection.execute("reset explain_output")


@pytest.mark.parametrize(("text", "named"), REFUSED.items(), ids=range(len(REFUSED)))
def test_what_does_more_is_refused_by_its_name(
    connection: duckdb.DuckDBPyConnection, text: str, named: str
) -> None:
    with pytest.raises(QueryError, match=named):
        admitted(connection, text)


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("select 1;", True),
        ("select 1; -- said", True),
        ("select 'é';", True),
        ("copy words to 'x';", True),
        ("selec;", True),
        ("select 1", False),
        ("select 1 -- ;", False),
        ("select 1, /* ;", False),
        ("select 1; /* and", False),
        ("select 'a;", False),
        ('select "a;', False),
        ("select $$a;", False),
        ("", False),
    ],
)
def test_a_text_is_whole_with_the_semicolon_that_ends_it(
    connection: duckdb.DuckDBPyConnection, text: str, whole: bool
) -> None:
    assert is_whole(connection, text) is whole


def test_the_locks_alone_keep_every_file_from_being_written(tmp_path: Path) -> None:
    """Statements that would be refused, run all the same: the open database's own path among their targets."""
    file = tmp_path / "warehouse.duckdb"
    with duckdb.connect(str(file)) as writing:
        writing.execute("create table words as select 'a' as text")
    before = file.read_bytes()
    with duckdb.connect(str(file), read_only=True) as connection:
        lock(connection)
        for target in (file, f"{file}.wal", f"{file}.tmp/x", tmp_path / "x", "x", "/dev/null"):
            for statement in (
                f"copy words to '{target}' (format csv, use_tmp_file false)",
                f"explain analyze copy words to '{target}' (format blob, use_tmp_file false)",
                f"export database '{target}'",
                f"attach '{target}' as other",
                f"call enable_logging(storage='file', storage_path='{target}')",
                f"from read_blob('{target}')",
                f"from enable_profiling(save_location = '{target}')",
            ):
                with pytest.raises(duckdb.Error):
                    connection.execute(statement)
        for setting in ("disabled_filesystems = ''", "temp_directory = 'x'", "allowed_configs = ['threads']"):
            with pytest.raises(duckdb.Error, match="locked"):
                connection.execute(f"set {setting}")
        assert connection.sql("from words").fetchall() == [("a",)]
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]
