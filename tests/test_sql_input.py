"""The input of `make sql` from a pipe, from `Q` and from the terminal, and its output for several answers."""

from __future__ import annotations

import builtins
import io
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pytest

from dagster_project.sql import Shell, connect, main
from tests.journeys.commands import PROJECT, command, environment, small_study

LATE = "select case when i = 9000 then error('late') else i end as i from range(9500) as t (i)"


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The chosen study, whose published warehouse has one table with one row."""
    published = tmp_path / "home/small/published"
    published.mkdir(parents=True)
    with duckdb.connect(str(published / "warehouse.duckdb")) as warehouse:
        warehouse.execute("create schema marts; create table marts.words as select 'wörd' as text")
    path = small_study(tmp_path, "fake:passage", facts=8)
    for name, value in (
        ("LONGTAIL_HOME", tmp_path / "home"),
        ("LONGTAIL_STUDY", path),
        ("Q", ""),
        ("FORMAT", ""),
    ):
        monkeypatch.setenv(name, str(value))
    return path


@pytest.fixture
def asked(
    study: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Sends a text, through a pipe or as `Q`, in a format; returns exit code, standard output, standard error."""

    def ask(text: str, form: str, through: str = "pipe") -> tuple[int, str, str]:
        monkeypatch.setenv("FORMAT", form)
        monkeypatch.setenv("Q", text if through == "Q" else "")
        monkeypatch.setattr("sys.stdin", io.StringIO("" if through == "Q" else text))
        code = main()
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return ask


@pytest.mark.parametrize("through", ["pipe", "Q"])
def test_each_of_several_statements_is_answered(
    asked: Callable[..., tuple[int, str, str]], through: str
) -> None:
    text = "-- two\nselect 1 as a; select 2 as b;\nselect ';\n' as c -- ;\n; from words"
    assert asked(text, "csv", through) == (0, 'a\n1\n\nb\n2\n\nc\n";\n"\n\ntext\nwörd\n', "")
    code, out, _ = asked(text, "json", through)
    assert code == 0
    assert [json.loads(line) for line in out.splitlines()] == [
        [{"a": 1}], [{"b": 2}], [{"c": ";\n"}], [{"text": "wörd"}],
    ]  # fmt: skip
    assert asked("select 1 as a; select 2 as b", "markdown", through)[1] == (
        "| a |\n| --- |\n| 1 |\n\n| b |\n| --- |\n| 2 |\n"
    )
    assert asked(text, "box", through)[1].count("┌") == 4


def test_the_first_error_ends_a_text_and_a_refused_line_does_not_run_at_all(
    asked: Callable[..., tuple[int, str, str]],
) -> None:
    code, out, said = asked("select 1 as a;\nselect nope from words;\nselect 3 as c;", "json")
    assert (code, out) == (1, '[{"a": 1}]\n')
    assert said.startswith("error: ")
    assert "nope" in said
    code, out, said = asked("select 1 as a; copy words to 'x'", "json")
    assert (code, out) == (1, "")
    assert "COPY is refused" in said


@pytest.mark.parametrize("form", ["box", "csv", "json", "markdown"])
def test_an_answer_that_fails_on_a_late_row_prints_nothing(
    asked: Callable[..., tuple[int, str, str]], form: str
) -> None:
    assert asked(LATE, form) == (1, "", "error: Invalid Input Error: late\n")
    first, out, said = asked(f"select 1 as a; {LATE}; select 3 as c", form)
    assert (first, out, said) == (1, asked("select 1 as a", form)[1], "error: Invalid Input Error: late\n")


def test_a_late_value_that_json_cannot_hold_leaves_no_partial_array(
    asked: Callable[..., tuple[int, str, str]],
) -> None:
    code, out, said = asked(
        "select case when i = 15000 then interval 10000000 years end as i from range(20000) as t (i)", "json"
    )
    assert (code, out) == (1, "")
    assert said.startswith("error: a value cannot be written")
    assert "::varchar" in said


@pytest.mark.parametrize("word", ["exit", "QUIT", " exit ; ", "\\q"])
def test_a_command_ends_a_text_and_nothing_after_it_runs(
    asked: Callable[..., tuple[int, str, str]], word: str
) -> None:
    assert asked(f"select 1 as a;\n{word}\nselect 2 as b;", "csv") == (0, "a\n1\n", "")
    assert asked(word, "csv", "Q") == (0, "", "")


def test_bytes_other_than_utf8_are_a_one_line_error(
    asked: Callable[..., tuple[int, str, str]],
) -> None:
    text = b"select '\xff'".decode("utf-8", "surrogateescape")  # as Python reads a pipe and the environment
    for through in ("pipe", "Q"):
        assert asked(text, "json", through) == (1, "", "error: the query is not UTF-8 text\n")


def test_help_is_shown_and_the_following_query_runs(asked: Callable[..., tuple[int, str, str]]) -> None:
    code, out, said = asked("help\nselect 1 as a\n", "csv")
    assert (code, said) == (0, "")
    assert out.startswith("A query ends with ;")
    assert out.endswith("a\n1\n")
    assert asked("select 1 as\nhelp", "csv")[1] == "help\n1\n"  # within a query it is a name like any other


def test_commands_of_the_terminal(
    study: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines: Iterator[str] = iter(
        ["help", "select 1 as", "quit", ";", "select ';", "' as d; -- done", "exit", "select 3 as c;"]
    )
    monkeypatch.setattr(builtins, "input", lambda prompt: next(lines))
    Shell(connect(study.parent / "home/small/published/warehouse.duckdb"), "json").converse()
    shown = capsys.readouterr()
    assert shown.err == ""
    assert shown.out.startswith("A query ends with ;")
    assert "part of the query above" in shown.out
    assert shown.out.endswith('[{"quit": 1}]\n[{"d": ";\\n"}]\n')
    assert next(lines) == "select 3 as c;"


def test_neither_a_terminal_of_ascii_nor_a_full_disk_ends_in_a_trace(study: Path) -> None:
    def put(query: bytes, stdout: int | io.BufferedWriter, **more: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            command("sql"), cwd=PROJECT, env=environment(study.parent / "home", study, **more),
            input=query, stdout=stdout, stderr=subprocess.PIPE, timeout=120,
        )  # fmt: skip

    done = put(b"from words", subprocess.PIPE, FORMAT="json", PYTHONIOENCODING="ascii")
    assert json.loads(done.stdout) == [{"text": "wörd"}]
    if os.path.exists("/dev/full"):
        with open("/dev/full", "wb") as full:
            done = put(b"from range(100000)", full, FORMAT="json")
        assert done.returncode == 1
        assert done.stderr == b"error: the answer could not be written: No space left on device\n"
