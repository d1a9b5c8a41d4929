"""Large dump files as chunks of whole lines: plain, gzip or bzip2, one stream or many, in bounded memory."""

from __future__ import annotations

import bz2
import gzip
import json
import logging
import re
import zlib
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from os import SEEK_END
from pathlib import Path
from typing import IO, Any, Protocol, cast

import numpy as np

from longtail.errors import SourceError
from longtail.progress import Progress
from longtail.storage.lake import QuarantinedRow
from longtail.threads import thread_count

BLOCK = 4 << 20
PIECE = 2 << 20
_BLOCKS_AHEAD = 3
_BZIP2, _GZIP = b"BZh", b"\x1f\x8b"
"""How files of these kinds begin."""
_OTHERS = {b"7z\xbc\xaf\x27\x1c": "7z", b"PK\x03\x04": "zip", b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
_MAGIC_BYTES = 6
_ZIPPED = {
    b"xl/workbook.": "an Excel workbook: save the sheet as CSV",
    b"opendocument.spreadsheet": "an OpenDocument workbook: save the sheet as CSV",
    b"Index/Document.iwa": "a document of Numbers: export the sheet as CSV",
}
"""What a zip with such a name of a file is."""
_END_OF_ZIP = 1 << 16
_BZIP2_END = (
    0x177245385090  # the end of a bzip2 stream; 32 bits of checksum and up to 7 bits of padding follow
)

_LONGEST_LINE = 32 << 20
_BZIP2_DAMAGED = ("Invalid data stream",)
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
MOST_LINES = 1_000
"""Bad lines of a kind that are kept of a dump; the others are counted."""
_SHOWN = 2_000
_OF_THIS_ROW = re.compile(r"[\"'].*[\"']|\d[\d,.]*")
"""What a reason says of one row alone: names and numbers."""


class BrokenStreamError(Exception):
    """Decompressing failed for the reason `cause`, after `offset` bytes of the file."""

    def __init__(self, cause: Exception, offset: int) -> None:
        super().__init__(str(cause) or type(cause).__name__)
        self.cause, self.offset = cause, offset


class Stream(Protocol):
    """Decompressed bytes, and the number of compressed bytes read so far."""

    def read(self, size: int) -> bytes: ...

    def offset(self) -> int: ...

    def close(self) -> None: ...


def open_stream(path: Path, threads: int) -> Stream:
    """The file's bytes; its first bytes decide how they are decompressed. Errors: `OSError`."""
    with path.open("rb") as file:
        magic = _beginning(file)
    if magic.startswith(_BZIP2):
        return Bzip2(path, threads)
    return _GzipStream(path) if magic.startswith(_GZIP) else _Plain(path)


def _beginning(file: IO[bytes]) -> bytes:
    """The first bytes of a file, which say how it is packed. Errors: `OSError` where it is packed in another way."""
    magic = file.read(_MAGIC_BYTES)
    for start, kind in _OTHERS.items():
        if magic.startswith(start):
            what = _kind_of_zip(file) if kind == "zip" else ""
            raise OSError(f"it is {what or f'packed as {kind}: unpack it, or pack it as gzip or bzip2'}")
    return magic


def _kind_of_zip(file: IO[bytes]) -> str:
    """The kind of document that a zip is, whose names stand at its end; empty: none that is known."""
    beginning = file.read(_SHOWN)
    file.seek(max(0, file.seek(0, SEEK_END) - _END_OF_ZIP))
    end = file.read()
    return next((what for name, what in _ZIPPED.items() if name in beginning + end), "")


@contextmanager
def open_file(path: Path) -> Iterator[IO[bytes]]:
    """The bytes of a file, decompressed if it is gzip or bzip2. Errors: `SourceError` where they cannot be read."""
    kind = "gzip"
    try:
        with path.open("rb") as raw:
            magic = _beginning(raw)
            raw.seek(0)
            stream: Any = raw
            if magic.startswith(_GZIP):
                stream = gzip.GzipFile(fileobj=raw)
            elif magic.startswith(_BZIP2):
                kind = "bzip2"
                stream = bz2.BZ2File(raw)
            yield cast(IO[bytes], stream)
    except EOFError:
        raise SourceError(f"{path}: damaged {kind} file ({_break(path)}); fetch it again") from None
    except (zlib.error, gzip.BadGzipFile) as error:
        raise SourceError(f"{path}: damaged gzip file ({error}); fetch it again") from None
    except OSError as error:
        if error.args == _BZIP2_DAMAGED:
            raise SourceError(f"{path}: damaged bzip2 file; fetch it again") from None
        raise SourceError(f"{path}: cannot be read ({error.strerror or error})") from None


def _break(path: Path) -> str:
    size = path.stat().st_size
    return f"breaks off at byte {size:,} of {size:,}: the end of its stream is missing"


def read_ahead(stream: Stream) -> Generator[bytearray, None, None]:
    """The blocks of a stream. An error comes after the bytes that were read before it, as `BrokenStreamError`.

    A separate thread reads them: decompressors release the interpreter while they work.
    """
    failures: list[BrokenStreamError] = []

    def read_block() -> bytearray:
        block = bytearray()
        try:
            while not failures and (piece := stream.read(min(PIECE, BLOCK - len(block)))):
                block += piece
        except Exception as error:  # any error: the consumer raises it after the bytes
            failures.append(BrokenStreamError(error, stream.offset()))
        return block

    with ThreadPoolExecutor(1, "decompress") as pool:
        waiting = deque(pool.submit(read_block) for _ in range(_BLOCKS_AHEAD))
        try:
            while block := waiting.popleft().result():
                waiting.append(pool.submit(read_block))
                yield block
            if failures:
                raise failures[0]
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def has_bzip2_end(path: Path) -> bool:
    """Whether the file has the end mark of a bzip2 stream."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 11))
        tail = int.from_bytes(file.read(), "big")
    return any((tail >> (32 + padding)) & (1 << 48) - 1 == _BZIP2_END for padding in range(8))


class _Plain:
    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self.read, self.offset, self.close = self._file.read, self._file.tell, self._file.close


class _GzipStream:
    def __init__(self, path: Path) -> None:
        self._raw = path.open("rb")
        self._file = gzip.GzipFile(fileobj=self._raw)
        self.read, self.offset = self._file.read1, self._raw.tell

    def close(self) -> None:
        self._file.close()
        self._raw.close()


class Bzip2:
    """Decompresses the blocks of one file in several threads, for one stream or many."""

    def __init__(self, path: Path, threads: int) -> None:
        import rapidgzip

        self._file = rapidgzip.IndexedBzip2File(str(path), parallelization=threads)
        self.read, self.close = self._file.read, self._file.close

    def offset(self) -> int:
        try:
            bits: int = self._file.tell_compressed()
        except IndexError:  # no block was valid
            return 0
        return bits // 8


@dataclass(frozen=True)
class Chunk:
    """Some lines, each with its line break. `first_line` is the number of the first line, from 1."""

    data: bytes
    first_line: int

    @cached_property
    def array(self) -> np.ndarray:
        """The bytes as numbers, without a copy."""
        return np.frombuffer(self.data, dtype=np.uint8)

    @cached_property
    def line_breaks(self) -> np.ndarray:
        """Where the line breaks are."""
        return np.flatnonzero(self.array == ord("\n"))

    def line_at(self, position: int) -> int:
        """The number of the line that holds the byte at `position`."""
        return self.first_line + int(np.searchsorted(self.line_breaks, position))


@dataclass
class DumpFile:
    """A dump on disk. After reading, `n_lines` is the number of lines.

    `last_line_ends`: the ending that makes a last line without a line break complete; empty: such a line is never
    complete.
    """

    path: Path
    last_line_ends: bytes = b""
    threads: int = 0
    n_lines: int = 0

    def chunks(self, log: logging.Logger) -> Iterator[Chunk]:
        """The lines in their order. Errors: `SourceError` naming the byte at which the file is truncated."""
        self.n_lines = 0
        rest = b""
        progress = Progress(log, f"MB of {self.path.name}")
        stream = self._open()
        blocks = read_ahead(stream)
        try:
            for block in blocks:
                progress.add(len(block) >> 20)
                end = block.rfind(b"\n") + 1
                if not end and len(rest) > _LONGEST_LINE:
                    raise SourceError(
                        f"{self.path}: line {self.n_lines + 1:,} is longer than 32 MiB: this is no such dump"
                    )
                if end:
                    yield self._chunk(b"".join((rest, memoryview(block)[:end])))
                rest = bytes(block[end:]) if end else rest + block
        except BrokenStreamError as error:
            raise self._broken(error) from None
        finally:
            blocks.close()  # the stream may be closed only after reading has stopped
            stream.close()
        if rest.strip():
            yield self._last(rest)
        progress.done()

    def _chunk(self, lines: bytes) -> Chunk:
        chunk = Chunk(lines if self.n_lines else lines.removeprefix(_BYTE_ORDER_MARK), self.n_lines + 1)
        self.n_lines += len(chunk.line_breaks)
        return chunk

    def _last(self, rest: bytes) -> Chunk:
        if self.last_line_ends and rest.rstrip().endswith(self.last_line_ends):
            return self._chunk(rest + b"\n")
        raise self.truncated(self.path.stat().st_size, "the last line has no end")

    def _broken(self, error: BrokenStreamError) -> SourceError:
        if isinstance(error.cause, (zlib.error, gzip.BadGzipFile)):
            # Gzip has one checksum for everything: if it is wrong, any byte before it may be wrong.
            size = self.path.stat().st_size
            return SourceError(
                f"{self.path}: damaged somewhere before byte {min(error.offset, size):,} of {size:,} ({error}); "
                "nothing of it can be relied on, fetch it again"
            )
        if not isinstance(error.cause, (RuntimeError, ValueError, EOFError)):
            return SourceError(f"{self.path}: cannot be read ({error})")
        return self.truncated(error.offset, str(error))

    def truncated(self, offset: int, why: str) -> SourceError:
        """The error of a file that ends before its content does."""
        size = self.path.stat().st_size
        at = f"at byte {min(offset, size):,} of {size:,}, after line {self.n_lines:,}"
        return SourceError(f"{self.path}: breaks off {at} ({why}); fetch it again")

    def _open(self) -> Stream:
        try:
            stream = open_stream(self.path, self.threads or thread_count())
            if isinstance(stream, Bzip2) and not has_bzip2_end(self.path):
                stream.close()
                raise self.truncated(self.path.stat().st_size, "no end mark of bzip2")
        except OSError as error:
            raise SourceError(f"{self.path}: cannot be read ({error.strerror or error})") from None
        return stream


@dataclass
class RejectedRows:
    """Rows put aside while a file is read. `name`: what their keys begin with, the file's name; empty: nothing.

    `rows` has at most `most` rows of a kind of reason, so that millions of bad rows fit memory (None: all); `n_rows`
    counts all. `left_out` counts rows without a fault. `keep` takes the pages of a wiki among these.
    """

    name: str = ""
    rows: list[QuarantinedRow] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    keep: Callable[[Any], None] | None = None
    most: int | None = None
    n_rows: int = 0
    _kinds: Counter[str] = field(default_factory=Counter)

    def put(self, row: int | str, reason: str, raw: object = "") -> None:
        """Put a row aside. `row` is its number in messages: the first row below the header is row 1."""
        kind = _OF_THIS_ROW.sub("…", reason)
        self.n_rows += 1
        self._kinds[kind] += 1
        if self.most is None or self._kinds[kind] <= self.most:
            if isinstance(raw, bytes):
                raw = raw[:_SHOWN].decode("utf-8", "backslashreplace").rstrip("\r\n")
            text = raw if isinstance(raw, str) else json.dumps(raw, ensure_ascii=False, default=str)
            key = f"{self.name} row {row}" if self.name else str(row)
            self.rows.append(QuarantinedRow(key, reason, text[:_SHOWN]))

    def list_rows(self) -> list[QuarantinedRow]:
        """The rows, and one for each kind of which there are more."""
        more = {kind: n - self.most for kind, n in self._kinds.items() if self.most and n > self.most}
        said = [f"{kind}: {n:,} more rows, counted but not kept" for kind, n in more.items()]
        return [
            *self.rows,
            *(QuarantinedRow(f"{self.name} more rows".strip(), reason, "") for reason in said),
        ]

    def leave_out(self, page: Any) -> None:
        """Count a page of a wiki (`imports.wiki.ExcludedPage`) that has no passages, and hand it on."""
        self.left_out[page.plural] += 1
        if self.keep:
            self.keep(page)

    @property
    def counts(self) -> Counter[str]:
        """How many rows were put aside for each reason: its words up to the first colon."""
        counts: Counter[str] = Counter()
        for kind, n in self._kinds.items():
            counts[kind.split(":")[0]] += n
        return counts

    def notes(self) -> dict[str, object]:
        """Counts for people; empty without any."""
        return {"put_aside": dict(self.counts)} if self.n_rows else {}
