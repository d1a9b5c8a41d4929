"""Paraphrases of questions: templates filled with their subjects, or the wordings of imported files (SPEC §1).

What belongs here: lake table `paraphrases`. What does not: the templates (`paraphrases`), the questions (`build`),
reading files (`imports`), how close a wording is to its question (`embedding.paraphrases`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from dagster_project.core.fingerprints import code_version, fingerprint
from dagster_project.core.imports.questions import imported_paraphrases, wordings
from dagster_project.core.lake import Computed, Lake, Outcome
from dagster_project.core.questions.build import RELATION_ORDER, fill, imports_slice
from dagster_project.core.relations.paraphrases import PARAPHRASES
from dagster_project.core.relations.popqa import RELATIONS
from dagster_project.core.study.study import Study


def build_paraphrases(study: Study, lake: Lake, log: logging.Logger) -> Outcome:
    """Write lake table `paraphrases`: 0 is the question itself, then its relation's templates, filled.

    A dataset with imported paraphrases has those instead; one that is imported without any has our templates, where
    its relation is one of the sixteen.
    """
    stamp = fingerprint(
        lake.content("questions"),
        imports_slice(study, lake),
        code_version(__name__),
    )

    def compute() -> Computed:
        columns = ["dataset", "question_id", "relation", "subject", "question"]
        found = {d.name: imported_paraphrases(study, d, log) for d in study.datasets if d.paraphrases}
        imported = {dataset.name for dataset in study.datasets_of_files}
        rows = []
        for question in lake.read("questions", columns=columns).to_pylist():
            name = question["dataset"]
            if name in found:
                rows += _imported_wordings(question, found[name].wordings.get(question["question_id"], {}))
            else:
                rows += _paraphrases(question, is_imported=name in imported)
        log.info("paraphrases: %d", len(rows))
        aside = [row for paraphrases in found.values() for row in paraphrases.aside]
        return Computed(rows, aside, {name: paraphrases.notes for name, paraphrases in found.items()})

    return lake.materialise("paraphrases", stamp, compute)


def _imported_wordings(question: Mapping[str, Any], imported: Mapping[int, str]) -> list[dict[str, Any]]:
    return [
        {
            "dataset": question["dataset"],
            "question_id": question["question_id"],
            "paraphrase_id": number,
            "template": template,
            "paraphrase": wording,
        }
        for number, template, wording in wordings(question, imported)
    ]


def _paraphrases(question: Mapping[str, Any], *, is_imported: bool) -> list[dict[str, Any]]:
    relation = question["relation"]
    templates = PARAPHRASES.get(relation, ())
    if is_imported:
        own = {i: fill(template, question["subject"]) for i, template in enumerate(templates, 1)}
        return _imported_wordings(question, own)
    templates = (RELATIONS[RELATION_ORDER[relation]].template, *templates)
    return [
        {
            "dataset": question["dataset"],
            "question_id": question["question_id"],
            "paraphrase_id": number,
            "template": template,
            "paraphrase": fill(template, question["subject"]),
        }
        for number, template in enumerate(templates)
    ]
