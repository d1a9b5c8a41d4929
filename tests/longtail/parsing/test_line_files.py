"""Dumps on disk: the same lines with any compression, and the place where a file is truncated."""

from __future__ import annotations

import bz2
import gzip
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from longtail.errors import SourceError
from longtail.parsing.line_files import MOST_LINES, DumpFile, RejectedRows

_DRAW = random.Random(4)
TEXT = b"".join(b"line %d %x\n" % (number, _DRAW.getrandbits(400)) for number in range(25_000))


SHORT = TEXT[: TEXT.index(b"line 5000 ")]
"""For many cuts: with bzip2's smallest blocks it has as many of them as a longer text has of the largest."""


def _multi_stream(data: bytes, level: int = 9) -> bytes:
    size = level * 77_777 + 1
    return b"".join(bz2.compress(data[at : at + size], level) for at in range(0, len(data), size))


FORMATS: dict[str, Callable[..., bytes]] = {
    "plain": lambda data, level=9: data,
    "gzip": gzip.compress,
    "two gzip members": lambda data, level=9: gzip.compress(data[:99_999]) + gzip.compress(data[99_999:]),
    "bzip2 of one stream": bz2.compress,
    "bzip2 of many streams": _multi_stream,
}
BZIP2 = ("bzip2 of one stream", "bzip2 of many streams")
"""The formats that several threads read."""


def _read(dump: DumpFile, log) -> bytes:
    whole = b""
    for chunk in dump.chunks(log):
        assert chunk.data.endswith(b"\n")
        assert chunk.first_line == whole.count(b"\n") + 1
        whole += chunk.data
    assert dump.n_lines == whole.count(b"\n")
    return whole


@pytest.mark.parametrize(
    ("name", "threads"), [*((name, 1) for name in FORMATS), *((name, 2) for name in BZIP2)]
)
def test_the_lines_are_the_same_with_any_compression(tmp_path: Path, log, name: str, threads: int) -> None:
    path = tmp_path / "no telling suffix"
    path.write_bytes(FORMATS[name](TEXT))
    dump = DumpFile(path, threads=threads)
    assert _read(dump, log) == TEXT


@pytest.mark.parametrize(
    ("name", "threads"), [*((name, 1) for name in [*FORMATS][1:]), *((name, 2) for name in BZIP2)]
)
def test_a_truncated_file_is_named(tmp_path: Path, log, name: str, threads: int) -> None:
    whole = FORMATS[name](SHORT, 1)
    near_the_end = [len(whole) - back for back in (1, 2, 4, 9, 10, 11, 12, 40)]
    for end in [4, 14, 20, *(_DRAW.randrange(20, len(whole)) for _ in range(5)), *near_the_end]:
        _check_a_cut(tmp_path, log, whole, end, threads)
    whole = FORMATS[name](TEXT)
    _check_a_cut(tmp_path, log, whole, _DRAW.randrange(len(whole) // 2, len(whole)), threads)


def _check_a_cut(folder: Path, log, whole: bytes, end: int, threads: int) -> None:
    path = folder / "dump"
    path.write_bytes(whole[:end])
    with pytest.raises(SourceError, match=rf"breaks off at byte [\d,]+ of {end:,}.*fetch it again"):
        _read(DumpFile(path, threads=threads), log)


@pytest.mark.parametrize("name", BZIP2)
@pytest.mark.parametrize("share", [0.01, 0.3, 0.6, 0.9])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_file_with_a_damaged_block_is_refused(
    tmp_path: Path, log, name: str, share: float, threads: int
) -> None:
    whole = bytearray(FORMATS[name](SHORT, 1))
    whole[int(len(whole) * share)] ^= 0xFF
    path = tmp_path / "damaged.bz2"
    path.write_bytes(whole)
    with pytest.raises(SourceError, match=r"damaged\.bz2: breaks off at byte [\d,]+ of"):
        _read(DumpFile(path, threads=threads), log)


@pytest.mark.parametrize("name", ["gzip", "two gzip members"])
@pytest.mark.parametrize("share", [0.01, 0.5, 0.99])
def test_a_damaged_gzip_file_is_never_used(tmp_path: Path, log, name: str, share: float) -> None:
    """Its checksum is at the end, so any byte before it may be wrong."""
    whole = bytearray(FORMATS[name](TEXT))
    whole[int(len(whole) * share)] ^= 0xFF
    path = tmp_path / "damaged.gz"
    path.write_bytes(whole)
    with pytest.raises(SourceError, match=r"damaged\.gz: damaged somewhere before byte [\d,]+ of [\d,]+"):
        _read(DumpFile(path), log)


def test_a_last_line_without_a_line_break(tmp_path: Path, log) -> None:
    path = tmp_path / "plain"
    path.write_bytes(b"one .\ntwo .")
    with pytest.raises(SourceError, match="breaks off at byte 11 of 11, after line 1"):
        _read(DumpFile(path), log)
    assert _read(DumpFile(path, last_line_ends=b"."), log) == b"one .\ntwo .\n"
    path.write_bytes(b"one .\ntw")
    with pytest.raises(SourceError, match="breaks off"):
        _read(DumpFile(path, last_line_ends=b"."), log)


def test_awkward_files(tmp_path: Path, log) -> None:
    path = tmp_path / "dump"
    with pytest.raises(SourceError, match="cannot be read"):
        list(DumpFile(path).chunks(log))
    path.write_bytes(b"")
    assert list(DumpFile(path).chunks(log)) == []
    path.write_bytes(b"\xef\xbb\xbfone\n")
    assert _read(DumpFile(path), log) == b"one\n"
    path.write_bytes(gzip.compress(b"x" * (45 << 20) + b"\n", 1))
    with pytest.raises(SourceError, match="line 1 is longer than 32 MiB"):
        list(DumpFile(path).chunks(log))


def test_all_rows_put_aside_are_counted_and_some_are_kept() -> None:
    rejected = RejectedRows(most=MOST_LINES)
    for number in range(2_500):
        rejected.put(str(number), f"not N-Triples: {number}", b"raw\xff\n")
    rejected.put("1", "other", "text")
    assert rejected.notes() == {"put_aside": {"not N-Triples": 2_500, "other": 1}}
    assert len(rejected.list_rows()) == 1_002
    assert rejected.rows[0].raw == "raw\\xff"
    assert rejected.list_rows()[-1].reason == "not N-Triples: …: 1,500 more rows, counted but not kept"
