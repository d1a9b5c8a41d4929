"""Questions, built from the lake's facts or read from imported files (SPEC §1).

A question needs no subject and no relation, since an imported file may give neither. Both are null then.
"""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from longtail.errors import LakeError
from longtail.imports.dataset import ImportedDataset
from longtail.imports.facts import PARTITION as IMPORTED_PARTITION
from longtail.imports.facts import file_slice
from longtail.imports.questions import imported_questions, kept_questions
from longtail.questions.selection import Choice, choice_slice, chosen_questions, relation_order
from longtail.relations.relation import Relation, content_of
from longtail.storage.fingerprints import code_version, fingerprint
from longtail.storage.lake import Computed, Lake, Outcome, QuarantinedRow
from longtail.study.datasets import Dataset
from longtail.study.study import Study
from longtail.wikimedia.selected_facts import asked_entities, sample_content, selected_facts


@dataclass(frozen=True)
class _Entity:
    label: str
    aliases: tuple[str, ...]


@dataclass
class _Built:
    """Questions by relation, the facts that were put aside, and how many objects had no label."""

    questions: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    quarantined: list[QuarantinedRow] = field(default_factory=list)
    n_objects_without_label: int = 0


def build_questions(study: Study, lake: Lake, log: logging.Logger) -> Outcome:
    """Write lake table `questions`: one question per (subject, relation) of the source's facts, and those of files.

    Errors: `LakeError` where no question can be made from the facts, `SourceError` where a file has none to ask.
    """
    stamp = fingerprint(
        choice_slice(study),
        content_of(study.relations, "name", "property_id", "template"),
        lake.content("triples"),
        lake.content("entities"),
        imports_slice(study, lake),
        code_version(__name__),
        *sample_content(study, lake),
    )

    def compute() -> Computed:
        asked = asked_entities(study, lake)
        only = None if asked is None else pc.field("entity_id").isin(asked)
        return make_questions(
            selected_facts(study, lake, ["subject_id", "property_id", "object_id"]),
            lake.read("entities", columns=["entity_id", "label", "aliases"], only=only),
            study.datasets_of_source,
            ((dataset, imported_questions(study, dataset, lake, log)) for dataset in study.datasets_of_files),
            Choice.of(study),
            log,
        )

    return lake.materialise("questions", stamp, compute)


def make_questions(
    facts: pa.Table,
    entities: pa.Table,
    datasets: Sequence[Dataset],
    files: Iterable[tuple[Dataset, ImportedDataset]],
    choice: Choice,
    log: logging.Logger,
) -> Computed:
    """The rows of `questions`: those of `datasets` from facts, and those of `files`, chosen by the datasets' keys.

    `facts`: subject_id, property_id, object_id. `entities`: entity_id, label, aliases. Errors: as `build_questions`.
    """
    wanted = {name for dataset in datasets for name in dataset.relations}
    built = _build([one for one in choice.relations if one.name in wanted], facts, entities)
    rows: list[dict[str, Any]] = []
    notes: dict[str, Any] = {"objects_without_label": built.n_objects_without_label} if wanted else {}
    for dataset in datasets:
        own = [question for relation in dataset.relations for question in built.questions[relation]]
        asked, unknown = chosen_questions(choice, dataset, own, log)
        rows += _asked(dataset, len(own), asked, log)
        built.quarantined += unknown
    if not rows and datasets:
        raise LakeError(
            f"{choice.study_file}: no question can be asked: the lake has no fact of its datasets' relations with "
            f"labelled subject and object ({len(built.quarantined)} rejected); check the source"
        )
    for dataset, found in files:
        kept, refused = kept_questions(found.questions.values())
        asked, unknown = chosen_questions(choice, dataset, kept, log)
        rows += _asked(dataset, len(found.questions), asked, log)
        notes[dataset.name] = {**found.notes, **_counts(len(found.questions), asked)}
        built.quarantined += [*found.rejected, *refused, *unknown]
    place_of = relation_order(choice.relations)
    rows.sort(key=lambda row: (row["dataset"], *place_of(row["relation"]), row["question_id"]))
    log.info("questions: %d, rejected: %d", len(rows), len(built.quarantined))
    return Computed(rows, built.quarantined, notes)


def one_line(text: str) -> str:
    """`text` in one line, stripped: line breaks become spaces. Questions and answers are one line each."""
    return " ".join(text.splitlines()).strip()


def gold_answers(labels_and_aliases: Iterable[str]) -> list[str]:
    """The distinct answers in their order, stripped. Empty ones are left out."""
    return list(dict.fromkeys(answer for text in labels_and_aliases if (answer := one_line(text))))


def _asked(
    dataset: Dataset, n_there: int, questions: Sequence[Mapping[str, Any]], log: logging.Logger
) -> list[dict[str, Any]]:
    log.info("%s: %d questions, %d of them asked", dataset.name, n_there, len(questions))
    return [{"dataset": dataset.name, **question} for question in questions]


def _counts(n_in_file: int, asked: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """How many questions of a file are not asked, and how many of those asked lack a subject or a relation."""
    lacking = {name: sum(row[name] is None for row in asked) for name in ("subject_id", "relation")}
    missing = {f"without_{name.removesuffix('_id')}": n for name, n in lacking.items() if n}
    return {"not_asked": n_in_file - len(asked), **missing}


def imports_slice(study: Study, lake: Lake) -> list[Any]:
    """What decides the rows of imported files: the files, and the entities that questions are linked to."""
    if not study.datasets_of_files:
        return []
    files = [[dataset.name, file_slice(study, dataset)] for dataset in study.datasets_of_files]
    named = (
        [lake.content("entities", IMPORTED_PARTITION)]
        if IMPORTED_PARTITION in lake.partitions("entities")
        else []
    )
    return [*files, *named]


def _build(relations: list[Relation], facts: pa.Table, entities: pa.Table) -> _Built:
    known = {
        row["entity_id"]: _Entity(one_line(row["label"]), tuple(row["aliases"]))
        for row in entities.to_pylist()
    }
    objects: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row in facts.to_pylist():
        objects[row["property_id"], row["subject_id"]].add(row["object_id"])
    by_property = {relation.property_id: relation for relation in relations}
    built = _Built()
    for (property_id, subject_id), object_ids in sorted(objects.items()):
        relation = by_property.get(property_id)
        if relation:
            _add_question(built, relation, subject_id, sorted(object_ids), known)
    return built


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
            "question": relation.question(subject.label),
            "object_ids": known,
            "objects": [entities[o].label for o in known],
            "gold_answers": gold_answers(t for o in known for t in (entities[o].label, *entities[o].aliases)),
        }
    )
