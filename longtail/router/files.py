"""Files that carry their version and checksum, so that a reader refuses one that is cut, changed or too new; the names.

A file begins with a JSON object whose first fields are `format`, `version` and `sha256`. The checksum is the SHA-256 of
the whole file with 64 zeros in place of the checksum's own digits, so that any language can compute it.

The file of names has the popularity of entities by their names, and is searched by halving. Its first line is its head.
Each further line is a folded name, a tab, and its candidates as JSON, in the order of the names' bytes.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longtail.errors import RouterError

_ZEROS = b"0" * 64
_AGAIN = "the next run of the study publishes it again"
_BEGINNING = re.compile(
    rb'\{\s*"format": "([a-z-]{1,40})",\s*"version": (\d{1,9}),\s*"sha256": "([0-9a-f]{64})"'
)


def seal(
    format_name: str, version: int, fields: Mapping[str, Any], body: bytes = b"", indent: int | None = None
) -> bytes:
    """A file: one JSON object with `fields`, a line break, and `body`. Errors: `ValueError` for NaN and infinity."""
    head = {"format": format_name, "version": version, "sha256": _ZEROS.decode(), **fields}
    unsealed = json.dumps(head, ensure_ascii=False, allow_nan=False, indent=indent).encode() + b"\n" + body
    return unsealed.replace(_ZEROS, hashlib.sha256(unsealed).hexdigest().encode(), 1)


def read_sealed(path: Path, format_name: str, version: int) -> bytes:
    """The whole file, once its format, its version and its checksum are right.

    It is read and not mapped: whoever cuts a mapped file in place would kill the process that reads it.
    Errors: `RouterError`, with the file's name and what is wrong in one line.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise RouterError(f"{path}: cannot be read ({error.strerror or error})") from error
    match = _BEGINNING.match(content)
    if match is None or match[1].decode() != format_name:
        raise RouterError(f"{path}: is not a file of format {format_name}")
    if int(match[2]) != version:
        raise RouterError(
            f"{path}: has version {int(match[2])} of format {format_name}; this program reads version {version}"
        )
    start, end = match.span(3)
    digest = hashlib.sha256(content[:start] + _ZEROS)
    digest.update(memoryview(content)[end:])
    if digest.hexdigest().encode() != match[3]:
        raise RouterError(f"{path}: checksum mismatch: the file was cut or changed; {_AGAIN}")
    return content


NAMES_FORMAT, NAMES_VERSION = "longtail-names", 1


@dataclass(frozen=True, slots=True)
class Candidate:
    """An entity that a name may mean. `popularity` is None if it is unknown, which is not zero."""

    entity_id: str
    label: str
    description: str | None
    popularity: float | None


class Names:
    """An opened file of names. `head` has its first line: the publication and the measure of popularity."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._start = content.index(b"\n") + 1
        self.head: Mapping[str, Any] = json.loads(content[: self._start])

    def __len__(self) -> int:
        return int(self.head["n_names"])

    def lookup(self, name: str) -> tuple[Candidate, ...]:
        """The entities with this label or alias, the most popular first; letter case and repeated spaces do not count.

        No candidate: no entity has the name. Several: the name is ambiguous, and the caller chooses.
        """
        wanted = fold(name).encode("utf-8", "surrogatepass")
        low, high = self._start, len(self._content)
        while low < high:  # both are beginnings of lines, or the end
            begin = self._content.rfind(b"\n", low, (low + high) // 2) + 1 or low
            end = self._content.index(b"\n", begin)
            here, _, candidates = self._content[begin:end].partition(b"\t")
            if here == wanted:
                return tuple(Candidate(*values) for values in json.loads(candidates))
            low, high = (end + 1, high) if here < wanted else (low, begin)
        return ()


def load_names(path: str | Path) -> Names:
    """The names of a published file. Errors: `RouterError` if it is missing, cut, changed or of another version."""
    return Names(read_sealed(Path(path), NAMES_FORMAT, NAMES_VERSION))


def names_file(
    entities: Iterable[tuple[Candidate, Iterable[str]]], about: Mapping[str, Any]
) -> tuple[bytes, int]:
    """The contents of a file of names, and the number of names. `entities`: each with its aliases; its label is a name,
    too. `about` joins the head. All names are held in memory."""
    by_name: dict[str, set[Candidate]] = {}
    for candidate, aliases in entities:
        for text in filter(None, map(fold, (candidate.label, *aliases))):
            by_name.setdefault(text, set()).add(candidate)
    body = "".join(
        f"{name}\t{_candidates_json(by_name[name])}\n" for name in sorted(by_name, key=str.encode)
    ).encode()
    return seal(NAMES_FORMAT, NAMES_VERSION, {**about, "n_names": len(by_name)}, body), len(by_name)


def fold(name: str) -> str:
    """A name without letter case, composed (NFC), with single spaces: two spellings of one name become equal."""
    caseless = unicodedata.normalize("NFD", name).casefold()
    return " ".join(unicodedata.normalize("NFC", caseless).split())


def _candidates_json(candidates: Iterable[Candidate]) -> str:
    """The most popular first; an unknown popularity comes last."""
    ordered = sorted(
        candidates,
        key=lambda entity: (entity.popularity is None, -(entity.popularity or 0), entity.entity_id),
    )
    return json.dumps(
        [[entity.entity_id, entity.label, entity.description, entity.popularity] for entity in ordered],
        ensure_ascii=False,
    )
