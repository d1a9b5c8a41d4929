"""A checksum is that of the file as it is now; a file that nobody has written is read once."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from longtail.storage.checksums import (
    CHANGED,
    differences,
    file_checksum,
    is_as_named,
    read_checksums,
    record,
    seal,
    unseal,
)


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


def test_a_record_names_each_file_that_is_changed_missing_or_new(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    (folder / "deep").mkdir(parents=True)
    for name in ("é 👩‍🚀", "deep/one", "deep/two", "unfinished.part"):
        (folder / name).write_text(name)
    assert differences(folder) == {}, "a folder without a record gets one"
    assert read_checksums(folder) == {
        name: hashlib.sha256(name.encode()).hexdigest() for name in ("é 👩‍🚀", "deep/one", "deep/two")
    }
    (folder / "é 👩‍🚀").write_text("other")
    (folder / "deep/one").unlink()
    (folder / "deep/new").write_text("new")
    assert differences(folder) == {
        "deep/new": "is not in its record",
        "deep/one": "is missing",
        "é 👩‍🚀": CHANGED,
    }
    record(folder)
    assert differences(folder) == {}


@pytest.mark.parametrize(
    "content", [b"", b"weights", bytes(range(256)) * 5_000]
)  # the last one is read in parts
def test_a_file_of_a_cache_is_compared_with_its_name(tmp_path: Path, content: bytes) -> None:
    digests = (
        hashlib.sha256(content), hashlib.sha1(content), hashlib.sha1(b"blob %d\0" % len(content) + content)
    )  # fmt: skip
    for digest in digests:
        path = tmp_path / digest.hexdigest()
        path.write_bytes(content)
        assert is_as_named(path)
        path.write_bytes(b"x" + content[1:])
        assert not is_as_named(path)


def test_a_sealed_text_comes_back_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "plan"
    assert unseal(path) is None
    path.write_text(seal("é\nb\n"), encoding="utf-8")
    assert unseal(path) == "é\nb\n"
    for damaged in (path.read_bytes()[:-1], path.read_bytes().replace(b"b", b"\xff"), b""):
        path.write_bytes(damaged)
        assert unseal(path) is None
