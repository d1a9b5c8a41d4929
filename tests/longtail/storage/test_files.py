"""Files that appear whole or not at all; a full disk in the messages of any library."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from longtail.storage.files import (
    STAGING,
    add_advice,
    atomic_file,
    full_disk,
    is_disk_full,
    remove_leftovers,
    whole,
)
from longtail.storage.home import PROJECT_ROOT
from tests.synced import renames_on_disk


def test_an_error_while_writing_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "table" / "part.bin"
    with atomic_file(path) as temporary:
        temporary.write_bytes(b"first")

    def write_half() -> None:
        with atomic_file(path) as temporary:
            temporary.write_bytes(b"sec")
            raise ValueError("half way")

    with pytest.raises(ValueError, match="half way"):
        write_half()
    assert path.read_bytes() == b"first"
    assert [file.name for file in tmp_path.rglob("*") if file.is_file()] == ["part.bin"]


def test_the_staging_file_is_outside_every_globbed_folder(tmp_path: Path) -> None:
    path = tmp_path / "table" / "part.parquet"
    with atomic_file(path) as temporary:
        temporary.write_bytes(b"x")
        assert list(path.parent.glob("**/*")) == []
        assert temporary.parent.parent == tmp_path / STAGING
        assert os.stat(temporary).st_dev == os.stat(path.parent).st_dev


WRITE = """
import sys
from pathlib import Path
from longtail.storage.files import atomic_file
from longtail.storage.files import whole
place = Path(sys.argv[1])
with atomic_file(place / "table" / "part") as file, whole(place / "index", place / ".staging") as folder:
    stream = file.open("w")
    folder.mkdir()
    (folder / "a").write_text("half")
    print("writes", flush=True)
    sys.stdin.read()
    stream.write("all")
    stream.close()
"""


@contextmanager
def writer(place: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process in the middle of writing a file and a folder; it goes on when its standard input ends."""
    command = [sys.executable, "-c", WRITE, str(place)]
    with subprocess.Popen(
        command, cwd=PROJECT_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "writes\n"
        yield process


def test_leftovers_of_killed_writers_are_removed_and_no_others(tmp_path: Path) -> None:
    staging = tmp_path / STAGING
    with writer(tmp_path) as process:
        process.send_signal(signal.SIGKILL)
    (staging / "note.txt").touch()
    assert len(list(staging.iterdir())) == 3
    with whole(tmp_path / "own", staging) as own:
        own.write_text("mine")
        assert {path.name for path in staging.iterdir()} == {own.parent.name, "note.txt"}
        remove_leftovers(staging)  # and so does this, which spares what is being written
        assert {path.name for path in staging.iterdir()} == {own.parent.name, "note.txt"}
    assert (tmp_path / "own").read_text() == "mine"
    assert [path.name for path in staging.iterdir()] == ["note.txt"]
    assert not (tmp_path / "index").exists()
    remove_leftovers(tmp_path / "nowhere")


@pytest.mark.parametrize(("place", "step"), [(Path, "mkdir"), (os, "open")])
def test_a_folder_that_is_removed_before_its_lock_is_taken_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: Any, step: str
) -> None:
    """Another process finds the folder without a lock: when it has just been made, or when its lock is only open."""
    do, removals = getattr(place, step), iter([True, True])

    def do_and_lose(*arguments: Any, **options: Any) -> Any:
        done = do(*arguments, **options)
        with monkeypatch.context() as undone:
            undone.setattr(place, step, do)
            if next(removals, False):
                remove_leftovers(tmp_path / STAGING)
        return done

    monkeypatch.setattr(place, step, do_and_lose)
    with atomic_file(tmp_path / "table" / "part") as temporary:
        temporary.write_text("all")
    assert (tmp_path / "table/part").read_text() == "all"
    assert next(removals, None) is None
    assert list((tmp_path / STAGING).iterdir()) == []


@pytest.mark.parametrize("write", [atomic_file, whole])
def test_what_appears_is_on_the_disk(tmp_path: Path, write: Any) -> None:
    with renames_on_disk() as names, write(tmp_path / "table" / "part.bin") as temporary:
        temporary.write_bytes(b"rows")
    assert names == ["part.bin"]


def test_a_folder_that_appears_is_on_the_disk_with_all_that_it_contains(tmp_path: Path) -> None:
    with renames_on_disk() as names, whole(tmp_path / "index") as temporary:
        (temporary / "shard").mkdir(parents=True)
        (temporary / "shard" / "terms").write_bytes(b"terms")
    assert names == ["index"]


@pytest.fixture
def full(tmp_path: Path) -> Path:
    link = tmp_path / "full"
    link.symlink_to("/dev/full")
    return link


def _python(full: Path) -> None:
    full.write_bytes(b"rows")


def _arrow(full: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), full)


def _numpy(full: Path) -> None:
    with full.open("wb") as file:
        np.arange(100_000).tofile(file)


def _sqlite(full: Path) -> None:
    with sqlite3.connect(full.with_name("small.sqlite")) as database:
        database.execute("pragma max_page_count = 2")
        database.execute("create table rows (a)")
        database.execute("insert into rows values (?)", ["x" * 100_000])


def _duckdb(full: Path) -> None:
    with duckdb.connect() as connection:
        connection.execute(
            f"copy (select range as a from range(100)) to '{full}' (format csv, use_tmp_file false)"
        )


def _duckdb_spilling(full: Path) -> None:
    with duckdb.connect() as connection:
        for name, value in {"memory_limit": "20MB", "max_temp_directory_size": "1MB", "threads": "1"}.items():
            connection.execute(f"set {name} = '{value}'")
        connection.execute(f"set temp_directory = '{full.parent}'")
        connection.execute("create table t as select md5(range::varchar) as a from range(2000000) order by a")


@pytest.mark.parametrize("write", [_python, _arrow, _numpy, _sqlite, _duckdb, _duckdb_spilling])
def test_a_full_disk_is_recognised_for_every_library(write: Callable[[Path], None], full: Path) -> None:
    with pytest.raises(Exception) as caught:  # noqa: PT011  (each library has a class of its own)
        write(full)
    assert is_disk_full(caught.value), repr(caught.value)
    wrapped = ValueError("the table was not written")
    wrapped.__cause__ = caught.value
    assert is_disk_full(wrapped)


def test_other_failures_are_not_a_full_disk() -> None:
    for error in (
        PermissionError(13, "Permission denied"),
        ValueError("the disc is round"),
        KeyError("full"),
    ):
        assert not is_disk_full(error)


def test_the_line_names_the_place_the_free_space_and_the_advice(tmp_path: Path) -> None:
    line = full_disk(tmp_path / "not" / "there", "dbt parse")
    assert line.startswith(f"dbt parse: {tmp_path}/not/there: the disk is full (")
    assert "MiB are left)" in line
    assert line.endswith("make room and run again: finished work is kept")
    assert "\n" not in line


def test_the_advice_is_not_repeated() -> None:
    bare = "answers.parquet: could not be written (No space left on device)"
    assert add_advice(bare).startswith(f"{bare}; make room")
    assert add_advice(add_advice(bare)) == add_advice(bare)
    assert add_advice("answers.parquet: permission denied") == "answers.parquet: permission denied"
