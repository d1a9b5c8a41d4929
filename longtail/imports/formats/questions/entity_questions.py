"""EntityQuestions: `dataset/{train,dev,test}/P*.{split}.json`, lists of {question, answers} (SPEC §1), plain or gzip.

The files name no entity: a question has a subject's id, and so popularity, only if its subject's name is the label or
an alias of exactly one entity, or with `ambiguous: most_popular` of one that is more popular than the others of its
name. The other questions are asked too. A question's id is its property and its place in the property's file, as in
P19-1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from longtail.errors import SourceError
from longtail.imports.format import (
    LONGEST_QUESTION,
    Ambiguous,
    ImportedDataset,
    LinkingCounts,
    Names,
    QuestionFormat,
    names_for,
    question_row,
)
from longtail.imports.formats.questions.table import answers_of
from longtail.imports.records import first_reason, require_keys
from longtail.imports.table_rows import RefusedError, Row, number_objects
from longtail.parsing.line_files import RejectedRows
from longtail.relations.relation import SUBJECT, Relation, relation_set
from longtail.study.datasets import Dataset
from longtail.study.imports import Import
from longtail.study.parts import Part
from longtail.study.values import one_of

SPLITS = ("test", "dev", "train")
_FILE = re.compile(r"(P[1-9]\d*)\.(train|dev|test)\.json(?:\.gz)?")


def read_entity_questions(
    folder: Path,
    split: str,
    relations: Iterable[str],
    entities: Mapping[str, Iterable[str]],
    popularity: Mapping[str, float] = {},
) -> ImportedDataset:
    """Read a split of the dataset. `entities`: a name → ids of all entities that bear it (`by_name`); `popularity`
    chooses among them (`LinkingCounts.link`).

    Items are put aside if they are no question, or if their property has no template. Errors: `SourceError` if the folder
    has no file of the split, a file cannot be read, or none has a question that can be used.
    """
    dataset, wanted = ImportedDataset(), set(relations)
    by_property = {relation.property_id: relation for relation in relation_set("entity_questions")}
    for file in find_files(folder, split):
        property_id = file.name.split(".")[0]
        relation = by_property.get(property_id)
        if relation is None or relation.name in wanted:
            name = relation.name if relation else property_id
            counts = dataset.linking.setdefault(name, LinkingCounts())
            _add_file(dataset, file, property_id, relation, entities, popularity, counts)
    if not dataset.questions:
        raise SourceError(
            f"{folder}: holds no question of split {split} that can be used{first_reason(dataset.rejected)}"
        )
    return dataset


def mention(question: str, template: str) -> str | None:
    """The subject as the question names it; None if the question does not fit the template."""
    before, after = template.split(SUBJECT)
    if not (question.startswith(before) and question.endswith(after)):
        return None
    return question[len(before) : len(question) - len(after)].strip() or None


def find_files(folder: Path, split: str) -> list[Path]:
    """The files of the split, in or below `folder`, by property. Errors: `SourceError` where there is none."""
    named = (
        (int(match[1][1:]), file)
        for place in (folder, folder / split, folder / "dataset" / split)
        if place.is_dir()
        for file in place.iterdir()
        if (match := _FILE.fullmatch(file.name)) and match[2] == split
    )
    files = list(dict(sorted(named, reverse=True)).values())[
        ::-1
    ]  # a plain file goes before a compressed one
    if not files:
        raise SourceError(
            f"{folder}: holds no file P*.{split}.json (or .json.gz), nor do its folders {split} and dataset/{split}"
        )
    return files


def _add_file(
    dataset: ImportedDataset,
    file: Path,
    property_id: str,
    relation: Relation | None,
    entities: Mapping[str, Iterable[str]],
    popularity: Mapping[str, float],
    counts: LinkingCounts,
) -> None:
    rejected = RejectedRows(file.name)
    for number, item in number_objects(file, rejected):
        row = Row(number, {"question": item.get("question"), "answers": item.get("answers")}, {})
        try:
            if relation is None:
                raise RefusedError(f"no template is known of property {property_id}")
            question = _question(row, f"{property_id}-{number}", relation)
        except RefusedError as refused:
            rejected.put(number, str(refused), item)
        else:
            counts.n_questions += 1
            question["subject_id"] = counts.link(entities.get(question["subject"] or "", ()), popularity)
            dataset.questions[question["question_id"]] = question
    counts.n_put_aside += rejected.n_rows
    counts.n_questions += rejected.n_rows
    dataset.rejected.extend(rejected.rows)


def _question(row: Row, question_id: str, relation: Relation) -> dict[str, Any]:
    """The question, not yet linked to an entity. Errors: `RefusedError`."""
    text = row.text("question", LONGEST_QUESTION)
    if text is None:
        raise row.error("question", "a text was expected")
    answers = answers_of(row, None)
    return question_row(
        question_id,
        text,
        answers,
        relation=relation.name,
        property_id=relation.property_id,
        subject=mention(text, relation.template),
        objects=answers,
    )


def _read(place: Path, declared: Import, dataset: Dataset, names: Names) -> ImportedDataset:
    known = names_for(declared, names)
    return read_entity_questions(place, declared.option("split"), dataset.relations, *known)


@dataclass(frozen=True)
class EntityQuestionsKeys(Part):
    split: Annotated[str, one_of(SPLITS)] = "test"
    """test, dev or train"""
    ambiguous: Ambiguous = "left_out"


FORMAT = QuestionFormat(
    relation_set="entity_questions",
    links_subjects=True,
    read=_read,
    files=lambda place, declared: find_files(place, declared.option("split")),
    check=require_keys("question", "answers"),
    keys=EntityQuestionsKeys,
)
