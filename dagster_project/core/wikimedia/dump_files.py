"""Large dump files as chunks of whole lines: plain, gzip, or bzip2 of one or of many streams, in bounded memory.

What belongs here: opening, decompressing ahead of the reader, cutting at line breaks, and naming where a file
breaks off. What does not: what the lines mean (`truthy`, `pageview_dumps`), downloading (`dumps`).
"""

from __future__ import annotations

import gzip
import logging
import zlib
from collections import Counter, deque
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np

from dagster_project.core.errors import SourceError
from dagster_project.core.lake import QuarantinedRow
from dagster_project.core.threads import thread_count
from dagster_project.core.wikimedia.progress import Progress

_BLOCK = 4 << 20
_PIECE = 2 << 20  # more than the readers buffer themselves, so that they do not copy it
_MARGIN = 64 << 10  # room before a block for the line that the block before it leaves open
_BLOCKS_AHEAD = 3
_LONGEST_LINE = 32 << 20
_BZIP2_END = (
    0x177245385090  # marks the end of a bzip2 stream; 32 bits of checksum and up to 7 of padding follow
)
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_KEPT_ASIDE = 1_000


@dataclass(frozen=True)
class Chunk:
    """Some lines, each with its line break. `first_line` is the number of the first one, from 1.

    `view` shows a buffer that is used again: it is right until the next chunk is asked for.
    """

    view: memoryview
    first_line: int

    @cached_property
    def data(self) -> bytes:
        """The lines, copied."""
        return bytes(self.view)

    @cached_property
    def array(self) -> np.ndarray:
        """The bytes as numbers, not copied."""
        return np.frombuffer(self.view, dtype=np.uint8)

    @cached_property
    def line_breaks(self) -> np.ndarray:
        """Where the line breaks are."""
        return np.flatnonzero(self.array == ord("\n"))

    def line_at(self, position: int) -> int:
        """The number of the line that holds the byte at `position`."""
        return self.first_line + int(np.searchsorted(self.line_breaks, position))


class Stream(Protocol):
    """Decompressed bytes, and how many compressed ones they took."""

    def readinto(self, target: memoryview) -> int: ...

    def offset(self) -> int: ...

    def close(self) -> None: ...


@dataclass
class DumpFile:
    """A dump on disk. After reading, `n_lines` is their number, and `cut` says where the file broke off, if it did.

    A file that breaks off is an error unless `accept_cut`. `last_line_ends`: what a last line without a line break
    must end with to be whole; empty: no such line is whole.
    """

    path: Path
    accept_cut: bool = False
    last_line_ends: bytes = b""
    threads: int = 0
    n_lines: int = 0
    cut: str | None = None

    def chunks(self, log: logging.Logger) -> Iterator[Chunk]:
        """The lines in their order. Errors: `SourceError` naming the byte where the file breaks off."""
        self.n_lines, self.cut = 0, None
        rest = b""
        progress = Progress(log, f"MB of {self.path.name}")
        stream = self._open()
        blocks = _read_ahead(stream)
        try:
            for buffer, end in blocks:
                progress.add((end - _MARGIN) >> 20)
                last = buffer.rfind(b"\n", _MARGIN, end) + 1
                if not last and len(rest) > _LONGEST_LINE:
                    raise SourceError(
                        f"{self.path}: line {self.n_lines + 1:,} is longer than 32 MiB: no such dump"
                    )
                if last:
                    yield self._chunk(_with_rest(rest, buffer, last))
                rest = bytes(buffer[last:end]) if last else rest + bytes(buffer[_MARGIN:end])
        except (RuntimeError, EOFError, zlib.error, gzip.BadGzipFile) as error:
            self._breaks_off(stream.offset(), str(error) or type(error).__name__, log)
            rest = b""
        except OSError as error:
            raise SourceError(f"{self.path}: cannot be read ({error.strerror or error})") from None
        finally:
            blocks.close()  # nobody may be reading when the stream is closed
            stream.close()
        if rest.strip():
            yield from self._last(rest, log)
        progress.done()

    def _chunk(self, view: memoryview) -> Chunk:
        if not self.n_lines and view[: len(_BYTE_ORDER_MARK)] == _BYTE_ORDER_MARK:
            view = view[len(_BYTE_ORDER_MARK) :]
        chunk = Chunk(view, self.n_lines + 1)
        self.n_lines += len(chunk.line_breaks)
        return chunk

    def _last(self, rest: bytes, log: logging.Logger) -> Iterator[Chunk]:
        if self.last_line_ends and rest.rstrip().endswith(self.last_line_ends):
            yield self._chunk(memoryview(rest + b"\n"))
        elif self.cut is None:
            self._breaks_off(self.path.stat().st_size, "the last line has no end", log)

    def _breaks_off(self, offset: int, why: str, log: logging.Logger) -> None:
        size = self.path.stat().st_size
        at = f"at byte {min(offset, size):,} of {size:,}, after line {self.n_lines:,}"
        self.cut = f"{self.path}: breaks off {at} ({why})"
        if not self.accept_cut:
            raise SourceError(
                f"{self.cut}; fetch it again, or set source.accept_cut_dumps to use what comes before"
            )
        log.warning("%s; what comes before is used, as the study asks", self.cut)

    def _open(self) -> Stream:
        try:
            with self.path.open("rb") as file:
                magic = file.read(3)
            if magic == b"BZh":
                if not self.accept_cut and not _has_bzip2_end(self.path):
                    size = self.path.stat().st_size
                    raise SourceError(
                        f"{self.path}: breaks off at byte {size:,} of {size:,} (no end mark of bzip2); fetch it again,"
                        " or set source.accept_cut_dumps to use what comes before"
                    )
                return _Bzip2(self.path, self.threads or thread_count())
            return _Gzip(self.path) if magic[:2] == b"\x1f\x8b" else _Plain(self.path)
        except OSError as error:
            raise SourceError(f"{self.path}: cannot be read ({error.strerror or error})") from None


