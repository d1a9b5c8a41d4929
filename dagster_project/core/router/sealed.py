"""Files that carry their version and checksum, so that a reader refuses one that is cut, changed or too new.

What belongs here: the first fields of such a file, and the checksum. What does not: what a router (`decisions`) or a
list of names (`names`) contains.

A file begins with a JSON object whose first fields are `format`, `version` and `sha256`. The checksum is the SHA-256 of
the whole file with 64 zeros in place of the checksum's own digits, so that any language can compute it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dagster_project.core.errors import RouterError

_ZEROS = b"0" * 64
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


def opened(path: Path, format_name: str, version: int) -> bytes:
    """The whole file, once its format, version and checksum are right.

    It is read and not mapped: whoever cuts a mapped file in place would kill the process that reads it.
    Errors: `RouterError`, with the file's name and what is wrong in one line.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise RouterError(f"{path}: cannot be read ({error.strerror or error})") from error
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
        raise RouterError(
            f"{path}: does not fit its checksum, so it was cut or changed; publish the routers again"
        )
    return content
