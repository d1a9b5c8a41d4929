"""Compressed files as blocks of bytes, decompressed ahead of the reader, in bounded memory."""

from __future__ import annotations

import gzip
from collections import deque
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Protocol

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


def decompress(path: Path, threads: int) -> int:
    """Decompress a whole file without keeping it; return the number of bytes. Reading is measured against this."""
    stream = open_stream(path, threads)
    target, n_bytes = memoryview(bytearray(PIECE)), 0
    try:
        while size := stream.readinto(target):
            n_bytes += size
    finally:
        stream.close()
    return n_bytes


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