@dataclass
class Aside:
    """Rows put aside: all counted by reason, the first thousand of each reason kept."""

    counts: Counter[str] = field(default_factory=Counter)
    rows: list[QuarantinedRow] = field(default_factory=list)

    def add(self, key: str, reason: str, raw: bytes | str) -> None:
        kind = reason.split(":")[0]
        self.counts[kind] += 1
        if self.counts[kind] <= _KEPT_ASIDE:
            text = raw[:4_000].decode("utf-8", "backslashreplace") if isinstance(raw, bytes) else raw
            self.rows.append(QuarantinedRow(key, reason, text.rstrip("\r\n")))

    def notes(self) -> dict[str, object]:
        """Counts for people; without any, nothing."""
        return {"put_aside": dict(self.counts)} if self.counts else {}


def decompress(path: Path, threads: int) -> int:
    """Decompress a whole file and throw it away; returns the number of bytes: what reading is measured against."""
    stream = DumpFile(path, threads=threads)._open()
    target, n_bytes = memoryview(bytearray(_PIECE)), 0
    try:
        while size := stream.readinto(target):
            n_bytes += size
    finally:
        stream.close()
    return n_bytes


def _with_rest(rest: bytes, buffer: bytearray, end: int) -> memoryview:
    """The block in `buffer` up to `end`, after the line that the block before it left open."""
    if len(rest) > _MARGIN:
        return memoryview(rest + bytes(buffer[_MARGIN:end]))
    start = _MARGIN - len(rest)
    buffer[start:_MARGIN] = rest
    return memoryview(buffer)[start:end]


def _read_ahead(stream: Stream) -> Generator[tuple[bytearray, int], None, None]:
    """(buffer, end of the block in it): blocks begin at `_MARGIN`, and are right until the next is asked for.

    They are read in a thread of their own: decompressors let go of the interpreter while they work. What was read
    before an error comes before the error.
    """
    with ThreadPoolExecutor(1, "decompress") as pool:
        spare, *buffers = (bytearray(_MARGIN + _BLOCK) for _ in range(_BLOCKS_AHEAD + 1))
        waiting = deque((buffer, pool.submit(_fill, stream, buffer)) for buffer in buffers)
        try:
            while waiting:
                buffer, future = waiting.popleft()
                size, error = future.result()
                if size:
                    waiting.append((spare, pool.submit(_fill, stream, spare)))
                    yield buffer, _MARGIN + size
                    spare = buffer
                if error:
                    raise error
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _fill(stream: Stream, buffer: bytearray) -> tuple[int, Exception | None]:
    size = 0
    target = memoryview(buffer)[_MARGIN:]
    try:
        while size < _BLOCK and (n := stream.readinto(target[size : size + _PIECE])):
            size += n
    except Exception as error:  # whatever it is: raised by the reader, after the bytes
        return size, error
    return size, None


def _has_bzip2_end(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 11))
        tail = int.from_bytes(file.read(), "big")
    return any((tail >> (32 + padding)) & (1 << 48) - 1 == _BZIP2_END for padding in range(8))


class _Plain:
    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self.readinto, self.offset, self.close = self._file.readinto, self._file.tell, self._file.close


class _Gzip:
    def __init__(self, path: Path) -> None:
        self._raw = path.open("rb")
        self._file = gzip.GzipFile(fileobj=self._raw)
        self.readinto, self.offset = self._file.readinto1, self._raw.tell

    def close(self) -> None:
        self._file.close()
        self._raw.close()


class _Bzip2:
    """Blocks of one file decompressed by several threads, whether it is one stream or many."""

    def __init__(self, path: Path, threads: int) -> None:
        import rapidgzip

        self._file = rapidgzip.IndexedBzip2File(str(path), parallelization=threads)
        self.readinto, self.close = self._file.readinto1, self._file.close

    def offset(self) -> int:
        bits: int = self._file.tell_compressed()
        return bits // 8
