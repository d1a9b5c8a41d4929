"""Key `datasets` of study.yaml: the sets of questions, and the files of a study's own relations beside it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field

from longtail.errors import StudyError
from longtail.relations.relation import ALL, OBJECT, SOURCE_SET, STUDY_SET, SUBJECT, Relation, relation_names
from longtail.study.imports import EXACT_MATCH, F1, ROUGE_L, Import, Paraphrases, Place, load_format
from longtail.study.parts import Part, read_part
from longtail.study.values import (
    LONGEST_NAME,
    Count,
    Default,
    Reading,
    Slug,
    Text,
    Value,
    choose_some,
    fail,
    list_of,
    list_schema,
    one_of,
    read_names,
    show,
    value_of,
)
from longtail.study.yaml_text import read_yaml

SPLITS_BY = ("question", "subject")
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


_NAMES_OR_FILE = [list_schema({"type": "string", "minLength": 1}), {"type": "string", "pattern": r"\.ya?ml$"}]
_RELATIONS = value_of(
    "a list of at least one text",
    lambda value: read_names([value] if isinstance(value, str) and value.endswith(ENDINGS) else value),
    anyOf=_NAMES_OR_FILE,
)


@dataclass(frozen=True)
class Dataset(Part):
    """A set of questions about the facts of `relations`.

    Left out, `relations` are all of the dataset's `relation_set`. A dataset without a set then asks all questions of its
    file, also those that have no relation. `definitions` are the relations of the files that key `relations` names. In
    file `ids`, blank lines and lines that begin with # do not count.
    """

    left_out: ClassVar[Sequence[str]] = ("definitions",)

    name: Slug
    """the dataset"""
    relations: Annotated[tuple[str, ...], _RELATIONS, Default("all")] = field(
        default_factory=lambda: relation_names(SOURCE_SET)
    )
    """the relations that are asked about: a list of names, or a file of relations of your own beside the study
    ([how](extending.md)), or both in one list"""
    max_questions_per_relation: Annotated[Count | None, Default("all")] = None
    """a seeded draw from each relation"""
    imported: Annotated[Import | None, Field(alias="import")] = None
    """a file of questions; without it, the questions are made from the source's facts"""
    paraphrases: Annotated[Paraphrases | None, Default("our own")] = None
    """a file of other wordings (format `popqa_tp` or `templates`)"""
    max_questions: Annotated[Count | None, Default("all")] = None
    """a seeded draw from all questions"""
    first_rows: Annotated[Count | None, Default("all")] = None
    """the first questions of the file"""
    ids: Annotated[Place | None, Default("all")] = None
    """a text file with one id a line, or with JSON objects that have key id; it is named by the keys of a file"""
    split_by: Annotated[str, one_of(SPLITS_BY)] = SPLITS_BY[0]
    """what a split of adaptive retrieval keeps on one side: each question by itself, or with `subject` all questions of a
    subject"""
    drawn_as: Annotated[Text | None, Default("itself")] = None
    """another dataset, whose draws of questions, demonstrations and samples this one shares: two sets of wordings are
    compared on the same questions"""
    end_task: Annotated[Annotated[str, one_of((EXACT_MATCH, F1, ROUGE_L))] | None, Default("by format")] = (
        None
    )
    """how an answer under grounding prompts is scored: `exact_match`, `f1` or `rouge_l`"""

    popularity_name: Annotated[Text | None, Default("popularity")] = None
    """what the popularity in the file counts, as figures name it: `site links`. It goes with measure `imported`"""

    definitions: tuple[Relation, ...] = ()

    def check(self, raw: Mapping[str, Any], reading: Reading) -> Dataset:
        """A format without a set of relations has names of its own; none means all."""
        for key in ("first_rows", "popularity_name"):
            if key in raw and "import" not in raw:
                raise fail(key, "goes with import: it is about a file")
        names = relation_names(self.relation_set)
        listed = self.relations if "relations" in raw else names
        definitions = _read_relation_files(listed, reading.path.parent)
        if definitions and self.imported is not None:
            raise fail(
                "relations", "a file of relations goes with a dataset of the source, not with an import"
            )
        chosen = tuple(name for name in listed if not name.endswith(ENDINGS)) if definitions else listed
        if names and chosen:
            chosen = choose_some("relations", chosen, names)
        relations = (*(relation.name for relation in definitions), *chosen)
        return dataclasses.replace(self, relations=relations, definitions=definitions)

    @property
    def relation_set(self) -> str | None:
        """The set that its relations are of: of its format, the source, or its files. None where its format has none."""
        if self.definitions:
            return STUDY_SET
        if self.imported is None:
            return SOURCE_SET
        name: str | None = load_format(self.imported.kind, self.imported.format).relation_set
        return name


def _read_relation_files(listed: Sequence[object], folder: Path) -> tuple[Relation, ...]:
    """The relations of the files among the values of key `relations`; names are left aside.

    Errors: `fail` where a file does not exist, `StudyError` naming file, relation and key of what is wrong in it.
    """
    relations: list[Relation] = []
    for value in listed:
        if str(value).endswith(ENDINGS):
            path = folder / str(value)
            if not path.is_file():
                raise fail("relations", f"{path}: there is no such file of relations")
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
