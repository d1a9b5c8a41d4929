"""The popularity of entities by their names: one file of labels and aliases, searched by halving.

The first line of a file is its head. Each further line is a folded name, a tab, and its candidates as JSON. The lines
are in the order of the names' bytes. A name is folded by `folded`.
"""

from __future__ import annotations

import json
import operator
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longtail.router.sealed import number, of_its_form, opened, sealed

FORMAT, VERSION = "longtail-names", 1
LARGEST = 1 << 30  # bytes; some ten million entities


@dataclass(frozen=True, slots=True)
class Candidate:
    """An entity that a name may mean. `popularity` is None if it is unknown, which is not zero."""

    entity_id: str
    label: str
    description: str | None
    popularity: float | None


@dataclass(frozen=True, slots=True)
class Entity:
    """An entity with all its names: the label and the aliases."""

    candidate: Candidate
    aliases: Sequence[str]


class Names:
    """An opened file of names. `head` has its first line: the publication and the measure of popularity."""

    def __init__(self, content: bytes, path: Path = Path(FORMAT)) -> None:
        """Errors: `RouterError`, with `path`, if the content has no head."""
        self._content, self._path = content, path
        with of_its_form(path):
            self._start = content.index(b"\n") + 1
            self.head: Mapping[str, Any] = json.loads(content[: self._start])
            self._count = operator.index(self.head["n_names"])

    def __len__(self) -> int:
        return self._count

    def lookup(self, name: str) -> tuple[Candidate, ...]:
        """The entities with this label or alias, the most popular first; letter case and repeated spaces do not count.

        No candidate: no entity has the name. Several: the name is ambiguous, and the caller chooses. Errors:
        `RouterError` if the file's line for this name is not of its form.
        """
        wanted = folded(name).encode("utf-8", "surrogatepass")
        with of_its_form(self._path):
            return self._found(wanted)

    def _found(self, wanted: bytes) -> tuple[Candidate, ...]:
        low, high = self._start, len(self._content)
        while low < high:  # both are beginnings of lines, or the end
            begin = self._content.rfind(b"\n", low, (low + high) // 2) + 1 or low
            end = self._content.index(b"\n", begin)
            found, _, candidates = self._content[begin:end].partition(b"\t")
            if found == wanted:
                return tuple(_candidate(*values) for values in json.loads(candidates))
            low, high = (end + 1, high) if found < wanted else (low, begin)
        return ()


def load_names(path: str | Path) -> Names:
    """The names of a published file. Errors: `RouterError` if it is missing, cut, changed or of another version."""
    return Names(opened(Path(path), FORMAT, VERSION, LARGEST), Path(path))


def names_file(entities: Iterable[Entity], about: Mapping[str, Any]) -> tuple[bytes, int]:
    """The contents of a file of names, and the number of names. `about` joins its head. All names are held in memory."""
    by_name: dict[str, set[Candidate]] = {}
    for entity in entities:
        for name in (entity.candidate.label, *entity.aliases):
            if text := folded(name):
                by_name.setdefault(text, set()).add(entity.candidate)
    body = "".join(f"{name}\t{_json(by_name[name])}\n" for name in sorted(by_name, key=str.encode)).encode()
    return sealed(FORMAT, VERSION, {**about, "n_names": len(by_name)}, body), len(by_name)


def folded(name: str) -> str:
    """A name without letter case, composed (NFC), with single spaces: two spellings of one name become equal."""
    caseless = unicodedata.normalize("NFD", name).casefold()
    return " ".join(unicodedata.normalize("NFC", caseless).split())


def _candidate(entity_id: Any, label: Any, description: Any, popularity: Any) -> Candidate:
    if not all(isinstance(text, str) for text in (entity_id, label, description or "")):
        raise TypeError("a candidate's id, label and description are texts")
    return Candidate(entity_id, label, description, None if popularity is None else number(popularity))


def _json(candidates: Iterable[Candidate]) -> str:
    """The most popular first; an unknown popularity comes last."""
    ordered = sorted(
        candidates, key=lambda one: (one.popularity is None, -(one.popularity or 0), one.entity_id)
    )
    return json.dumps(
        [[one.entity_id, one.label, one.description, one.popularity] for one in ordered], ensure_ascii=False
    )
