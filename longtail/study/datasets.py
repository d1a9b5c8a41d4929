"""Key `datasets` of study.yaml: the sets of questions."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from pydantic import Field

from longtail.relations.relation import SOURCE_SET, STUDY_SET, Relation, relation_names
from longtail.study.imports import EXACT_MATCH, F1, ROUGE_L, Import, Paraphrases, Place, load_format
from longtail.study.parts import Part
from longtail.study.relation_files import ENDINGS, read_relation_files
from longtail.study.values import (
    Count,
    Default,
    Reading,
    Slug,
    Text,
    choose_some,
    fail,
    list_schema,
    one_of,
    read_names,
    value_of,
)

SPLITS_BY = ("question", "subject")


def _read_relations(value: Any) -> tuple[str, ...]:
    """Names and files of relations; one file may stand without a list."""
    return read_names([value] if isinstance(value, str) and value.endswith(ENDINGS) else value)


_NAMES_OR_FILE = [
    list_schema({"type": "string", "minLength": 1}),
    {"type": "string", "pattern": r"\.ya?ml$"},
]
_RELATIONS = value_of("a list of at least one text", _read_relations, anyOf=_NAMES_OR_FILE)


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
        try:
            definitions = read_relation_files(listed, reading.path.parent)
        except ValueError as error:
            raise fail("relations", str(error)) from None
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


def end_task_of(dataset: Dataset) -> str:
    """The score of its grounded answers."""
    if dataset.end_task is not None or dataset.imported is None:
        return dataset.end_task or EXACT_MATCH
    score: str = load_format(dataset.imported.kind, dataset.imported.format).end_task
    return score
