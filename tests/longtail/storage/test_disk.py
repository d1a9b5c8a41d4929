"""A full disk is recognised in the real messages of each library: `/dev/full` is a disk without space.

Libraries write to a link to it: some remove a file that they could not write, and root may remove a device.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from longtail.storage.files import add_advice, full_disk, is_disk_full


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
