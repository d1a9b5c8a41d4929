"""`longtail sql`: DuckDB's shell reads the one published file, and a query arrives exactly as typed."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
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

from longtail.commands.sql import QUESTIONS, shell_command
from longtail.storage.home import PROJECT_ROOT
from tests.journeys.commands import PROJECT, command, environment, small_study

TEXT = """it's "q" $HOME $(id) ${x} `id` \\ # %d;"""
QUERY = f"""select "text", t."text" = $${TEXT}$$ as same from words t where "text" = '{TEXT.replace("'", "''")}'"""
REFUSED, HARMLESS = (
    section.splitlines()[1:]
    for section in (PROJECT / "tests/hostile_statements.txt").read_text(encoding="utf-8").split("\n# ")
)


def write_warehouse(path: Path) -> Path:
    """A published warehouse with one text, and a catalogue of tables with and without rows."""
    path.parent.mkdir(parents=True)
    with duckdb.connect(str(path)) as warehouse:
        warehouse.execute("create schema marts")
        warehouse.execute("create table marts.words as select ? as text", [TEXT])
        warehouse.execute("comment on column marts.words.text is 'a text'")
        warehouse.execute(
            "create table marts.catalogue as from (values ('audit', 'words', 1, 'texts'), ('new', 'fct_new', 2, 'new'), "
            "('accuracy', 'fct_empty', 0, 'none'), ('accuracy', 'fct_accuracy', 7, 'shares')) "
            "as t (topic, table_name, n_rows, description)"
        )
    return path


@pytest.fixture
def study(tmp_path: Path) -> Path:
    write_warehouse(tmp_path / "home/small/published/warehouse.duckdb")
    return small_study(tmp_path, "fake:passage", facts=8)


def run(
    study: Path, *arguments: str, text: bytes = b"", form: str = "box", **more: str
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        arguments or command("sql", "--format", form), cwd=PROJECT, env=environment(study.parent / "home", study, **more),
        input=text, capture_output=True, timeout=120,
    )  # fmt: skip


def test_a_query_arrives_unchanged_as_option_argument_and_from_a_pipe(study: Path) -> None:
    expected = f'text,same\n"{TEXT.replace(chr(34), chr(34) * 2)}",true\n'.encode()
    for done in (
        run(study, *command("sql", "-c", QUERY, "--format", "csv")),
        run(study, *command("sql", QUERY, "--format", "csv")),
        run(study, text=QUERY.replace(" words ", " {{ ref('words') }} ").encode(), form="csv"),
    ):
        assert (done.returncode, done.stdout, done.stderr) == (0, expected, b"")


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_neither_make_nor_the_shell_reads_a_query(study: Path, tmp_path: Path) -> None:
    python = tmp_path / "venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    (tmp_path / "venv/.installed").touch()
    make = ["make", "-s", "sql", f"VENV={tmp_path / 'venv'}", f"STUDY={study}"]
    for done in (
        run(study, *make, f"Q={QUERY}"),
        run(study, *make, f"Q={QUERY}", FORMAT="json", Q="select 1"),
    ):
        assert (done.returncode, TEXT in done.stdout.decode(), b"true" in done.stdout) == (0, True, True)


def test_tables_stand_by_the_question_that_they_answer_and_columns_with_their_meaning(study: Path) -> None:
    done = run(study, text=b"from tables(); from columns_of('words')", form="csv")
    assert done.stdout.decode().splitlines() == [
        "question,table_name,n_rows,description",
        "How often is a model right?,fct_accuracy,7,shares",
        "Is anything missing or put aside?,words,1,texts",
        ",fct_new,2,new",
        "How often is a model right?,fct_empty,0,none",
        "column_name,data_type,comment",
        "text,VARCHAR,a text",
    ]
    topics = {folder.name for folder in (PROJECT_ROOT / "dbt/models/marts").iterdir() if folder.is_dir()}
    assert topics == set(QUESTIONS)


def test_the_first_error_ends_a_text_with_an_exit_code(study: Path) -> None:
    done = run(study, text=b"select 1 as a;\nselect nope from words;\nselect 3 as c;", form="json")
    assert (done.returncode, done.stdout) == (1, b'[{"a":1}]\n')
    assert b"nope" in done.stderr


def test_what_cannot_be_asked_is_one_line(study: Path) -> None:
    home = study.parent / "home"
    for done, named in (
        (run(study, form="no-init"), "box, csv"),
        (run(study, text=b"select '\0'"), "NUL"),
        (run(study, *command("sql", "missing study.yaml", "-c", "select 1")), "missing study.yaml"),
    ):
        assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (1, b"", 1)
        assert named in done.stderr.decode()
    (home / "small/published/warehouse.duckdb").write_bytes(b"no database")
    done = run(study, text=b"select 1")
    assert (done.returncode, done.stderr.count(b"\n")) == (1, 1)
    assert b"publish the warehouse again" in done.stderr


def test_neither_a_reader_that_stops_nor_a_full_disk_ends_in_a_trace_or_a_false_success(study: Path) -> None:
    typed = shlex.join(command("sql", "from range(10000000)", "--format", "csv"))
    stopped = run(study, "bash", "-c", f"set -o pipefail; {typed} | head -1")
    assert (stopped.returncode, stopped.stdout, stopped.stderr) == (0, b"range\n", b"")
    full = run(study, "bash", "-c", f"{typed} > /dev/full")
    assert (full.returncode, full.stderr.count(b"\n")) == (1, 1)
    assert b"No space left" in full.stderr


