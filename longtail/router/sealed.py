"""Files that carry their version and checksum, so that a reader refuses one that is cut, changed or too new.

A file begins with a JSON object whose first fields are `format`, `version` and `sha256`. The checksum is the SHA-256 of
the whole file with 64 zeros in place of the checksum's own digits, so that any language can compute it.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from longtail.errors import RouterError, single_line

_ZEROS = b"0" * 64
_AGAIN = "the next run of the study publishes it again"
_BEGINNING = re.compile(
    rb'\{\s*"format": "([a-z-]{1,40})",\s*"version": (\d{1,9}),\s*"sha256": "([0-9a-f]{64})"'
)


def sealed(
    format_name: str, version: int, fields: Mapping[str, Any], body: bytes = b"", indent: int | None = None
) -> bytes:
    """A file: one JSON object with `fields`, a line break, and `body`. Errors: `ValueError` for NaN and infinity."""
    head = {"format": format_name, "version": version, "sha256": _ZEROS.decode(), **fields}
    unsealed = json.dumps(head, ensure_ascii=False, allow_nan=False, indent=indent).encode() + b"\n" + body
    return unsealed.replace(_ZEROS, hashlib.sha256(unsealed).hexdigest().encode(), 1)


def opened(path: Path, format_name: str, version: int, most_bytes: int) -> bytes:
    """The whole file, once its format, its version and its checksum are right.

    A file of more than `most_bytes` is refused. It is read and not mapped: whoever cuts a mapped file in place would kill
    the process that reads it.
    Errors: `RouterError`, with the file's name and what is wrong in one line.
    """
    content = _content(path, most_bytes)
    found = _BEGINNING.match(content)
    if found is None or found[1].decode() != format_name:
        raise RouterError(f"{path}: does not begin like a file of format {format_name}")
    if int(found[2]) != version:
        raise RouterError(
            f"{path}: has version {int(found[2])} of format {format_name}; this program reads version {version}"
        )
    start, end = found.span(3)
    digest = hashlib.sha256(content[:start] + _ZEROS)
    digest.update(memoryview(content)[end:])
    if digest.hexdigest().encode() != found[3]:
        raise RouterError(f"{path}: does not fit its checksum, so it was cut or changed; {_AGAIN}")
    return content


def _content(path: Path, most_bytes: int) -> bytes:
    """The bytes of a regular file. A FIFO would keep the reader waiting for a writer, and a device may never end."""
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise RouterError(f"{path}: is no regular file; {_AGAIN}")
            if found.st_size > most_bytes:
                raise RouterError(f"{path}: has {found.st_size:,} bytes; at most {most_bytes:,} are read")
            return file.read(found.st_size)
    except OSError as error:
        raise RouterError(f"{path}: cannot be read ({error.strerror or error})") from error


@contextmanager
def of_its_form(path: Path) -> Iterator[None]:
    """Says of a file whose checksum fits, but whose contents do not, that it is not of its form (`RouterError`)."""
    try:
        yield
    except KeyError as error:
        raise RouterError(f"{path}: lacks {error}; {_AGAIN}") from error
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        reason = single_line(f"{type(error).__name__}: {error}")[:200]
        raise RouterError(f"{path}: is not of its form ({reason}); {_AGAIN}") from error


def number(value: Any) -> float:
    """A finite number of a file. Errors: `TypeError`, `ValueError`."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{value!r} is no number")
    if not -math.inf < value < math.inf:
        raise ValueError(f"{value!r} is not finite")
    return value
