"""The entities in reference questions: lake table reference_mentions."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from longtail.imports.dataset import by_name
from longtail.parsing.dictionary import Dictionary
from longtail.reference.service import Annotation, link_by_service, service_name
from longtail.storage.fingerprints import code_version, fingerprint
from longtail.storage.lake import Computed, Lake, Outcome, QuarantinedRow
from longtail.study.reference_questions import ReferenceQuestions
from longtail.study.study import Study
from longtail.transfer.client import HttpClient

TAGME, NAMES = "tagme", "names"

Entities = Sequence[Mapping[str, Any]]


def link_reference_questions(
    study: Study, lake: Lake, log: logging.Logger, client: HttpClient | None = None
) -> Outcome:
    """Write table reference_mentions: the entities that the questions of table reference_questions are linked to.

    Errors: `LakeError` without entities or reference_questions; `SourceError` where a service or its token is missing.
    """
    linkers = [
        [one.name, one.tagme and [service_name(study, one.tagme), one.tagme.min_rho]]
        for one in study.reference_questions
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
    for one in study.reference_questions:
        questions = {row["question_id"]: row["question"] for row in asked if row["dataset"] == one.name}
        found, put_aside = _link(study, one, questions, entities, log, client)
        rows += [{"dataset": one.name, **row} for row in found]
        rejected += put_aside
        n_linked = len({row["question_id"] for row in found if row["entity_id"] or row["article_title"]})
        notes[one.name] = {"questions": len(questions), "linked": n_linked, "mentions": len(found)}
        log.info("%s: %d of %d reference questions linked to an entity", one.name, n_linked, len(questions))
    return Computed(rows, rejected, notes)


def _link(
    study: Study,
    one: ReferenceQuestions,
    questions: Mapping[str, str],
    entities: Entities,
    log: logging.Logger,
    client: HttpClient | None,
) -> tuple[list[dict[str, Any]], list[QuarantinedRow]]:
    if one.tagme is None:
        return list(by_names(questions, entities)), []
    answers, rejected = link_by_service(study, one.name, one.tagme, questions, log, client)
    return list(by_titles(answers, one.tagme.min_rho, entities)), rejected


def by_names(questions: Mapping[str, str], entities: Entities) -> Iterator[dict[str, Any]]:
    """Mentions that are a label or an alias. If several entities have the name, none is chosen (`n_candidates`)."""
    dictionary = Dictionary(by_name(entities))
    titles = {entity["entity_id"]: entity["article_title"] for entity in entities}
    for question_id, text in questions.items():
        for position, mention in enumerate(dictionary.mentions(text)):
            entity_id = mention.ids[0] if len(mention.ids) == 1 else None
            yield {
                **_row(question_id, position, NAMES, mention.start, mention.end, mention.spot),
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
        kept = sorted((a for a in answer if a.rho > min_rho), key=dataclasses.astuple)
        for position, one in enumerate(kept):
            yield {
                **_row(question_id, position, TAGME, one.start, one.end, one.spot),
                "n_candidates": 1,
                "entity_id": by_title.get(one.title),
                "article_title": one.title,
                "link_probability": one.link_probability,
                "rho": one.rho,
            }


def _row(question_id: str, position: int, linker: str, start: int, end: int, spot: str) -> dict[str, Any]:
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
