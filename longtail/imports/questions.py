"""Questions and wordings of imported datasets, as rows of lake tables questions and paraphrases."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from longtail.errors import StudyError
from longtail.imports.data_files import find_file
from longtail.imports.dataset import ImportedDataset, ImportedParaphrases, by_name
from longtail.imports.facts import format_of, read_questions
from longtail.imports.format import ParaphraseFormat
from longtail.relations.relation import ALL, SUBJECT
from longtail.storage.lake import Lake, QuarantinedRow
from longtail.study.datasets import Dataset
from longtail.study.imports import PARAPHRASES, load_format
from longtail.study.study import Study


def imported_questions(study: Study, dataset: Dataset, lake: Lake, log: logging.Logger) -> ImportedDataset:
    """A dataset's questions from its file, also those of relations that the dataset does not ask about.

    Errors: `SourceError` where the file is missing, is no such file, or holds nothing that can be used.
    """
    found = linked_questions(study, dataset, lake)
    if "linked_share" in found.notes:
        share = 100 * found.notes["linked_share"]
        log.info("%s: %.1f %% of the questions linked to an entity", dataset.name, share)
    for line in found.says:
        log.info("%s: %s", dataset.name, line)
    if found.rejected:
        log.warning(
            "%s: %d rows rejected, see quarantine: %s",
            dataset.name,
            len(found.rejected),
            found.notes["reasons"],
        )
    return found


def kept_questions(
    questions: Iterable[Mapping[str, Any]],
) -> tuple[list[Mapping[str, Any]], list[QuarantinedRow]]:
    """The questions that can be asked, and those put aside: marts call all relations together `all`."""
    kept: list[Mapping[str, Any]] = []
    rejected: list[QuarantinedRow] = []
    for question in questions:
        relation = question["relation"]
        if relation in ("", ALL):
            reason = f"relation {relation!r}: a name other than that of all relations together was expected"
            rejected.append(QuarantinedRow(question["question_id"], reason, question["question"]))
        else:
            kept.append(question)
    return kept, rejected


def linked_questions(study: Study, dataset: Dataset, lake: Lake) -> ImportedDataset:
    """The content of a dataset's files; subjects that they only name are linked to the lake's entities, but for those
    of tables, which have ids of their own. Among several of a name, the popularity in files decides; without, site links.

    Errors: `SourceError`.
    """

    def names() -> tuple[dict[str, set[str]], dict[str, float]]:
        own = [
            (entity_id, entity.popularity, format_of(other.imported).invents_ids)
            for other in study.datasets_of_files
            if other.imported is not None and format_of(other.imported).names_entities
            for entity_id, entity in read_questions(study, other).entities.items()
        ]
        invented = {entity_id for entity_id, _, is_invented in own if is_invented}
        known = lake.read_all("entities", ["entity_id", "label", "aliases", "sitelinks"]).to_pylist()
        linkable = [entity for entity in known if entity["entity_id"] not in invented]
        of_files = {entity_id: number for entity_id, number, _ in own if number is not None}
        of_source = {one["entity_id"]: one["sitelinks"] for one in linkable if one["sitelinks"] is not None}
        return by_name(linkable), of_files or of_source

    return read_questions(study, dataset, names)


def imported_paraphrases(study: Study, dataset: Dataset, log: logging.Logger) -> ImportedParaphrases:
    """A dataset's wordings from its file of paraphrases. Errors: `SourceError`."""
    declared = dataset.paraphrases
    if declared is None:
        raise StudyError(f"{study.path}: dataset {dataset.name} declares no paraphrases to import")
    format_: ParaphraseFormat = load_format(PARAPHRASES, declared.format)
    found = format_.read(find_file(declared.place, study), read_questions(study, dataset).questions)
    for line in found.says:
        log.info("%s: %s", dataset.name, line)
    if found.rejected:
        reasons = found.notes["paraphrase_reasons"]
        log.warning(
            "%s: %d wordings rejected, see quarantine: %s", dataset.name, len(found.rejected), reasons
        )
    return found


def wordings(question: Mapping[str, Any], imported: Mapping[int, str]) -> Iterator[tuple[int, str, str]]:
    """(number, template, wording) of a question: number 0 is the question itself, then come the imported ones."""
    for number, wording in sorted({**imported, 0: question["question"]}.items()):
        yield number, as_template(wording, question["subject"]), wording


def as_template(wording: str, subject: str | None) -> str:
    """The wording with [subj] for its subject. Without a subject that stands in it exactly once: the wording itself."""
    return wording.replace(subject, SUBJECT) if subject and wording.count(subject) == 1 else wording
