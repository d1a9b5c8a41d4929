"""Relations, read from files: what each is called, which property of Wikidata it is, and how it is asked about.

The package has two sets: `popqa.yaml` and `entity_questions.yaml`, lists of relations. A study may bring files of its own
(`study.relation_files`).
"""

from __future__ import annotations

import functools
import importlib.resources
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

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


def enumerate_names(names: Sequence[str]) -> str:
    """`a`; `a and b`; `a, b and c`."""
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


@functools.cache
def relation_set(name: str) -> tuple[Relation, ...]:
    """The relations of a set of the package, in its order."""
    file = importlib.resources.files(__package__) / f"{name}.yaml"
    return tuple(
        Relation(
            entry["name"],
            entry["property"],
            entry["question"],
            entry.get("statement", ""),
            tuple(entry.get("wordings", ())),
            entry.get("published_questions", 0),
            tuple(kinds.get("subjects", ())),
            kinds.get("objects", ""),
        )
        for entry in yaml.load(file.read_text(encoding="utf-8"), yaml.CSafeLoader)
        for kinds in (entry.get("kinds", {}),)
    )


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
