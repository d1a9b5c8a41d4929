"""How many questions text alone could link to an entity: lake table entity_linking.

Files that name their entities have no rows here.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator
from typing import Any

from longtail.imports.datasets import entity_files_slice, file_slice, format_of, link_questions
from longtail.imports.format import LinkingCounts
from longtail.reference.mentions import NAMES, TAGME
from longtail.reference.service import row_key
from longtail.storage.fingerprints import code_version, fingerprint
from longtail.storage.lake import WHOLE, Computed, Lake, Outcome
from longtail.study.datasets import Dataset
from longtail.study.study import Study

ALL = "all"
_TEMPLATE = "template"
_ASIDE = f"reference_mentions|{WHOLE}"


def describe_linking(study: Study, lake: Lake, log: logging.Logger) -> Outcome:
    """Write table entity_linking. Errors: `LakeError` without entities, reference_questions or reference_mentions."""
    datasets = [d for d in study.datasets_of_files if d.imported and format_of(d.imported).links_subjects]
    files = [[d.name, d.relations, file_slice(study, d)] for d in datasets]
    entities = [lake.content("entities", part) for part in lake.partitions("entities")] if datasets else []
    references = [lake.content("reference_questions"), lake.content("reference_mentions")]
    rejected = lake.stamp("quarantine", _ASIDE)
    references += [rejected.content] if rejected else []
    linkers = [[one.name, one.tagme is not None] for one in study.reference_questions]
    files += entity_files_slice(study) if datasets else []
    stamp = fingerprint("entity_linking", files, entities, references, linkers, code_version(__name__))

    def compute() -> Computed:
        rows = [row for dataset in datasets for row in _of_dataset(study, dataset, lake)]
        rows += _of_references(study, lake)
        shares = {f"{row['dataset']}/{row['relation']}": _share(row) for row in rows}
        if shares:
            log.info("entity linking: %s", ", ".join(f"{key} {share}" for key, share in shares.items()))
        return Computed(rows, notes=shares)

    return lake.materialise("entity_linking", stamp, compute)


def _of_dataset(study: Study, dataset: Dataset, lake: Lake) -> Iterator[dict[str, Any]]:
    for relation, counts in link_questions(study, dataset, lake).linking.items():
        yield _row(dataset.name, relation, _TEMPLATE, counts)


def _of_references(study: Study, lake: Lake) -> Iterator[dict[str, Any]]:
    questions = lake.read("reference_questions", columns=["dataset", "question_id"]).to_pylist()
    columns = ["dataset", "question_id", "entity_id", "article_title"]
    named: dict[tuple[str, str], bool] = {}
    for row in lake.read("reference_mentions", columns=columns).to_pylist():
        key = row["dataset"], row["question_id"]
        named[key] = named.get(key, False) or bool(row["entity_id"] or row["article_title"])
    is_aside = _ASIDE in lake.partitions("quarantine")
    rejected = set(lake.read("quarantine", _ASIDE)["row_key"].to_pylist()) if is_aside else set()
    for one in study.reference_questions:
        ids = [row["question_id"] for row in questions if row["dataset"] == one.name]
        found = [named.get((one.name, question_id)) for question_id in ids]
        n_aside = sum(row_key(one.name, question_id) in rejected for question_id in ids)
        counts = LinkingCounts(
            len(found), found.count(True), found.count(None) - n_aside, found.count(False), n_aside
        )
        yield _row(one.name, ALL, TAGME if one.tagme else NAMES, counts)


def _row(dataset: str, relation: str, linker: str, counts: LinkingCounts) -> dict[str, Any]:
    return {"dataset": dataset, "relation": relation, "linker": linker, **dataclasses.asdict(counts)}


def _share(row: dict[str, Any]) -> str:
    return f"{row['n_linked']} of {row['n_questions']}"
