"""`make sql` with hundreds of statements: none writes, none ends the process, none changes later answers."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

import duckdb

from tests.journeys.commands import PROJECT, environment

FAILING = (
    "copy words to '{folder}/stolen.csv'",
    "copy (select 'ruined') to '{path}' (format csv, header false, use_tmp_file false)",
    "copy (select 'ruined') to '{path}' (format csv)",
    "copy (select 'forged'::blob) to '{path}.wal' (format blob, use_tmp_file false)",
    "copy (select 1) to '{path}.tmp/x' (format parquet)",
    "copy (select 1) to '/dev/stdout'",
    "copy words from '{path}'",
    "copy from database warehouse to memory",
    "explain analyze copy words to '{path}' (format csv, use_tmp_file false)",
    "explain analyze copy words to '{path}.wal' (format csv, use_tmp_file false)",
    "explain copy words to '{path}'",
    "explain analyze insert into words values ('x')",
    "select 1; copy words to '{path}.wal' (use_tmp_file false)",
    "pivot words on text; copy words to '{path}.wal' (use_tmp_file false)",
    "export database '{path}'",
    "export database '{folder}/stolen'",
    "import database '{path}'",
    "attach ':memory:' as other",
    "attach '{folder}/other.duckdb' as other",
    "attach '{path}' as other",
    "attach '{path}.wal' as other",
    "attach '{path}' as other (read_only)",
    "detach warehouse",
    "use warehouse.main",
    "load httpfs",
    "load '{path}'",
    "install httpfs",
    "install '{path}'",
    "force install httpfs from community",
    "update extensions",
    "checkpoint",
    "force checkpoint",
    "vacuum",
    "analyze",
    "begin",
    "commit",
    "rollback",
    "prepare p as select 1",
    "execute p",
    "deallocate p",
    "call enable_logging()",
    "call enable_logging(storage = 'stdout')",
    "call enable_logging(storage = 'file', storage_path = '{folder}')",
    "call enable_logging(storage = 'file', storage_path = '{path}')",
    "from enable_logging(storage = 'stdout')",
    "from enable_logging(storage = 'file', storage_path = '{path}')",
    "from query('from enable_logging(storage = ''stdout'')')",
    "from json_execute_serialized_sql(json_serialize_sql('from enable_logging()'))",
    "pragma enable_profiling",
    "from enable_profiling()",
    "from enable_profiling(save_location = '{path}')",
    "from disable_profiling()",
    "pragma enable_logging",
    "pragma enable_verification",
    "pragma verify_external",
    "pragma verify_serializer",
    "pragma disable_optimizer",
    "pragma disable_checkpoint_on_shutdown",
    "pragma memory_limit = '1MB'",
    "pragma import_database('{path}')",
    "set enable_external_access = true",
    "set lock_configuration = false",
    "set disabled_filesystems = ''",
    "set allowed_paths = ['/']",
    "set allowed_directories = ['/']",
    "set allowed_configs = ['threads']",
    "set allow_community_extensions = true",
    "set temp_directory = '{folder}'",
    "set profiling_output = '{path}'",
    "set log_query_path = '{path}'",
    "set home_directory = '{folder}'",
    "set secret_directory = '{folder}'",
    "set extension_directory = '{folder}'",
    "set threads = 7",
    "set memory_limit = '1MB'",
    "set search_path = 'main'",
    "set variable words = 1",
    "set local TimeZone = 'UTC'",
    "set TimeZone = 'Nowhere'",
    "reset lock_configuration",
    "reset search_path",
    "reset all",
    "create table marts.mine as select 1",
    "create temp table words as select 1 as forged",
    "create temp view words as select 1 as forged",
    "create or replace temp macro count(x) as 1",
    "create temp table mine as pivot words on text",
    "create schema mine",
    "create sequence mine",
    "create type mine as enum ('a')",
    "create index mine on words (text)",
    "create secret mine (type s3)",
    "create persistent secret mine (type http)",
    "drop table words",
    "drop schema marts cascade",
    "drop view if exists catalogue",
    "alter table words rename to other",
    "alter table words add column forged int",
    "comment on table words is 'forged'",
    "insert into words values ('x')",
    "update words set text = 'forged'",
    "delete from words",
    "truncate words",
    "merge into words using words as other on true when matched then delete",
    "insert or replace into words values ('x') returning *",
    "with a as (select 1) delete from words",
    "with a as (select 'x') insert into words from a",
    "select * from read_text('/etc/hostname')",
    "select * from '/etc/hostname'",
    "from '{path}'",
    "from '{path}.wal'",
    "from 'https://example.org/x.parquet'",
    "from read_csv('https://example.org/x.csv')",
    "from read_duckdb('{path}', table_name = 'words')",
    "select * from glob('/*')",
    "select nextval('mine')",
    "select getenv('HOME')",
    "select error(chr(27) || '[2J' || chr(155) || '2J')",
    "select (chr(27) || '[2J')::int",
    "selec 1",
    "select 1 / ",
    "select 'unterminated",
    "select /* unterminated",
    "select '\udcff'",
    "select \x00",
    "from study",
    "from nowhere",
    "select * from words where text = $missing",
    "select * from words where text = ?",
    "select [1, 2]::int",
    "select repeat('x', 99999999999)",
    "select range(99999999999)",
    "select case when i = 15000 then error('late') else i end as i from range(20000) as t (i)",
    "select interval 10000000 years as i",
    "select " + "abs(" * 2000 + "1" + ")" * 2000,
)
READING = (
    "select 'a' as a; select 2 as b; values (3)",
    "from words",
    "describe words",
    "show tables",
    "summarize words",
    "explain select 1",
    "explain analyze from words",
    "pivot words on length(text)",
    "set TimeZone = 'Asia/Tokyo'; select timestamptz '2020-01-01 00:00:00+00' as t; reset TimeZone",
    "pragma database_list",
    "select 'copy (select 1) to ''x''' as query",
    "select sleep_ms(1)",
    "select write_log('nowhere')",
    "select 'infinity'::date as d, '290000-01-01'::timestamp as t, interval 1 month as i, 'a'::blob as b",
    "from {{{{ ref('words') }}}}",
)
PUT_ALL = """
import contextlib, io, json, sys
from pathlib import Path
from dagster_project.sql import Shell, connect
put, answered, path = map(Path, sys.argv[1:])
connection = connect(path)
shell = Shell(connection, "json")
def seen():
    return connection.execute('''select (select list(text) from words),
    (select list(name || coalesce(value, '') order by name) from duckdb_settings()), (select count(*) from
    duckdb_tables()), (select count(*) from duckdb_views()), (select count(*) from duckdb_logs())''').fetchall()
