"""Relations, read from files: what each is called, which property of Wikidata it is, and how it is asked about.

The package has two sets: `popqa.yaml` and `entity_questions.yaml`. A study may bring files of its own, in the same form:
a list of relations, each a mapping with the keys of `parse_relations`. Filling questions with subjects is the business
of `questions`.
"""

from __future__ import annotations

import difflib
import functools
import importlib.resources
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from longtail.errors import StudyError

SUBJECT = "[subj]"
OBJECT = "[obj]"
ALL = "all"
"""What the marts call all relations together. No relation may have this name."""
SOURCE_SET = "popqa"
RELATION_SETS = (SOURCE_SET, "entity_questions")
"""The sets of the package. `SOURCE_SET` is asked about where questions are made from facts and the study has no file of
relations."""
STUDY_SET = "study"
"""What lake tables call the relations of datasets that name a file of relations."""
KEYS = ("name", "property", "question", "statement", "wordings", "kinds", "published_questions")
"""The keys of a relation in a file; the first three are required."""
_LONGEST = {"name": 60, "question": 500, "statement": 500, "wordings": 500}
_MOST_WORDINGS = 100
_PROPERTY = re.compile(r"P[1-9]\d{0,9}")
_SHOWN = 80


@dataclass(frozen=True)
class Relation:
    """One relation: `name` is the value of column `relation` everywhere, `property_id` is Wikidata's.

    `template` is the question, with `[subj]` once. `statement` has `[subj]` and `[obj]` once each; it is empty where the
    relation has no statement: its facts then are in no passage that is made from facts. `wordings` are other templates
    of the question (paraphrases). `published_questions` is how many questions the dataset's paper counts, 0 where it
    does not say. `subject_kinds` and `object_kind` are kinds of the sandbox's entities; nothing else reads them.
    """

    name: str
    property_id: str
    template: str
    statement: str = ""
    wordings: tuple[str, ...] = ()
    published_questions: int = 0
    subject_kinds: tuple[str, ...] = ()
    object_kind: str = ""

    def question(self, subject: str) -> str:
        """The question about `subject` (a label)."""
        return fill(self.template, subject)

    def sentence(self, subject: str, obj: str) -> str:
        """The triple as a sentence, from the labels of its two ends."""
        before, after = self.statement.split(OBJECT)
        return before.replace(SUBJECT, subject) + obj + after.replace(SUBJECT, subject)


def fill(template: str, subject: str) -> str:
    """`template` with `subject` in the place of its one `[subj]`. A label that looks like a template stays as it is."""
    before, after = template.split(SUBJECT)
    return before + subject + after


@functools.cache
def relation_set(name: str) -> tuple[Relation, ...]:
    """The relations of a set of the package, in its order. Errors: `StudyError` naming file, relation and key."""
    file = importlib.resources.files(__package__) / f"{name}.yaml"
    raw = yaml.load(file.read_text(encoding="utf-8"), yaml.CSafeLoader)
    return parse_relations(file.name, raw)


def relation_names(name: str | None) -> tuple[str, ...]:
    """The names of a set's relations, in its order; none without a set."""
    return tuple(relation.name for relation in relation_set(name)) if name else ()


def by_name(relations: Iterable[Relation]) -> dict[str, Relation]:
    """Name → relation, in their order; of two of a name, the later one."""
    return {relation.name: relation for relation in relations}


def add_source_set(relations: Iterable[Relation]) -> tuple[Relation, ...]:
    """PopQA's relations in their order, then `relations`. One of the same name takes the place of PopQA's."""
    return tuple(by_name((*relation_set(SOURCE_SET), *relations)).values())


def content_of(relations: Iterable[Relation], *fields: str) -> list[list[Any]]:
    """These fields of each relation, for a fingerprint."""
    return [[getattr(relation, field) for field in fields] for relation in relations]


def parse_relations(file: str, raw: object) -> tuple[Relation, ...]:
    """The relations of a file, from its values.

    A relation has the keys `name`, `property` (a property of Wikidata, as in P108) and `question` (with [subj] for the
    subject), and may have `statement` (with [subj] and [obj]), `wordings` (a list of questions), `kinds` (`subjects` and
    `objects`, kinds of the sandbox's entities) and `published_questions`. Names and properties appear once.

    Errors: `StudyError` naming `file`, relation and key.
    """
    if not isinstance(raw, list) or not raw:
        raise StudyError(f"{file}: must be a list of relations, each with {', '.join(KEYS[:3])}")
    relations: list[Relation] = []
    for number, entry in enumerate(raw, 1):
        relation = _Entry(file, number, entry).relation()
        for key, field in (("name", "name"), ("property", "property_id")):
            if getattr(relation, field) in (getattr(other, field) for other in relations):
                raise StudyError(
                    f"{file}: relation {relation.name}: {key}: {getattr(relation, field)} appears twice"
                )
        relations.append(relation)
    return tuple(relations)


