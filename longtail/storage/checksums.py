"""Checksums of stored files: recorded when a folder is written, compared once per process before its files are used.

A flipped bit on a disk changes no time and no size, so each run computes every checksum that it needs anew. Only then
may a file be mapped into memory: a library that follows a damaged offset can end the whole process.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from longtail.storage.files import atomic_file, whole

RECORD = "SHA256SUMS"
"""Lies in a folder and has the checksums of its other files, as `sha256sum --check` reads them."""
_SHA256 = 64  # digits
CHANGED = "does not match its checksum"
_CHUNK = 1 << 20


def file_checksum(path: Path, left_out: tuple[int, int] = (0, 0)) -> str:
    """SHA-256 of a file, as hexadecimal digits; `left_out`: first and last place of bytes that do not count.

    Errors: `OSError`.
    """
    return _checksum(path, file_state(path), left_out)


def file_state(path: Path) -> tuple[int, ...]:
    """What changes whenever a file is written: device, inode, size, time. Errors: `OSError`."""
    status = path.stat()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def is_as_named(path: Path) -> bool:
    """Whether a file of a cache has the hash that is its name: SHA-256, or SHA-1, git's or plain. Errors: `OSError`."""
    if len(path.name) == _SHA256:
        return file_checksum(path) == path.name
    digests = [
        hashlib.sha1(start, usedforsecurity=False) for start in (b"", b"blob %d\0" % path.stat().st_size)
    ]
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            for digest in digests:
                digest.update(chunk)
    return path.name in [digest.hexdigest() for digest in digests]


def record(folder: Path) -> None:
    """Write the checksums of all files below `folder` to its `SHA256SUMS`. Errors: `OSError`."""
    lines = _lines(folder, _files(folder))
    with whole(folder / RECORD) as target:
        target.write_text(lines, encoding="utf-8")


def record_files(target: Path, files: Iterable[Path]) -> None:
    """Write the checksums of some files, which are below the folder of `target`, to `target`. Errors: `LakeError`."""
    with atomic_file(target) as temporary:
        temporary.write_text(_lines(target.parent, files), encoding="utf-8")


def _lines(folder: Path, files: Iterable[Path]) -> str:
    return "".join(f"{file_checksum(file)}  {file.relative_to(folder).as_posix()}\n" for file in files)


def _files(folder: Path) -> list[Path]:
    """The finished files below a folder, without its record."""
    files = (file for file in folder.rglob("*") if file.name != RECORD and file.suffix != ".part")
    return sorted(file for file in files if file.is_file())


def compare_files(target: Path) -> dict[str, str]:
    """What is wrong with each file that differs from the record `target`, or is missing; with `target` if it is."""
    recorded = read_checksums(target)
    if not recorded:
        return {target.name: "is missing"}
    return {
        name: CHANGED if (target.parent / name).exists() else "is missing"
        for name, checksum in recorded.items()
        if _checksum_or_error(target.parent / name) != checksum
    }


def _checksum_or_error(file: Path) -> str:
    """The checksum of a file, or why the disk does not give it back."""
    try:
        return file_checksum(file)
    except OSError as error:
        return f"({error.strerror})"


def differences(folder: Path) -> dict[str, str]:
    """What is wrong with each file below `folder` that differs from the record; empty where none does.

    A folder without a record, such as one that a person has put there, is taken as it is, and gets one.
    """
    recorded = read_checksums(folder)
    if not recorded:
        with contextlib.suppress(OSError):  # a folder that cannot be written
            record(folder)
        return {}
    present = {file.relative_to(folder).as_posix() for file in _files(folder)}
    unknown = dict.fromkeys(present - recorded.keys(), "is not in its record")
    return dict(sorted({**compare_files(folder / RECORD), **unknown}.items()))


def read_checksums(target: Path) -> dict[str, str]:
    """The record of a folder, or in a file: from names to checksums; empty where there is none."""
    target = target / RECORD if target.is_dir() else target
    with contextlib.suppress(FileNotFoundError):
        lines = target.read_bytes().decode("utf-8", "replace").splitlines()
        return {name: checksum for checksum, _, name in (line.partition("  ") for line in lines)}
    return {}


def seal(text: str) -> str:
    """A text with its checksum in a first line."""
    return f"{hashlib.sha256(text.encode()).hexdigest()}\n{text}"


def unseal(path: Path) -> str | None:
    """The text that `seal` put into a file; None where there is no file, or not what was written."""
    with contextlib.suppress(FileNotFoundError):
        text = path.read_bytes().decode("utf-8", "replace")
        inner = text.partition("\n")[2]
        return inner if text == seal(inner) else None
    return None


@functools.lru_cache(maxsize=65_536)
def _checksum(path: Path, when: tuple[int, ...], left_out: tuple[int, int]) -> str:
    digest = hashlib.sha256()
    for chunk in _chunks(path, left_out):
        digest.update(chunk)
    return digest.hexdigest()


def _chunks(path: Path, left_out: tuple[int, int]) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(min(_CHUNK, left_out[0] - file.tell())):
            yield chunk
        file.seek(left_out[1])
        while chunk := file.read(_CHUNK):
            yield chunk