def test_a_control_character_does_not_reach_the_terminal(study: Path) -> None:
    done = run(study, text=b"select chr(27) || '[2J' as answer from range(500)")
    assert b"\x1b[2J" not in done.stdout
    assert done.stdout.count(b"[2J") == 500  # a pipe gets all rows


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_warehouse(tmp_path_factory.mktemp("home") / "published/warehouse.duckdb")


def run_shell(published: Path, text: str) -> subprocess.CompletedProcess[bytes]:
    """What the shell does with a text, once it has changed no file beside or in the published one."""
    home = published.parents[1]
    before = hashes(home)
    done = subprocess.run(
        shell_command(published, "csv"), input=text.encode(), cwd=home, capture_output=True, timeout=120
    )
    assert hashes(home) == before
    return done


def hashes(folder: Path) -> dict[str, str]:
    files = [file for file in folder.rglob("*") if file.is_file()]
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


@pytest.mark.parametrize("statement", [*REFUSED, *HARMLESS, "select " + "abs(" * 2000 + "1" + ")" * 2000])
def test_a_hostile_statement_is_refused_or_harmless(published: Path, statement: str) -> None:
    done = run_shell(published, statement.format(path=published, folder=published.parents[1] / "out"))
    if statement in HARMLESS:
        assert done.returncode == 0
    else:
        assert (done.returncode, done.stderr != b"") == (1, True)


def test_no_table_function_writes(published: Path) -> None:
    """Every table function of this DuckDB, called in three ways, each in spite of the errors of those before it."""
    with duckdb.connect() as connection:
        names = connection.execute(
            "select distinct function_name from duckdb_functions() where function_type in ('table', 'table_macro')"
        ).fetchall()
    calls = [f"from {name}({given});" for (name,) in names for given in ("", f"'{published}'", "1, 1")]
    assert len(calls) > 200
    done = run_shell(published, "\n".join([".bail off", *calls, "select 'the end' as reached;"]))
    assert done.stdout.endswith(b"reached\nthe end\n")


def test_a_pager_that_a_query_names_does_not_start(published: Path) -> None:
    """Also if the answer goes to a terminal."""
    out = published.parents[1] / "out"
    master, slave = pty.openpty()
    query = f".pager 'touch {out}'\n.pager on\nfrom range(3);"
    program, *flags = shell_command(published, "box", for_terminal=True)
    shell = [program, "-dark-mode", *flags]  # it does not ask the terminal for its colour
    subprocess.run(shell, input=query.encode(), stdout=slave, check=True, timeout=120)
    assert not out.exists()
    os.close(slave)
    os.close(master)


def test_a_session_starts_with_its_help_survives_ctrl_c_and_ends_with_ctrl_d(
    study: Path, tmp_path: Path
) -> None:
    (tmp_path / "harlequin").touch(0o755)
    programs = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    master, slave = pty.openpty()
    process = subprocess.Popen(
        command("sql"), cwd=PROJECT, stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
        env=environment(study.parent / "home", study, TERM="dumb", PATH=programs, HOME=str(tmp_path)),
        preexec_fn=_as_in_a_terminal,
    )  # fmt: skip
    os.close(slave)
    try:
        published = study.parent / "home/small/published/warehouse.duckdb"
        for typed, said in (
            ("", ("from tables();", f"harlequin -r {shlex.quote(str(published))}", "\x1b[c")),
            ("\x1b]11;rgb:0000/0000/0000\x07\x1b[?1;2c", ("D ",)),  # the terminal's colour
            ("from columns_of('words');\n", ("a text", "D ")),
            (".shell touch owned\n", ("safe mode", "D ")),
            ("select count(*) from range(1000000000000) as a, range(1000) as b;\n", (" as b;", "\n")),
            ("\x03", ("D ",)),
            ("select 40 + 2 as answer;\n", ("42", "D ")),
        ):
            if typed == "\x03":
                wait_until_busy(process.pid)
            os.write(master, typed.encode())
            until(master, *said)
        os.write(master, b"\x04")  # typed before the prompt it is the terminal's, which drops it
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
        os.close(master)


def _as_in_a_terminal() -> None:
    """Ctrl-C reaches who has a terminal of its own and does not ignore it, as all started in the background do."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def wait_until_busy(session: int) -> None:
    """Until the processes of a session have computed for half a second more: then the query has begun."""

    def ticks() -> int:
        total = 0
        for file in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):  # it has just ended
                stat = file.read_text().rpartition(")")[2].split()
                total += (int(stat[11]) + int(stat[12])) * (int(stat[3]) == session)
        return total

    wanted = ticks() + os.sysconf("SC_CLK_TCK") // 2
    while ticks() < wanted:
        time.sleep(0.05)


def until(master: int, *texts: str) -> None:
    """Read the terminal's output until it contains `texts`, one after the other."""
    wanted = re.compile(".*".join(map(re.escape, texts)), re.DOTALL)
    seen, deadline = "", time.monotonic() + 60
    while not wanted.search(seen):
        assert time.monotonic() < deadline, seen
        if select.select([master], [], [], 1)[0]:
            seen += os.read(master, 65_536).decode(errors="replace")
