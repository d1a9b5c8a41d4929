"""Entities that texts name: those in reference questions, and how many questions text alone could link to one.

The first are lake table reference_mentions, the counts lake table entity_linking. Files that name their entities have no
rows in the latter.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from longtail.imports.datasets import entity_files_slice, file_slice, format_of, link_questions
from longtail.imports.format import LinkingCounts, by_name
from longtail.parsing.dictionary import Dictionary
from longtail.reference.service import Annotation, link_by_service, row_key, service_name
from longtail.storage.fingerprints import code_version, fingerprint
from longtail.storage.lake import WHOLE, Computed, Lake, Outcome, QuarantinedRow
from longtail.study.datasets import Dataset
from longtail.study.imports import ReferenceQuestions
from longtail.study.study import Study
from longtail.transfer.client import HttpClient

TAGME, NAMES = "tagme", "names"

Entities = Sequence[Mapping[str, Any]]

ALL = "all"
_TEMPLATE = "template"
_ASIDE = f"reference_mentions|{WHOLE}"


def link_reference_questions(
    study: Study, lake: Lake, log: logging.Logger, client: HttpClient | None = None
) -> Outcome:
    """Write table reference_mentions: the entities that the questions of table reference_questions are linked to.

    Errors: `LakeError` without entities or reference_questions; `SourceError` where a service or its token is missing.
    """
    linkers = [
        [reference.name, reference.tagme and [service_name(study, reference.tagme), reference.tagme.min_rho]]
        for reference in study.reference_questions
    ]
    known = [lake.content("entities", part) for part in lake.partitions("entities")] if linkers else []
    stamp = fingerprint(
        "reference_mentions", linkers, lake.content("reference_questions"), known, code_version(__name__)
    )
    return lake.materialise("reference_mentions", stamp, lambda: _compute(study, lake, log, client))


def _compute(study: Study, lake: Lake, log: logging.Logger, client: HttpClient | None) -> Computed:
    rows: list[dict[str, Any]] = []
    rejected: list[QuarantinedRow] = []
    notes: dict[str, Any] = {}
    columns = ["entity_id", "label", "aliases", "article_title"]
    entities = lake.read_all("entities", columns).to_pylist() if study.reference_questions else []
    asked = lake.read("reference_questions", columns=["dataset", "question_id", "question"]).to_pylist()
    for reference in study.reference_questions:
        questions = {row["question_id"]: row["question"] for row in asked if row["dataset"] == reference.name}
        mentions, put_aside = _link(study, reference, questions, entities, log, client)
        rows += [{"dataset": reference.name, **row} for row in mentions]
        rejected += put_aside
        n_linked = len({row["question_id"] for row in mentions if row["entity_id"] or row["article_title"]})
        notes[reference.name] = {"questions": len(questions), "linked": n_linked, "mentions": len(mentions)}
        log.info(
            "%s: %d of %d reference questions linked to an entity", reference.name, n_linked, len(questions)
        )
    return Computed(rows, rejected, notes)


def _link(
    study: Study,
    reference: ReferenceQuestions,
    questions: Mapping[str, str],
    entities: Entities,
    log: logging.Logger,
    client: HttpClient | None,
) -> tuple[list[dict[str, Any]], list[QuarantinedRow]]:
    if reference.tagme is None:
        return list(by_names(questions, entities)), []
    answers, rejected = link_by_service(study, reference.name, reference.tagme, questions, log, client)
    return list(by_titles(answers, reference.tagme.min_rho, entities)), rejected


def by_names(questions: Mapping[str, str], entities: Entities) -> Iterator[dict[str, Any]]:
    """Mentions that are a label or an alias. If several entities have the name, none is chosen (`n_candidates`)."""
    dictionary = Dictionary(by_name(entities))
    titles = {entity["entity_id"]: entity["article_title"] for entity in entities}
    for question_id, text in questions.items():
        for position, mention in enumerate(dictionary.mentions(text)):
            entity_id = mention.ids[0] if len(mention.ids) == 1 else None
            yield {
                **_mention_row(question_id, position, NAMES, mention.start, mention.end, mention.spot),
                "n_candidates": len(mention.ids),
                "entity_id": entity_id,
                "article_title": titles.get(entity_id) if entity_id else None,
            }


def by_titles(
    answers: Mapping[str, Sequence[Annotation]], min_rho: float, entities: Entities
) -> Iterator[dict[str, Any]]:
    """Annotations with rho above `min_rho`, and the lake's entity for the article if there is one."""
    by_title: dict[str, str] = {}
    for entity in entities:
        if entity["article_title"]:
            by_title.setdefault(entity["article_title"], entity["entity_id"])
    for question_id, answer in answers.items():
        annotations = sorted((a for a in answer if a.rho > min_rho), key=dataclasses.astuple)
        for position, annotation in enumerate(annotations):
            yield {
                **_mention_row(
                    question_id, position, TAGME, annotation.start, annotation.end, annotation.spot
                ),
                "n_candidates": 1,
                "entity_id": by_title.get(annotation.title),
                "article_title": annotation.title,
                "link_probability": annotation.link_probability,
                "rho": annotation.rho,
            }


def _mention_row(
    question_id: str, position: int, linker: str, start: int, end: int, spot: str
) -> dict[str, Any]:
    return {
        "question_id": question_id,
        "position": position,
        "linker": linker,
        "start": start,
        "end": end,
        "spot": spot,
        "link_probability": None,
        "rho": None,
    }


def describe_linking(study: Study, lake: Lake, log: logging.Logger) -> Outcome:
    """Write table entity_linking. Errors: `LakeError` without entities, reference_questions or reference_mentions."""
    datasets = [d for d in study.datasets_of_files if d.imported and format_of(d.imported).links_subjects]
    files = [[d.name, d.relations, file_slice(study, d)] for d in datasets]
    entities = [lake.content("entities", part) for part in lake.partitions("entities")] if datasets else []
    references = [lake.content("reference_questions"), lake.content("reference_mentions")]
    rejected = lake.stamp("quarantine", _ASIDE)
    references += [rejected.content] if rejected else []
    linkers = [[reference.name, reference.tagme is not None] for reference in study.reference_questions]
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
    for reference in study.reference_questions:
        ids = [row["question_id"] for row in questions if row["dataset"] == reference.name]
        linked = [named.get((reference.name, question_id)) for question_id in ids]
        n_aside = sum(row_key(reference.name, question_id) in rejected for question_id in ids)
        counts = LinkingCounts(
            len(linked), linked.count(True), linked.count(None) - n_aside, linked.count(False), n_aside
        )
        yield _row(reference.name, ALL, TAGME if reference.tagme else NAMES, counts)


def _row(dataset: str, relation: str, linker: str, counts: LinkingCounts) -> dict[str, Any]:
    return {"dataset": dataset, "relation": relation, "linker": linker, **dataclasses.asdict(counts)}


def _share(row: dict[str, Any]) -> str:
    return f"{row['n_linked']} of {row['n_questions']}"
