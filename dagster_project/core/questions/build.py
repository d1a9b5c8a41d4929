"""Questions, built from the lake's facts or out of imported files (SPEC §1).

What belongs here: which questions a dataset has, their gold answers, and filled templates. What does not: the
templates (`relations`, `paraphrases`), reading files (`imports`), popularity (joined in dbt), prompts
(`generation.prompts`).
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dagster_project.core.errors import LakeError, SourceError
from dagster_project.core.fingerprints import code_version, fingerprint
from dagster_project.core.imports.facts import PARTITION as IMPORTED_PARTITION
from dagster_project.core.imports.facts import file_slice
from dagster_project.core.imports.questions import imported_questions
from dagster_project.core.lake import Computed, Lake, Outcome, QuarantinedRow
from dagster_project.core.relations.popqa import RELATIONS, SUBJECT, Relation
from dagster_project.core.study.study import Dataset, Study
from dagster_project.core.wikimedia.asked import asked_entities, asked_facts, sample_content

RELATION_ORDER = {relation.name: place for place, relation in enumerate(RELATIONS)}


@dataclass(frozen=True)
class _Entity:
    label: str
    aliases: tuple[str, ...]


@dataclass
class _Built:
    """Questions by relation, what was put aside, and how many objects had no label."""

    questions: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    quarantined: list[QuarantinedRow] = field(default_factory=list)
    n_objects_without_label: int = 0


def build_questions(study: Study, lake: Lake, log: logging.Logger) -> Outcome:
    """Write lake table `questions`: one question per (subject, relation) of each dataset's relations."""
    slices = [
        (dataset.name, dataset.relations, dataset.max_questions_per_relation) for dataset in study.datasets
    ]
    seed = study.seed if any(d.max_questions_per_relation for d in study.datasets) else None
    stamp = fingerprint(
        slices,
        seed,
        lake.content("triples"),
        lake.content("entities"),
        imports_slice(study, lake),
        code_version(__name__),
        *sample_content(study, lake),
    )
    return lake.materialise("questions", stamp, lambda: _compute_questions(study, lake, log))


def fill(template: str, subject: str) -> str:
    """`template` with its one `[subj]` replaced; the label is never read as a template itself."""
    before, after = template.split(SUBJECT)
    return before + subject + after


def one_line(text: str) -> str:
    """`text` stripped, its line breaks turned into spaces: a question is one line, and so is an answer."""
    return " ".join(text.splitlines()).strip()


def gold_answers(labels_and_aliases: Iterable[str]) -> list[str]:
    """Distinct answers in their order, stripped, none empty."""
    return list(dict.fromkeys(answer for text in labels_and_aliases if (answer := one_line(text))))


def draw(
    rows: Iterable[Mapping[str, Any]], limit: int | None, seed: int, dataset: str
) -> list[Mapping[str, Any]]:
    """The `limit` rows with the smallest hash of (seed, dataset, question_id), whatever their order."""
    if limit is None:
        return list(rows)

    def place(row: Mapping[str, Any]) -> tuple[str, str]:
        key = json.dumps([seed, dataset, row["question_id"]])
        return hashlib.sha256(key.encode()).hexdigest(), row["question_id"]

    return sorted(rows, key=place)[:limit]


def _compute_questions(study: Study, lake: Lake, log: logging.Logger) -> Computed:
    wanted = {name for dataset in study.datasets_of_source for name in dataset.relations}
    built = _build([relation for relation in RELATIONS if relation.name in wanted], study, lake)
    rows = [row for dataset in study.datasets_of_source for row in _of_dataset(dataset, built, study.seed)]
    if not rows and study.datasets_of_source:
        raise LakeError(
            f"{study.path}: no question can be asked: the lake has no fact of its datasets' relations with "
            f"labelled subject and object ({len(built.quarantined)} put aside); check the source"
        )
    notes: dict[str, Any] = {"objects_without_label": built.n_objects_without_label} if wanted else {}
    for dataset in study.datasets_of_files:
        found = imported_questions(study, dataset, lake, log)
        asked = _of_file(dataset, found.questions.values(), study)
        notes[dataset.name] = {**found.notes, "not_asked": len(found.questions) - len(asked)}
        rows += asked
        built.quarantined += found.aside
    rows.sort(key=_order)
    log.info("questions: %d, put aside %d", len(rows), len(built.quarantined))
    return Computed(rows, built.quarantined, notes)


