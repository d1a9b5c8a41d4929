"""A study's own relations: the files of relations that key `relations` of a dataset names, beside the study file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from longtail.errors import StudyError
from longtail.relations.relation import ALL, OBJECT, SUBJECT, Relation
from longtail.study.parts import Part, read_part
from longtail.study.values import LONGEST_NAME, Reading, Value, fail, list_of, show, value_of
from longtail.study.yaml_text import read_yaml

ENDINGS = (".yaml", ".yml")
"""What tells a file from a name in key `relations`."""
_LONGEST = 500
_PROPERTY = re.compile(r"P[1-9]\d{0,9}")


def _line(longest: int, *places: str) -> Value:
    """A text in one line, with each of `places` once."""

    def read(value: Any) -> str:
        is_line = isinstance(value, str) and value.isprintable() and value == value.strip()
        if not is_line or not 0 < len(value) <= longest:
            wanted = f"a text in one line, of at most {longest} characters, without a space at its ends"
            raise fail("", f"must be {wanted}, not {show(value)}")
        for place in places:
            if value.count(place) != 1:
                raise fail("", f"must have {place} once, not {show(value)}")
        return str(value)

    return value_of("a text in one line", read)


def _read_property(value: Any) -> str:
    text = str(value)
    for kind, is_kind in (("an inverse", text[:1] in ("^", "-")), ("a qualified", "/" in text)):
        if is_kind:
            raise fail("", f"{show(text)} is {kind} property, which cannot be asked; name a plain one")
    if not _PROPERTY.fullmatch(text):
        raise fail("", f"{show(text)} is no property of Wikidata; expected P and a number, as in P108")
    return text


@dataclass(frozen=True)
class _RelationKeys(Part):
    """One relation of a file; it is read as a `Relation`."""

    name: Annotated[str, _line(LONGEST_NAME)]
    property: Annotated[str, value_of("a property of Wikidata, as in P108", _read_property)]
    question: Annotated[str, _line(_LONGEST, SUBJECT)]
    statement: Annotated[str, _line(_LONGEST, SUBJECT, OBJECT)] = ""
    wordings: Annotated[tuple[str, ...], list_of(_line(_LONGEST, SUBJECT))] = ()

    def check(self, raw: Mapping[str, Any], reading: Reading) -> Relation:
        if self.name == ALL:
            raise fail("name", f"{ALL!r} is what tables call all relations together; choose another")
        if self.question in self.wordings:
            raise fail("wordings", f"{show(self.question)} is key question already")
        return Relation(self.name, self.property, self.question, self.statement, self.wordings)


def read_relation_files(listed: Sequence[object], folder: Path) -> tuple[Relation, ...]:
    """The relations of the files among the values of key `relations`; names are left aside.

    Errors: `ValueError` where a file does not exist, `StudyError` naming file, relation and key of what is wrong in it.
    """
    relations: list[Relation] = []
    for value in listed:
        if str(value).endswith(ENDINGS):
            path = folder / str(value)
            if not path.is_file():
                raise ValueError(f"{path}: there is no such file of relations")
            relations += parse_relations(path, read_yaml(path))
    return tuple(relations)


def parse_relations(path: Path, raw: object) -> list[Relation]:
    """The relations of a file, from its values. Errors: `StudyError` naming file, relation and key."""
    if not isinstance(raw, list) or not raw:
        raise StudyError(f"{path}: must be a list of relations, each with name, property, question")
    relations: list[Any] = []
    for number, entry in enumerate(raw, 1):
        name = entry.get("name") if isinstance(entry, Mapping) else None
        is_shown = isinstance(name, str) and name.isprintable() and len(name) <= LONGEST_NAME
        relations.append(read_part(_RelationKeys, entry, path, f"relation {name if is_shown else number}"))
    return relations
