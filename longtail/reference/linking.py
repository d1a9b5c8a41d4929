"""Reference questions (NQ-open), the entities that they name, and how many questions text alone could link to one.

The questions are lake table reference_questions: `NQ-open.*.jsonl` has one object {question, answer} per line, and no
ids, so the number of a line identifies its question. Their entities are lake table reference_mentions, the counts lake
table entity_linking. Files that name their entities have no rows in the latter.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from longtail.errors import SourceError
from longtail.imports.datasets import entity_files_slice, file_slice, find_file, format_of, link_questions
from longtail.imports.format import LONGEST_QUESTION, LinkingCounts, by_name, reasons
from longtail.imports.lines import clean
from longtail.imports.records import RejectedRows, file_hashes, first_reason, read_json_lines
from longtail.parsing.dictionary import Dictionary, Mention
from longtail.reference.service import Annotation, link_by_service, row_key, service_name
from longtail.storage.fingerprints import code_version, fingerprint
from longtail.storage.lake import WHOLE, Computed, Lake, Outcome, QuarantinedRow
from longtail.study.study import Study
from longtail.transfer.client import HttpClient

TAGME, NAMES = "tagme", "names"
Entities = Sequence[Mapping[str, Any]]
ALL = "all"
_TEMPLATE = "template"
_ASIDE = f"reference_mentions|{WHOLE}"


def import_reference_questions(study: Study, lake: Lake, log: logging.Logger) -> Outcome:
    """Write table reference_questions: the questions of every file that the study names; empty without any.

    Errors: `SourceError` where a file is missing, has another format, or has no usable question.
    """
    places = {reference.name: find_file(reference.place, study) for reference in study.reference_questions}
    files = [[name, file_hashes([path])] for name, path in places.items()]

    def compute() -> Computed:
        rows: list[dict[str, Any]] = []
        rejected: list[QuarantinedRow] = []
        for name, path in places.items():
            questions, put_aside = read_nq_open(path)
            log.info("%s: %d reference questions, rejected: %d", name, len(questions), len(put_aside))
            rows += [{"dataset": name, **row} for row in questions]
            rejected += put_aside
        return Computed(rows, rejected, {"reasons": reasons(rejected)} if rejected else {})

    stamp = fingerprint("reference_questions", files, code_version(__name__))
    return lake.materialise("reference_questions", stamp, compute)


def read_nq_open(path: Path) -> tuple[list[dict[str, Any]], list[QuarantinedRow]]:
    """The questions of a file, and the lines put aside: broken lines, and lines that repeat an earlier question.

    Errors: `SourceError` where the file has no JSON lines, or none of its lines can be used.
    """
    if path.is_dir():
        raise SourceError(f"{path}: is a folder; name one file, as in NQ-open.dev.jsonl")
    rejected = RejectedRows(path.name)
    rows: list[dict[str, Any]] = []
    line_of: dict[str, int] = {}
    for number, item in read_json_lines(path, rejected):
        fault = _fault(item)
        question = "" if fault else clean(item["question"], LONGEST_QUESTION)
        if not fault and question in line_of:
            fault = f"repeated question: line {line_of[question]} has it already and is kept"
        if fault:
            rejected.put(number, fault, item)
            continue
        line_of[question] = number
        golds = list(dict.fromkeys(text for answer in item["answer"] if (text := clean(answer))))
        rows.append({"question_id": str(number), "question": question, "gold_answers": golds})
    if not rows:
        raise SourceError(f"{path}: holds no question that can be used{first_reason(rejected.rows)}")
    return rows, rejected.rows


def _fault(item: Mapping[str, Any]) -> str | None:
    question, answers = item.get("question"), item.get("answer")
    if not isinstance(question, str) or not clean(question, LONGEST_QUESTION):
        return "key question: a text was expected"
    if not isinstance(answers, list) or not all(isinstance(answer, str) for answer in answers):
        return "key answer: a list of texts was expected"
    return None


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
        if reference.tagme is None:
            mentions = list(by_names(questions, entities))
        else:
            answers, refused = link_by_service(study, reference.name, reference.tagme, questions, log, client)
            mentions = list(by_titles(answers, reference.tagme.min_rho, entities))
            rejected += refused
        rows += [{"dataset": reference.name, **row} for row in mentions]
        n_linked = len({row["question_id"] for row in mentions if row["entity_id"] or row["article_title"]})
        notes[reference.name] = {"questions": len(questions), "linked": n_linked, "mentions": len(mentions)}
        log.info(
            "%s: %d of %d reference questions linked to an entity", reference.name, n_linked, len(questions)
        )
    return Computed(rows, rejected, notes)


def by_names(questions: Mapping[str, str], entities: Entities) -> Iterator[dict[str, Any]]:
    """Mentions that are a label or an alias. If several entities have the name, none is chosen (`n_candidates`)."""
    dictionary = Dictionary(by_name(entities))
    titles = {entity["entity_id"]: entity["article_title"] for entity in entities}
    for question_id, text in questions.items():
        for position, mention in enumerate(dictionary.mentions(text)):
            entity_id = mention.ids[0] if len(mention.ids) == 1 else None
            yield {
                **_mention_row(question_id, position, NAMES, mention),
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
                **_mention_row(question_id, position, TAGME, annotation),
                "n_candidates": 1,
                "entity_id": by_title.get(annotation.title),
                "article_title": annotation.title,
                "link_probability": annotation.link_probability,
                "rho": annotation.rho,
            }


def _mention_row(question_id: str, position: int, linker: str, place: Mention | Annotation) -> dict[str, Any]:
    names = {"question_id": question_id, "position": position, "linker": linker}
    return {**names, "start": place.start, "end": place.end, "spot": place.spot}


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
        rows = [
            _row(dataset.name, relation, _TEMPLATE, counts)
            for dataset in datasets
            for relation, counts in link_questions(study, dataset, lake).linking.items()
        ]
        rows += _of_references(study, lake)
        shares = {
            f"{row['dataset']}/{row['relation']}": f"{row['n_linked']} of {row['n_questions']}"
            for row in rows
        }
        if shares:
            log.info("entity linking: %s", ", ".join(f"{key} {share}" for key, share in shares.items()))
        return Computed(rows, notes=shares)

    return lake.materialise("entity_linking", stamp, compute)


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
