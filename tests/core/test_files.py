"""Files appear whole or not at all. Killed writers and full disks are in `test_lake`, which writes real tables."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dagster_project.core.files import atomic_file


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
        assert temporary.parent.name.startswith(".")
        assert os.stat(temporary).st_dev == os.stat(path.parent).st_dev
