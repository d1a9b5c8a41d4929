"""`make sql`: a query arrives exactly as typed."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import duckdb
import pytest

from dagster_project.sql import connect
from tests.journeys.commands import PROJECT, command, environment, small_study

TEXT = """it's "q" $HOME $(id) ${x} `id` \\ # %d;"""
QUERY = f"""select "text", t."text" = $${TEXT}$$ as same from words t where "text" = '{TEXT.replace("'", "''")}'"""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """A study whose published warehouse has one table with one text."""
    published = tmp_path / "home/small/published"
    published.mkdir(parents=True)
    with duckdb.connect(str(published / "warehouse.duckdb")) as warehouse:
        warehouse.execute("create schema marts")
        warehouse.execute("create table marts.words as select ? as text", [TEXT])
        warehouse.execute("comment on column marts.words.text is 'a text'")
        warehouse.execute(
            "create table marts.catalogue as select 'words' as topic, 'words' as table_name, "
            "1 as n_rows, 'text' as grain, 'words' as description, 'select * from words' as example_query"
        )
    return small_study(tmp_path, "fake:passage", facts=8)


def shown(arguments: list[str], study: Path, **more: str) -> str:
    done = subprocess.run(
        arguments,
        cwd=PROJECT,
        env=environment(study.parent / "home", study, **more),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_query_arrives_unchanged_as_argument_and_from_the_environment(study: Path) -> None:
    for out in (
        shown(command("sql", "-c", QUERY), study),
        shown(command("sql"), study, Q=QUERY),
    ):
        assert TEXT in out
        assert "true" in out


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_neither_make_nor_the_shell_reads_a_query(study: Path, tmp_path: Path) -> None:
    python = tmp_path / "venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    (tmp_path / "venv/.installed").touch()
    make = ["make", "-s", "sql", f"VENV={tmp_path / 'venv'}", f"STUDY={study}"]
    for out in (shown([*make, f"Q={QUERY}"], study), shown(make, study, Q=QUERY)):
        assert TEXT in out
        assert "true" in out


ATTACKS = (
    "select * from read_text('/etc/hostname')",
    "select * from '/etc/hostname'",
    "select * from glob('/*')",
    "copy words to '{folder}/stolen.csv'",
    "export database '{folder}/stolen'",
    "attach '{folder}/other.duckdb' as other",
    "attach ':memory:' as other",
    "install httpfs",
    "load httpfs",
    "load '{folder}/evil.duckdb_extension'",
    "from read_csv('https://example.org/x.csv')",
    "set enable_external_access = true",
    "set lock_configuration = false",
    "set allow_community_extensions = true",
    "set temp_directory = '{folder}'",
    "reset lock_configuration",
    "create secret stolen (type s3)",
    "create table marts.mine as select 1",
    "insert into words values ('x')",
    "delete from words",
    "drop table words",
    "from study",
    "from published",
)


def test_the_connection_reads_the_one_file_and_nothing_else(study: Path, tmp_path: Path) -> None:
    path = study.parent / "home/small/published/warehouse.duckdb"
    published = (
        duckdb.connect(str(path), read_only=True).sql("from marts.words").df()
    )  # a variable, not a table
    before = path.read_bytes()
    with connect(path) as connection:
        for attack in ATTACKS:
            with pytest.raises(duckdb.Error):
                connection.sql(attack.format(folder=tmp_path / "out")).fetchall()
        assert connection.sql("select count(*) from words").fetchone() == (len(published),)
    assert path.read_bytes() == before
    assert not (tmp_path / "out").exists()


def test_errors_are_one_line_and_an_invalid_file_is_named(study: Path, tmp_path: Path) -> None:
    home = study.parent / "home"
    for query, said in (
        ("selec 1", "syntax error"),
        ("select nope\nfrom words", "nope"),
        ("from nowhere", "nowhere"),
    ):
        done = run(command("sql", "-c", query), home, study)
        assert done.returncode == 1
        assert len(done.stderr.strip().splitlines()) == 1
        assert said in done.stderr
    done = run(command("sql", "-c", "select 1"), home, study, FORMAT="xml")
    assert done.returncode == 1
    assert "box, csv, json, markdown" in done.stderr
    (home / "small/published/warehouse.duckdb").write_bytes(b"no database")
    done = run(command("sql", "-c", "select 1"), home, study)
    assert done.returncode == 1
    assert "publish the warehouse again" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_queries_from_a_pipe_are_answered_in_the_requested_format(study: Path) -> None:
    done = run(command("sql"), study.parent / "home", study, stdin="from words", FORMAT="csv")
    assert done.stdout.splitlines()[0] == "text"
    head = subprocess.run(
        f"{shlex.join(command('sql', '-c', 'from range(100000)'))} | head -1",
        shell=True, cwd=PROJECT, env=environment(study.parent / "home", study, FORMAT="csv"),
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert head.stdout == "range\n"
    assert head.stderr == ""


def test_a_session_survives_ctrl_c_keeps_its_history_and_ends_with_ctrl_d(
    study: Path, tmp_path: Path
) -> None:
    home = study.parent / "home"
    (tmp_path / "harlequin").touch(0o755)
    programs = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    master, slave = pty.openpty()
    process = subprocess.Popen(
        command("sql"), cwd=PROJECT, env=environment(home, study, TERM="xterm", PATH=programs),
        stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
        preexec_fn=_as_in_a_terminal,
    )  # fmt: skip
    os.close(slave)
    try:
        first = until(master, "longtail> ")
        assert first.count("\n") <= 10
        assert f"harlequin -r {shlex.quote(str(home / 'small/published/warehouse.duckdb'))}" in first
        for typed, said in (
            ("\\d words\n", ("a text", "longtail> ")),
            ("\\e words\n", ("select * from words", "longtail> ")),
            ("\\x\n", ("upright", "longtail> ")),
            ("\\x\n", ("where a box is too wide", "longtail> ")),
            ("select count(te\t) as counted from words;\n", ("(text", "counted", "1", "longtail> ")),
            ("select 1 +\n", ("...> ",)),
            ("\x03", ("longtail> ",)),  # it is lost while Python has shown a prompt and does not listen yet
            ("select count(*) from range(1000000000000) as a, range(1000) as b;\n", (" as b;", "\n")),
        ):
            os.write(master, typed.encode())
            until(master, *said, again="\x03" if typed == "\x03" else "")
        time.sleep(1)
        os.write(master, b"\x03")
        until(master, "stopped", "longtail> ")
        os.write(master, b"select 40 + 2 as answer;\n")
        until(master, "42", "longtail> ")
        os.write(master, b"\x04")  # typed before the prompt it is the terminal's, which drops it
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
        os.close(master)
    history = home / "small/sql_history"
    assert "select 40 + 2 as answer;" in history.read_text(encoding="utf-8")
    assert history.stat().st_mode & 0o077 == 0


def _as_in_a_terminal() -> None:
    """Ctrl-C reaches who has a terminal of its own and does not ignore it, as all started in the background do."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def until(master: int, *texts: str, again: str = "") -> str:
    """The terminal's output, read until it contains `texts`, one after the other; `again` is typed after each second
    without output.
    """
    wanted = re.compile(".*".join(map(re.escape, texts)), re.DOTALL)
    seen, deadline = "", time.monotonic() + 60
    while not wanted.search(seen):
        assert time.monotonic() < deadline, seen
        if select.select([master], [], [], 1)[0]:
            seen += os.read(master, 65_536).decode(errors="replace")
        else:
            os.write(master, again.encode())
    return seen


def run(
    arguments: list[str], home: Path, study: Path, stdin: str | None = None, **more: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        arguments, cwd=PROJECT, env=environment(home, study, **more),
        input=stdin or "", capture_output=True, text=True, timeout=120,
    )  # fmt: skip
