"""Large dump files as chunks of whole lines: plain, gzip or bzip2, one stream or many, in bounded memory."""

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
from typing import IO, Protocol

import numpy as np

from longtail.errors import SourceError
from longtail.progress import Progress
from longtail.storage.lake import QuarantinedRow
from longtail.threads import thread_count

BLOCK = 4 << 20
MARGIN = 64 << 10  # room before a block for the unfinished line of the previous block
PIECE = 2 << 20  # larger than the readers' own buffers, so that they do not copy it
SMALL_PIECE = 64 << 10  # for a file that may be truncated: the piece with the break is lost
_BLOCKS_AHEAD = 3
BZIP2, GZIP = b"BZh", b"\x1f\x8b"
"""How files of these kinds begin."""
_OTHERS = {b"7z\xbc\xaf\x27\x1c": "7z", b"PK\x03\x04": "zip", b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
_MAGIC_BYTES = 6
_BZIP2_END = (
    0x177245385090  # the end of a bzip2 stream; 32 bits of checksum and up to 7 bits of padding follow
)

_LONGEST_LINE = 32 << 20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_KEPT_ASIDE = 1_000
_NO_END = "no end mark of bzip2"


class BrokenStreamError(Exception):
    """Decompressing failed for the reason `cause`, after `offset` bytes of the file."""

    def __init__(self, cause: Exception, offset: int) -> None:
        super().__init__(str(cause) or type(cause).__name__)
        self.cause, self.offset = cause, offset


class Stream(Protocol):
    """Decompressed bytes, and the number of compressed bytes read so far."""

    def readinto(self, target: memoryview) -> int: ...

    def offset(self) -> int: ...

    def close(self) -> None: ...


def open_stream(path: Path, threads: int) -> Stream:
    """The file's bytes; its first bytes decide how they are decompressed. Errors: `OSError`."""
    with path.open("rb") as file:
        magic = beginning(file)
    if magic.startswith(BZIP2):
        return Bzip2(path, threads)
    return _Gzip(path) if magic.startswith(GZIP) else _Plain(path)


def beginning(file: IO[bytes]) -> bytes:
    """The first bytes of a file, which say how it is packed. Errors: `OSError` where it is packed in another way."""
    magic = file.read(_MAGIC_BYTES)
    for start, kind in _OTHERS.items():
        if magic.startswith(start):
            raise OSError(f"it is packed as {kind}: unpack it, or pack it as gzip or bzip2")
    return magic


def read_ahead(stream: Stream, piece: int) -> Generator[tuple[bytearray, int], None, None]:
    """Yield (buffer, end of the block in it). Blocks start at `MARGIN` and are valid until the next is requested.

    A separate thread reads them: decompressors release the interpreter while they work. An error comes after the bytes
    that were read before it, as `BrokenStreamError`.
    """
    reader = _Reader(stream, piece)
    with ThreadPoolExecutor(1, "decompress") as pool:
        spare, *buffers = (bytearray(MARGIN + BLOCK) for _ in range(_BLOCKS_AHEAD + 1))
        waiting = deque((buffer, pool.submit(reader.fill, buffer)) for buffer in buffers)
        try:
            while waiting:
                buffer, future = waiting.popleft()
                if size := future.result():
                    waiting.append((spare, pool.submit(reader.fill, spare)))
                    yield buffer, MARGIN + size
                    spare = buffer
            if reader.error:
                raise reader.error
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


class _Reader:
    """Fills buffers from a stream until it ends or fails."""

    def __init__(self, stream: Stream, piece: int) -> None:
        self._stream, self._piece = stream, piece
        self.error: BrokenStreamError | None = None

    def fill(self, buffer: bytearray) -> int:
        size = 0
        target = memoryview(buffer)[MARGIN:]
        try:
            while not self.error and size < BLOCK:
                n = self._stream.readinto(target[size : size + self._piece])
                if not n:
                    break
                size += n
        except Exception as error:  # any error: the consumer raises it after the bytes
            self.error = BrokenStreamError(error, self._stream.offset())
        return size


def has_bzip2_end(path: Path) -> bool:
    """Whether the file has the end mark of a bzip2 stream."""
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


class Bzip2:
    """Decompresses the blocks of one file in several threads, for one stream or many."""

    def __init__(self, path: Path, threads: int) -> None:
        import rapidgzip

        self._file = rapidgzip.IndexedBzip2File(str(path), parallelization=threads)
        self.readinto, self.close = self._file.readinto1, self._file.close

    def offset(self) -> int:
        try:
            bits: int = self._file.tell_compressed()
        except IndexError:  # no block was valid
            return 0
        return bits // 8


@dataclass(frozen=True)
class Chunk:
    """Some lines, each with its line break. `first_line` is the number of the first line, from 1.

    `view` shows a reused buffer: it is valid until the next chunk is requested.
    """

    view: memoryview
    first_line: int

    @cached_property
    def data(self) -> bytes:
        """A copy of the lines."""
        return bytes(self.view)

    @cached_property
    def array(self) -> np.ndarray:
        """The bytes as numbers, without a copy."""
        return np.frombuffer(self.view, dtype=np.uint8)

    @cached_property
    def line_breaks(self) -> np.ndarray:
        """Where the line breaks are."""
        return np.flatnonzero(self.array == ord("\n"))

    def line_at(self, position: int) -> int:
        """The number of the line that holds the byte at `position`."""
        return self.first_line + int(np.searchsorted(self.line_breaks, position))


@dataclass
class DumpFile:
    """A dump on disk. After reading, `n_lines` is the number of lines, and `cut` says where a truncated file ended.

    A truncated file is an error unless `accept_cut`. `last_line_ends`: the ending that makes a last line without a
    line break complete; empty: such a line is never complete. `accepted_by`: the study's key for `accept_cut`.
    """

    path: Path
    accept_cut: bool = False
    last_line_ends: bytes = b""
    threads: int = 0
    accepted_by: str = "source.accept_cut_dumps"
    n_lines: int = 0
    cut: str | None = None

    def chunks(self, log: logging.Logger) -> Iterator[Chunk]:
        """The lines in their order. Errors: `SourceError` naming the byte at which the file is truncated."""
        self.n_lines, self.cut = 0, None
        rest = b""
        progress = Progress(log, f"MB of {self.path.name}")
        stream = self._open()
        blocks = read_ahead(stream, SMALL_PIECE if self.accept_cut else PIECE)
        try:
            for buffer, end in blocks:
                progress.add((end - MARGIN) >> 20)
                last = buffer.rfind(b"\n", MARGIN, end) + 1
                if not last and len(rest) > _LONGEST_LINE:
                    raise SourceError(
                        f"{self.path}: line {self.n_lines + 1:,} is longer than 32 MiB: this is no such dump"
                    )
                if last:
                    yield self._chunk(_prepend(rest, buffer, last))
                rest = bytes(buffer[last:end]) if last else rest + bytes(buffer[MARGIN:end])
            if isinstance(stream, Bzip2) and not has_bzip2_end(self.path):
                # Truncated in the very last bytes, which hold no text.
                self.breaks_off(self.path.stat().st_size, _NO_END, log)
                rest = b""
        except BrokenStreamError as error:
            self._broken(error, log)
            rest = b""
        finally:
            blocks.close()  # the stream may be closed only after reading has stopped
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
            self.breaks_off(self.path.stat().st_size, "the last line has no end", log)

    def _broken(self, error: BrokenStreamError, log: logging.Logger) -> None:
        if isinstance(error.cause, (zlib.error, gzip.BadGzipFile)):
            # Gzip has one checksum for everything: if it is wrong, any byte before it may be wrong.
            size = self.path.stat().st_size
            raise SourceError(
                f"{self.path}: damaged somewhere before byte {min(error.offset, size):,} of {size:,} ({error}); "
                "nothing of it can be relied on, fetch it again"
            )
        if not isinstance(error.cause, (RuntimeError, ValueError, EOFError)):
            raise SourceError(f"{self.path}: cannot be read ({error})")
        self.breaks_off(error.offset, str(error), log)

    def breaks_off(self, offset: int, why: str, log: logging.Logger) -> None:
        """The file ends before its content does. Errors: `SourceError` unless the study accepts that."""
        size = self.path.stat().st_size
        at = f"at byte {min(offset, size):,} of {size:,}, after line {self.n_lines:,}"
        self.cut = f"{self.path}: breaks off {at} ({why})"
        if not self.accept_cut:
            raise SourceError(
                f"{self.cut}; fetch it again, or set {self.accepted_by} to use the part before the break"
            )
        log.warning("%s; the part before the break is used, as the study allows", self.cut)

    def _open(self) -> Stream:
        try:
            # A single thread returns a bzip2 block before it has compared the checksum.
            threads = max(self.threads or thread_count(), 2 if self.accept_cut else 1)
            stream = open_stream(self.path, threads)
            if isinstance(stream, Bzip2) and not self.accept_cut and not has_bzip2_end(self.path):
                stream.close()
                self.breaks_off(self.path.stat().st_size, _NO_END, logging.getLogger(__name__))
        except OSError as error:
            raise SourceError(f"{self.path}: cannot be read ({error.strerror or error})") from None
        return stream


@dataclass
class RejectedRows:
    """Rows put aside: counted by reason. The first thousand per reason are kept, and one row counts the
    rest."""

    counts: Counter[str] = field(default_factory=Counter)
    _kept: list[QuarantinedRow] = field(default_factory=list)

    def add(self, key: str, reason: str, raw: bytes | str) -> None:
        kind = reason.split(":")[0]
        self.counts[kind] += 1
        if self.counts[kind] <= _KEPT_ASIDE:
            text = raw[:4_000].decode("utf-8", "backslashreplace") if isinstance(raw, bytes) else raw
            self._kept.append(QuarantinedRow(key, reason, text.rstrip("\r\n")))

    @property
    def rows(self) -> list[QuarantinedRow]:
        """The rows for the quarantine, including the rows with the numbers of the rest."""
        more = {kind: n - _KEPT_ASIDE for kind, n in self.counts.items() if n > _KEPT_ASIDE}
        said = [
            QuarantinedRow("", f"{kind}: {n:,} more, counted but not kept", "") for kind, n in more.items()
        ]
        return [*self._kept, *said]

    def notes(self) -> dict[str, object]:
        """Counts for people; empty without any."""
        return {"put_aside": dict(self.counts)} if self.counts else {}


def _prepend(rest: bytes, buffer: bytearray, end: int) -> memoryview:
    """The block in `buffer` up to `end`, preceded by the unfinished line of the previous block."""
    if len(rest) > MARGIN:
        return memoryview(rest + bytes(buffer[MARGIN:end]))
    start = MARGIN - len(rest)
    buffer[start:MARGIN] = rest
    return memoryview(buffer)[start:end]