def _order(row: Mapping[str, Any]) -> tuple[str, int, str, str]:
    relation = row["relation"]
    place = RELATION_ORDER.get(relation, len(RELATION_ORDER))
    return row["dataset"], place, relation, row["question_id"]


def imports_slice(study: Study, lake: Lake) -> list[Any]:
    """What of imported files decides rows; what is linked to them depends on all entities."""
    if not study.datasets_of_files:
        return []
    files = [[dataset.name, file_slice(study, dataset)] for dataset in study.datasets_of_files]
    named = (
        [lake.content("entities", IMPORTED_PARTITION)]
        if IMPORTED_PARTITION in lake.partitions("entities")
        else []
    )
    return [*files, *named]


def _build(relations: list[Relation], study: Study, lake: Lake) -> _Built:
    entities = {
        row["entity_id"]: _Entity(one_line(row["label"]), tuple(row["aliases"]))
        for row in _terms(study, lake).to_pylist()
    }
    objects: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row in asked_facts(study, lake, ["subject_id", "property_id", "object_id"]).to_pylist():
        objects[row["property_id"], row["subject_id"]].add(row["object_id"])
    by_property = {relation.property_id: relation for relation in relations}
    built = _Built()
    for (property_id, subject_id), object_ids in sorted(objects.items()):
        relation = by_property.get(property_id)
        if relation:
            _add_question(built, relation, subject_id, sorted(object_ids), entities)
    return built


def _terms(study: Study, lake: Lake) -> pa.Table:
    """Labels and aliases of all entities, or of those that a sample asks about."""
    asked = asked_entities(study, lake)
    only = None if asked is None else pc.field("entity_id").isin(asked)
    return lake.read("entities", columns=["entity_id", "label", "aliases"], only=only)


def _add_question(
    built: _Built, relation: Relation, subject_id: str, object_ids: list[str], entities: Mapping[str, _Entity]
) -> None:
    known = [o for o in object_ids if o in entities and entities[o].label]
    built.n_objects_without_label += len(object_ids) - len(known)
    question_id = f"{subject_id}-{relation.property_id}"
    subject = entities.get(subject_id)
    reason = None
    if subject is None or not subject.label:
        reason = "the subject has no English label"
    elif not known:
        reason = "no object has an English label, so there is no gold answer"
    if subject is None or reason:
        raw = json.dumps({"subject_id": subject_id, "object_ids": object_ids})
        built.quarantined.append(QuarantinedRow(question_id, reason or "", raw))
        return
    built.questions[relation.name].append(
        {
            "question_id": question_id,
            "relation": relation.name,
            "property_id": relation.property_id,
            "subject_id": subject_id,
            "subject": subject.label,
            "subject_aliases": list(subject.aliases),
            "question": fill(relation.template, subject.label),
            "object_ids": known,
            "objects": [entities[o].label for o in known],
            "gold_answers": gold_answers(t for o in known for t in (entities[o].label, *entities[o].aliases)),
        }
    )


def _of_dataset(dataset: Dataset, built: _Built, seed: int) -> list[dict[str, Any]]:
    return [
        {"dataset": dataset.name, **row}
        for relation in dataset.relations
        for row in draw(built.questions[relation], dataset.max_questions_per_relation, seed, dataset.name)
    ]


def _of_file(dataset: Dataset, questions: Iterable[Mapping[str, Any]], study: Study) -> list[dict[str, Any]]:
    """The questions of a file that the dataset asks. Errors: `SourceError` where there is none."""
    by_relation: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for question in questions:
        by_relation[question["relation"]].append(question)
    asked = [
        {"dataset": dataset.name, **row}
        for relation in dataset.relations
        for row in draw(by_relation[relation], dataset.max_questions_per_relation, study.seed, dataset.name)
    ]
    if not asked:
        raise SourceError(
            f"{study.path}: dataset {dataset.name}: its file has no question of {', '.join(dataset.relations)};"
            f" it has: {', '.join(sorted(name for name in by_relation if by_relation[name]))}"
        )
    return asked
