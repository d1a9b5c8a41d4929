"""A checksum is that of the file as it is now; a file that nobody has written is read once."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from dagster_project.core.storage.checksums import file_checksum


def test_a_file_that_was_written_again_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "rows"
    for second, content in enumerate((b"first", b"other", b"longer")):
        file.write_bytes(content)
        os.utime(file, (second, second))
        assert file_checksum(file) == hashlib.sha256(content).hexdigest()


def test_a_file_of_the_same_size_and_time_in_its_place_is_read_again(tmp_path: Path) -> None:
    file, replacement = tmp_path / "rows", tmp_path / "replacement"
    file.write_bytes(b"first")
    file_checksum(file)
    replacement.write_bytes(b"other")
    times = file.stat()
    os.utime(replacement, ns=(times.st_atime_ns, times.st_mtime_ns))
    os.replace(replacement, file)
    assert file_checksum(file) == hashlib.sha256(b"other").hexdigest()


def test_a_file_that_nobody_wrote_is_read_once(tmp_path: Path) -> None:
    file = tmp_path / "rows"
    file.write_bytes(b"first")
    times = file.stat()
    before = file_checksum(file)
    with file.open("r+b") as stream:
        stream.write(b"other")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert file_checksum(file) == before
