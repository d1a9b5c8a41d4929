"""Questions and wordings of imported datasets, as rows of lake tables questions and paraphrases.

What belongs here: which format's reader is asked, and rows in the tables' columns. What does not: the formats, the
draw and the tables' writers (`questions.build`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any

from dagster_project.core.imports.dataset import ImportedDataset
from dagster_project.core.imports.entity_questions import by_name, read_entity_questions
from dagster_project.core.imports.facts import place_of, popqa_of
from dagster_project.core.imports.popqa_tp import ImportedParaphrases, read_popqa_tp
from dagster_project.core.lake import Lake
from dagster_project.core.relations.popqa import SUBJECT
from dagster_project.core.study.imports import ENTITY_QUESTIONS
from dagster_project.core.study.study import Dataset, Study


def imported_questions(study: Study, dataset: Dataset, lake: Lake, log: logging.Logger) -> ImportedDataset:
    """A dataset's questions out of its file; those of relations that it does not ask about are among them.

    Errors: `SourceError` where the file is missing, is no such file, or holds nothing that can be used.
    """
    if dataset.imported and dataset.imported.format == ENTITY_QUESTIONS:
        found = linked_questions(study, dataset, lake)
        log.info(
            "%s: %.1f %% of the questions linked to an entity",
            dataset.name,
            100 * found.notes["linked_share"],
        )
    else:
        found = popqa_of(study, dataset)
    if found.aside:
        log.warning(
            "%s: %d rows put aside, see quarantine: %s",
            dataset.name,
            len(found.aside),
            found.notes["reasons"],
        )
    return found


def linked_questions(study: Study, dataset: Dataset, lake: Lake) -> ImportedDataset:
    """The content of an EntityQuestions folder, its subjects linked to the lake's entities. Errors: `SourceError`."""
    entities = by_name(lake.read_all("entities", ["entity_id", "label", "aliases"]).to_pylist())
    split = dataset.imported.split if dataset.imported else None
    return read_entity_questions(
        place_of(study, dataset.imported), split or "test", dataset.relations, entities
    )


def imported_paraphrases(study: Study, dataset: Dataset, log: logging.Logger) -> ImportedParaphrases:
    """A dataset's wordings out of its PopQA-TP file. Errors: `SourceError`."""
    path = place_of(study, dataset.paraphrases)
    found = read_popqa_tp(path, popqa_of(study, dataset).questions)
    if found.aside:
        reasons = found.notes["paraphrase_reasons"]
        log.warning("%s: %d wordings put aside, see quarantine: %s", dataset.name, len(found.aside), reasons)
    return found


def wordings(question: Mapping[str, Any], imported: Mapping[int, str]) -> Iterator[tuple[int, str, str]]:
    """(number, template, wording) of a question: 0 = the question itself, then the imported ones by their number."""
    for number, wording in sorted({**imported, 0: question["question"]}.items()):
        yield number, as_template(wording, question["subject"]), wording


def as_template(wording: str, subject: str) -> str:
    """The wording with [subj] for its subject, where that stands in it exactly once; else the wording itself."""
    return wording.replace(subject, SUBJECT) if wording.count(subject) == 1 else wording
