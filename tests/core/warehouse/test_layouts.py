"""How rows are written: every column, every character, and formats that their readers read back."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import duckdb
import pytest

from dagster_project.core.warehouse.layouts import write_box, write_csv, write_json, write_markdown

HOSTILE = "a,b|c \"q\" 'x'\n\x1b[31m<b> \\ 東京"
WIDE = "select " + ", ".join(f"'value {number}' as column_{number}" for number in range(60))


@pytest.fixture
def connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


def test_a_pipe_gets_every_column_of_every_row(connection: duckdb.DuckDBPyConnection) -> None:
    out = io.StringIO()
    write_box(connection.sql(f"{WIDE}, repeat('x', 500) as long from range(300)"), out, width=None)
    assert all(f"value {number} " in out.getvalue() for number in range(60))
    assert out.getvalue().count("x" * 500) == 300


def test_what_is_wider_than_the_terminal_stands_upright(connection: duckdb.DuckDBPyConnection) -> None:
    out = io.StringIO()
    write_box(connection.sql(f"{WIDE}, ? as hostile", params=[HOSTILE]), out, width=80)
    lines = out.getvalue().splitlines()
    assert lines[0].startswith("─[ 1 ]")
    assert [line.split()[0] for line in lines[1:61]] == [f"column_{number}" for number in range(60)]
    assert lines[-1] == "(1 row)"
    assert "\x1b" not in out.getvalue()
    narrow = io.StringIO()
    write_box(connection.sql("select 1 as n"), narrow, width=80)
    assert narrow.getvalue().startswith("┌")


@pytest.mark.parametrize("upright", [False, True])
def test_nothing_in_a_row_moves_the_terminal(connection: duckdb.DuckDBPyConnection, upright: bool) -> None:
    """ESC and its one-character form, in a value and in the name of a column."""
    out = io.StringIO()
    row = connection.sql('select ? as "\x1b[2J\x9b2J"', params=["\x1b]0;title\x07\x9b31m\x85"])
    write_box(row, out, width=80, upright=upright)
    assert "title" in out.getvalue()
    assert not set(out.getvalue().replace("\n", "")) & set(map(chr, [*range(32), 127, *range(128, 160)]))


def test_many_records_are_cut_and_it_is_said(connection: duckdb.DuckDBPyConnection) -> None:
    out = io.StringIO()
    write_box(connection.sql("from range(1000)"), out, width=80, upright=True)
    assert "20 records shown, there are more" in out.getvalue()
    none = io.StringIO()
    write_box(connection.sql("from range(0)"), none, width=80, upright=True)
    assert none.getvalue() == "(0 rows)\n"


def test_csv_comes_back(connection: duckdb.DuckDBPyConnection) -> None:
    out = io.StringIO(newline="")
    write_csv(connection.sql("select ? as t, null as n, [1, 2] as l, true as b", params=[HOSTILE]), out)
    assert list(csv.reader(io.StringIO(out.getvalue(), newline=""))) == [
        ["t", "n", "l", "b"], [HOSTILE, "", "[1, 2]", "true"],
    ]  # fmt: skip


def test_json_comes_back_and_knows_infinity(connection: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    query = "select ? as t, 'inf'::double as i, 'nan'::double as n, {'a': [1.5, null]} as s, date '2026-10-01' as d"
    out = io.StringIO()
    write_json(connection.sql(f"{query} from range(2)", params=[HOSTILE]), out)
    row = {"t": HOSTILE, "i": "Infinity", "n": "NaN", "s": {"a": [1.5, None]}, "d": "2026-10-01"}
    assert json.loads(out.getvalue()) == [row, row]
    file = tmp_path / "rows.json"
    file.write_text(out.getvalue(), encoding="utf-8")
    assert connection.execute("select t from read_json(?)", [str(file)]).fetchall() == [(HOSTILE,)] * 2
    empty = io.StringIO()
    write_json(connection.sql("select 1 where false"), empty)
    assert json.loads(empty.getvalue()) == []


def test_markdown_cells_are_text(connection: duckdb.DuckDBPyConnection) -> None:
    out = io.StringIO()
    write_markdown(connection.sql("select ? as t, null as n", params=[HOSTILE]), out)
    lines = out.getvalue().splitlines()
    assert lines[:2] == ["| t | n |", "| --- | --- |"]
    assert len(lines) == 3
    assert r"\|" in lines[2]
    assert r"\<b\>" in lines[2]
    assert lines[2].endswith("東京 |  |")