functions = "select count(*) from duckdb_functions()"
before, known = seen(), connection.execute(functions).fetchall()
with answered.open("w") as file:
    for statement in json.loads(put.read_text()):
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            succeeded = shell.show(statement)
        print(json.dumps([statement, succeeded, seen() == before, said.getvalue()]), file=file, flush=True)
assert connection.execute(functions).fetchall() == known
"""


def calls() -> list[str]:
    """Every table function of this DuckDB, called in three ways."""
    with duckdb.connect() as connection:
        named = connection.execute(
            "select distinct function_name from duckdb_functions() "
            "where function_type in ('table', 'table_macro') order by all"
        ).fetchall()
    return [f"from {name}({given})" for (name,) in named for given in ("", "'{path}'", "1, 1")]


def everything_in(folder: Path) -> dict[str, str]:
    return {
        str(file): hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else ""
        for file in folder.rglob("*")
    }


def arrays(text: str) -> list[list[dict[str, object]]]:
    """The JSON arrays in `text`, one after the other."""
    found, decoder = [], json.JSONDecoder()
    while text := text.lstrip():
        array, end = decoder.raw_decode(text)
        found.append(array)
        text = text[end:]
    return found


def test_no_statement_writes_or_aborts_or_changes_later_answers(tmp_path: Path) -> None:
    path = tmp_path / "published/warehouse.duckdb"
    path.parent.mkdir()
    with duckdb.connect(str(path)) as warehouse:
        warehouse.execute("create schema marts; create table marts.words as select 'a' as text")
    statements = [text.format(path=path, folder=tmp_path / "out") for text in (*FAILING, *READING, *calls())]
    assert len(set(statements)) > 300
    put, answered, elsewhere = tmp_path / "put.json", tmp_path / "answered.json", tmp_path / "elsewhere"
    put.write_text(json.dumps(statements), encoding="utf-8")
    elsewhere.mkdir()
    before = everything_in(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", PUT_ALL, str(put), str(answered), str(path)], cwd=elsewhere,
        env=environment(tmp_path / "home", HOME=str(elsewhere), PYTHONPATH=str(PROJECT)),
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    lines = [json.loads(line) for line in answered.read_text(encoding="utf-8").splitlines()]
    answered.unlink()
    assert done.returncode == 0, (statements[len(lines) :][:1], done.stderr[-500:])
    assert [line[0] for line in lines] == statements
    assert everything_in(tmp_path) == before
    assert [statement for statement, _, is_same, _ in lines if not is_same] == []
    assert [line for line in lines[: len(FAILING)] if line[1]] == []
    assert [line for line in lines[len(FAILING) :][: len(READING)] if not line[1]] == []
    for statement, succeeded, _, said in lines:
        line = "" if succeeded else r"error: [^\x00-\x1f\x7f-\x9f]+\n"
        assert re.fullmatch(line, said), (statement, said)
    assert len(arrays(done.stdout)) >= len(READING)
