"""`make sql`: a query arrives as it was typed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from tests.journeys.commands import PROJECT, command, environment, small_study

TEXT = """it's "q" $HOME $(id) ${x} `id` \\ # %d;"""
QUERY = f"""select "text", t."text" = $${TEXT}$$ as same from words t where "text" = '{TEXT.replace("'", "''")}'"""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """A study whose published warehouse holds one table of one text."""
    published = tmp_path / "home/small/published"
    published.mkdir(parents=True)
    with duckdb.connect(str(published / "warehouse.duckdb")) as warehouse:
        warehouse.execute("create schema marts")
        warehouse.execute("create table marts.words as select ? as text", [TEXT])
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
        shown(command("dagster_project.sql", QUERY), study),
        shown(command("dagster_project.sql"), study, Q=QUERY),
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