class _Entry:
    """One relation of a file, with its name for messages."""

    def __init__(self, file: str, number: int, raw: object) -> None:
        self._where = f"{file}: relation {number}"
        if not isinstance(raw, Mapping):
            raise StudyError(f"{self._where}: must be a mapping of keys: {', '.join(KEYS)}")
        self._raw: Mapping[Any, Any] = raw
        self._name = self._text("name", raw.get("name"))
        if self._name == ALL:
            raise self._fail("name", f"{ALL!r} is what tables call all relations together; choose another")
        self._where = f"{file}: relation {self._name}"
        for key in raw:
            if key not in KEYS:
                near = difflib.get_close_matches(str(key), KEYS, n=1)
                hint = f"did you mean {near[0]}? " if near else ""
                shown = str(key) if str(key).isprintable() else repr(key)
                raise self._fail(_shorten(shown), f"unknown key; {hint}allowed: {', '.join(KEYS)}")

    def relation(self) -> Relation:
        raw, question = self._raw, self._text("question", self._raw.get("question"), SUBJECT)
        kinds = self._kinds()
        statement = raw.get("statement")
        return Relation(
            self._name,
            self._property(),
            question,
            "" if statement is None else self._text("statement", statement, SUBJECT, OBJECT),
            self._wordings(question),
            self._read_published_questions(),
            *kinds,
        )

    def _fail(self, key: str, message: str) -> StudyError:
        return StudyError(f"{self._where}: {key}: {message}")

    def _text(self, key: str, value: object, *places: str) -> str:
        """A text in one line with each of `places` once."""
        if value is None:
            raise self._fail(key, "is missing")
        if not isinstance(value, str) or not value.isprintable() or not 0 < len(value) <= _LONGEST[key]:
            raise self._fail(
                key,
                f"must be a text in one line, of at most {_LONGEST[key]} characters, not {_shorten(repr(value))}",
            )
        if value != value.strip():
            raise self._fail(key, f"{_shorten(repr(value))} begins or ends with a space")
        for place in places:
            if value.count(place) != 1:
                raise self._fail(key, f"must have {place} once, not {_shorten(repr(value))}")
        return value

    def _property(self) -> str:
        value = self._raw.get("property")
        if value is None:
            raise self._fail("property", "is missing; it must be a property of Wikidata, as in P108")
        text = str(value)
        if _PROPERTY.fullmatch(text):
            return text
        shown = _shorten(repr(text))
        if text[:1] in ("^", "-"):
            raise self._fail(
                "property", f"{shown} is an inverse property, which cannot be asked; name a plain one"
            )
        if "/" in text:
            raise self._fail(
                "property", f"{shown} is a qualified property, which cannot be asked; name a plain one"
            )
        raise self._fail(
            "property", f"{shown} is no property of Wikidata; expected P and a number, as in P108"
        )

    def _wordings(self, question: str) -> tuple[str, ...]:
        values = self._raw.get("wordings") or []
        if not isinstance(values, list) or len(values) > _MOST_WORDINGS:
            raise self._fail("wordings", f"must be a list of at most {_MOST_WORDINGS} questions")
        wordings = tuple(self._text("wordings", value, SUBJECT) for value in values)
        for place, wording in enumerate(wordings):
            if wording in (question, *wordings[:place]):
                raise self._fail(
                    "wordings", f"{_shorten(repr(wording))} appears twice; key question is one of them"
                )
        return wordings

    def _read_published_questions(self) -> int:
        value = self._raw.get("published_questions", 0)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self._fail(
                "published_questions", f"must be a whole number of at least 0, not {_shorten(repr(value))}"
            )
        return value

    def _kinds(self) -> tuple[tuple[str, ...], str]:
        kinds = self._raw.get("kinds")
        if kinds is None:
            return (), ""
        match kinds:
            case {"subjects": list() as subjects, "objects": str() as objects} if len(kinds) == 2:
                if all(isinstance(kind, str) for kind in subjects):
                    return tuple(subjects), objects
        raise self._fail("kinds", "must be {subjects: [a kind, …], objects: a kind}")


def _shorten(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
