"""EntityQuestions: `dataset/{train,dev,test}/P*.{split}.json`, lists of {question, answers} (SPEC §1).

What belongs here: cutting the subject's name out of a question by its relation's template, and linking it to entities
that are known from elsewhere. What does not: the templates (`relations.entity_questions`), and reading those entities
(`questions`). The files name no entity: a question is kept only if its subject's name is the label or an alias of
exactly one entity.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dagster_project.core.errors import SourceError
from dagster_project.core.imports.dataset import (
    LONGEST_QUESTION,
    ImportedDataset,
    LinkingCounts,
    clean,
    reasons,
)
from dagster_project.core.imports.formats import Names, QuestionFormat
from dagster_project.core.imports.records import Aside
from dagster_project.core.relations.entity_questions import RELATIONS
from dagster_project.core.relations.relation import SUBJECT
from dagster_project.core.study.imports import Import

SPLITS = ("test", "dev", "train")
_BY_PROPERTY = {relation.property_id: relation for relation in RELATIONS}
_FILE = re.compile(r"(P[1-9]\d*)\.(train|dev|test)\.json")
_LARGEST_FILE = 1 << 28


def read_entity_questions(
    folder: Path, split: str, relations: Iterable[str], entities: Mapping[str, Iterable[str]]
) -> ImportedDataset:
    """Read a split of the dataset. `entities`: a name → ids of all entities that bear it (`by_name`).

    Questions are put aside if they name no entity or several, if another question asks the same, or if their property
    has no template. Notes have the share of linked questions. Errors: `SourceError` if the folder has no file of the
    split, a file is no JSON list, or no question could be linked.
    """
    dataset = ImportedDataset()
    wanted = set(relations)
    for file in find_files(folder, split):
        property_id = file.name.split(".")[0]
        relation = _BY_PROPERTY.get(property_id)
        if relation is None or relation.name in wanted:
            name = relation.name if relation else property_id
            counts = dataset.linking.setdefault(name, LinkingCounts())
            _add_file(dataset, file, property_id, entities, counts)
    total = _total(dataset.linking.values())
    if not dataset.questions:
        first = f"; {dataset.aside[0].row_key}: {dataset.aside[0].reason}" if dataset.aside else ""
        raise SourceError(
            f"{folder}: none of {total.n_questions} questions could be linked to an entity{first}; the study's source or"
            " a popqa dataset must know the entities they are about"
        )
    dataset.notes.update(
        read=total.n_questions,
        no_entity=total.n_no_entity,
        several_entities=total.n_several_entities,
        linked=total.n_linked,
        linked_share=total.share,
        linked_share_by_relation={relation: counts.share for relation, counts in dataset.linking.items()},
        put_aside=len(dataset.aside),
        reasons=reasons(dataset.aside),
    )
    return dataset


def _total(counts: Iterable[LinkingCounts]) -> LinkingCounts:
    columns = zip(*(dataclasses.astuple(one) for one in counts), strict=True)
    return LinkingCounts(*map(sum, columns))


def by_name(entities: Iterable[Mapping[str, Any]]) -> dict[str, set[str]]:
    """Label or alias → ids of the entities with this name. `entities` are rows with entity_id, label and aliases."""
    names: dict[str, set[str]] = {}
    for entity in entities:
        for name in (entity["label"], *entity["aliases"]):
            if text := clean(name):
                names.setdefault(text, set()).add(entity["entity_id"])
    return names


def mention(question: str, template: str) -> str | None:
    """The subject as the question names it; None if the question does not fit the template."""
    before, after = template.split(SUBJECT)
    if not (question.startswith(before) and question.endswith(after)):
        return None
    return question[len(before) : len(question) - len(after)].strip() or None


def find_files(folder: Path, split: str) -> list[Path]:
    """The files of the split, in or below `folder`, by property. Errors: `SourceError` where there is none."""
    named = (
        (int(found[1][1:]), file)
        for place in (folder, folder / split, folder / "dataset" / split)
        if place.is_dir()
        for file in place.iterdir()
        if (found := _FILE.fullmatch(file.name)) and found[2] == split
    )
    files = [file for _, file in sorted(named)]
    if not files:
        raise SourceError(
            f"{folder}: holds no file P*.{split}.json, nor do its folders {split} and dataset/{split}"
        )
    return files


def _add_file(
    dataset: ImportedDataset,
    file: Path,
    property_id: str,
    entities: Mapping[str, Iterable[str]],
    counts: LinkingCounts,
) -> None:
    aside = Aside(file.name)
    for number, item in enumerate(_load(file), 1):
        counts.n_questions += 1
        fault = _question_fault(item)
        if not fault and property_id not in _BY_PROPERTY:
            fault = f"no template is known of property {property_id}"
        if fault:
            counts.n_put_aside += 1
        else:
            fault = _link(dataset, item, property_id, entities, counts)
        if fault:
            aside.put(number, fault, item)
    dataset.aside.extend(aside.rows)


def _load(file: Path) -> list[Any]:
    try:
        if file.stat().st_size > _LARGEST_FILE:
            raise SourceError(
                f"{file}: is larger than {_LARGEST_FILE >> 20} MiB, which no file of this dataset is"
            )
        loaded = json.loads(file.read_bytes().removeprefix(b"\xef\xbb\xbf"))
    except (ValueError, RecursionError) as error:
        raise SourceError(
            f"{file}: is not JSON in UTF-8: {' '.join(str(error).split())[:200]}; fetch it again"
        ) from None
    except OSError as error:
        raise SourceError(f"{file}: cannot be read ({error.strerror or error})") from None
    if not isinstance(loaded, list):
        raise SourceError(f"{file}: a JSON list of questions was expected")
    return loaded


def _question_fault(item: object) -> str | None:
    if not isinstance(item, dict):
        return "an object with question and answers was expected"
    if not isinstance(item.get("question"), str) or not clean(item["question"], LONGEST_QUESTION):
        return "key question: a text was expected"
    answers = item.get("answers")
    if not isinstance(answers, list) or not all(isinstance(answer, str) for answer in answers):
        return "key answers: a list of texts was expected"
    return None if any(clean(answer) for answer in answers) else "key answers: at least one was expected"


def _link(
    dataset: ImportedDataset,
    item: Mapping[str, Any],
    property_id: str,
    entities: Mapping[str, Iterable[str]],
    counts: LinkingCounts,
) -> str | None:
    """Add the question under its entity, or say why not."""
    relation = _BY_PROPERTY[property_id]
    question = clean(item["question"], LONGEST_QUESTION)
    name = mention(question, relation.template)
    if name is None:
        counts.n_put_aside += 1
        return f"key question: not of the relation's template, {relation.template}"
    ids = sorted(entities.get(name, ()))
    if not ids:
        counts.n_no_entity += 1
        return "subject matches no entity"
    if len(ids) > 1:
        counts.n_several_entities += 1
        return "subject matches several entities"
    question_id = f"{ids[0]}-{property_id}"
    if question_id in dataset.questions:
        counts.n_put_aside += 1
        return f"asked already: another question is about {property_id} of {ids[0]}; that one is kept"
    answers = list(dict.fromkeys(text for answer in item["answers"] if (text := clean(answer))))
    counts.n_linked += 1
    dataset.questions[question_id] = {
        "question_id": question_id,
        "relation": relation.name,
        "property_id": property_id,
        "subject_id": ids[0],
        "subject": name,
        "subject_aliases": [],
        "question": question,
        "object_ids": [],
        "objects": answers,
        "gold_answers": answers,
    }
    return None


def _read(place: Path, declared: Import, relations: tuple[str, ...], names: Names) -> ImportedDataset:
    return read_entity_questions(place, declared.option("split"), relations, names())


FORMAT = QuestionFormat(
    relation_set="entity_questions",
    links_subjects=True,
    read=_read,
    files=lambda place, declared: find_files(place, declared.option("split")),
    keys={"split": lambda read, key: read.choice(key, SPLITS, "test")},
)
