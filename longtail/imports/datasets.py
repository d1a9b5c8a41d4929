"""Imported datasets: their files, and their questions, wordings, facts, entities and popularity as rows of the lake.

A place in study.yaml is the user's own file, or one that is fetched once from its `url` into the home's cache. An entity
that the study's source knows too keeps the source's row. Files that name no entities bring none.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from longtail.errors import SourceError, StudyError
from longtail.imports.format import (
    SOURCE,
    ImportedDataset,
    ImportedEntity,
    ImportedParaphrases,
    Names,
    ParaphraseFormat,
    QuestionFormat,
    by_name,
)
from longtail.imports.records import file_hashes
from longtail.relations.relation import ALL, SUBJECT
from longtail.storage.checksums import CHANGED, differences
from longtail.storage.files import remove
from longtail.storage.fingerprints import code_version, fingerprint
from longtail.storage.lake import Computed, Lake, Outcome, QuarantinedRow
from longtail.study.backends import IMPORTED
from longtail.study.datasets import Dataset
from longtail.study.imports import PARAPHRASES, QUESTIONS, Import, Place, load_format, slice_of
from longtail.study.study import Study
from longtail.transfer.client import HttpClient
from longtail.transfer.downloads import download_file
from longtail.transfer.http import RetryPolicy

_LOG = logging.getLogger(__name__)
_POLICY = RetryPolicy(attempts=4)  # a user without a network learns in seconds which variable helps


def find_file(place: Place, study: Study) -> Path:
    """The absolute path of the file or folder. A file that only `url` names is downloaded at the first call.

    Errors: `SourceError` where nothing is there, the download fails, or its checksum differs (in one line).
    """
    if place.url is None or not place.is_fetched(study.path):
        return place.find(study.path)
    target = cache_path(place, study)
    if target.exists() and differences(target.parent).get(target.name) == CHANGED:
        _LOG.warning("%s %s: it is fetched again", target, CHANGED)
        remove(target.parent)
    if not target.exists():
        _LOG.info("fetching %s", place.url)
        try:
            with HttpClient(policy=_POLICY) as client:
                download_file(client, place.url, target, place.sha256, _LOG)
        except SourceError as error:
            hint = f"; or set {place.path_env} to a copy of your own" if place.path_env else ""
            raise SourceError(f"{error}{hint}") from None
        differences(target.parent)  # has no record yet
    return target


def cache_path(place: Place, study: Study) -> Path:
    """Where the file of `url` lies once it is fetched: all studies of the home share it."""
    name = PurePosixPath(unquote(urlsplit(place.url or "").path)).name or "file"
    return study.home.cache / "files" / fingerprint(place.url, place.sha256)[:16] / name


PARTITION = IMPORTED


def import_triples(study: Study, lake: Lake, log: logging.Logger) -> list[Outcome]:
    """Write partition `imported` of table triples, if a dataset is, or was, an import of facts."""

    def compute() -> Computed:
        known = _read_keys(lake, "triples", ("subject_id", "property_id", "object_id"))
        rows = [
            dict(zip(("subject_id", "property_id", "object_id", "relation"), fact, strict=True))
            | {"source": SOURCE}
            for fact in sorted(
                {fact for content in datasets_with_entities(study).values() for fact in content.facts}
            )
            if fact[:3] not in known
        ]
        if rows:
            log.info("triples: %d out of imported files", len(rows))
        return Computed(rows)

    return _materialise(study, lake, "triples", compute)


def import_entities(study: Study, lake: Lake, log: logging.Logger) -> list[Outcome]:
    """Write partition `imported` of table entities, if a dataset is, or was, an import of facts."""

    def compute() -> Computed:
        known = _read_keys(lake, "entities", ("entity_id",))
        rows = [
            _entity_row(entity) for entity, _ in _entities(study).values() if (entity.entity_id,) not in known
        ]
        log.info("entities: %d out of imported files", len(rows))
        return Computed(rows, notes={"without_article": sum(row["article_title"] is None for row in rows)})

    return _materialise(study, lake, "entities", compute)


def import_popularity(study: Study, lake: Lake, log: logging.Logger) -> Outcome:
    """Write table imported_popularity. If several datasets give a number for an entity, the first dataset's counts."""

    def compute() -> Computed:
        rows = [
            {"entity_id": entity.entity_id, "popularity": entity.popularity, "dataset": dataset}
            for entity, dataset in _entities(study).values()
        ]
        missing = sum(row["popularity"] is None for row in rows)
        log.info("imported popularity: %d entities, %d of them missing", len(rows), missing)
        return Computed(rows, notes={"entities": len(rows), "missing": missing})

    stamp = fingerprint("imported_popularity", entity_files_slice(study), code_version(__name__))
    return lake.materialise("imported_popularity", stamp, compute)


def read_questions(study: Study, dataset: Dataset, names: Names = lambda: ({}, {})) -> ImportedDataset:
    """The content of a dataset's files; `names` gives entities to link subjects to. Errors: `SourceError`.

    Files that name their entities are read once a process.
    """
    declared = dataset.imported
    if declared is None:
        raise StudyError(f"{study.path}: dataset {dataset.name} declares no file to import")
    place, format_ = find_file(declared.place, study), format_of(declared)
    if not format_.names_entities:
        return format_.read(place, declared, dataset, names)
    files = [(str(file), file.stat()) for file in format_.files(place, declared)]
    versions = tuple((name, stat.st_mtime_ns, stat.st_size) for name, stat in files)
    # Datasets of one file share what is read of it, unless ids are made from their names.
    asked = Dataset(dataset.name if format_.invents_ids else "", dataset.relations)
    return _read_once(format_, place, declared, asked, versions)


def datasets_with_entities(study: Study) -> Mapping[str, ImportedDataset]:
    """Dataset → the content of its files, for those whose files name entities. Errors: `SourceError`."""
    return {d.name: read_questions(study, d) for d in study.datasets_of_files if _brings_facts(d)}


@functools.lru_cache(maxsize=64)
def _read_once(
    format_: QuestionFormat,
    place: Path,
    declared: Import,
    dataset: Dataset,
    _versions: tuple[tuple[str, int, int], ...],
) -> ImportedDataset:
    return format_.read(place, declared, dataset, lambda: ({}, {}))


def format_of(declared: Import) -> QuestionFormat:
    """The format of a dataset's questions."""
    format_: QuestionFormat = load_format(QUESTIONS, declared.format)
    return format_


def file_slice(study: Study, dataset: Dataset) -> list[Any]:
    """What decides the rows of a dataset's files: their bytes, and how they are read."""
    return [
        [slice_of(declared), file_hashes(_files_of(study, declared))]
        for declared in (dataset.imported, dataset.paraphrases)
        if declared is not None
    ]


def _files_of(study: Study, declared: Import) -> list[Path]:
    """The files that a declaration reads, and no other files of their folder."""
    files: list[Path] = load_format(declared.kind, declared.format).files(
        find_file(declared.place, study), declared
    )
    return files


def _materialise(study: Study, lake: Lake, table: str, compute: Callable[[], Computed]) -> list[Outcome]:
    files = entity_files_slice(study)
    if not files and PARTITION not in lake.partitions(table):
        return []
    stamp = fingerprint(table, files, lake.content(table), code_version(__name__))
    return [lake.materialise(table, stamp, compute, PARTITION)]


def entity_files_slice(study: Study) -> list[Any]:
    """What decides the content of files that name entities: their bytes, and how they are read."""
    return [[d.name, file_slice(study, d)] for d in study.datasets_of_files if _brings_facts(d)]


def _brings_facts(dataset: Dataset) -> bool:
    return dataset.imported is not None and format_of(dataset.imported).names_entities


def _entities(study: Study) -> dict[str, tuple[ImportedEntity, str]]:
    """Entity id → the entity and the first dataset that names it, sorted."""
    entities: dict[str, tuple[ImportedEntity, str]] = {}
    for name, dataset in datasets_with_entities(study).items():
        for entity_id, entity in dataset.entities.items():
            entities.setdefault(entity_id, (entity, name))
    return dict(sorted(entities.items()))


def _read_keys(lake: Lake, table: str, key: tuple[str, ...]) -> set[tuple[Any, ...]]:
    return {tuple(row[name] for name in key) for row in lake.read(table, columns=list(key)).to_pylist()}


def _entity_row(entity: ImportedEntity) -> dict[str, Any]:
    return {
        "entity_id": entity.entity_id,
        "label": entity.label,
        "aliases": list(entity.aliases),
        "description": None,
        "article_title": entity.article_title,
        "sitelinks": None,
        "source": SOURCE,
    }


def import_questions(study: Study, dataset: Dataset, lake: Lake, log: logging.Logger) -> ImportedDataset:
    """A dataset's questions from its file, also those of relations that the dataset does not ask about.

    Errors: `SourceError` where the file is missing, is no such file, or holds nothing that can be used.
    """
    content = link_questions(study, dataset, lake)
    if "linked_share" in content.notes:
        share = 100 * content.notes["linked_share"]
        log.info("%s: %.1f %% of the questions linked to an entity", dataset.name, share)
    for line in (*content.says, *_repeats(content.questions)):
        log.info("%s: %s", dataset.name, line)
    if content.rejected:
        n, reasons = len(content.rejected), content.notes["reasons"]
        log.warning("%s: put %d rows into quarantine: %s", dataset.name, n, reasons)
    return content


def _repeats(questions: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """A line, if questions about one subject, or about none, have the same text under several ids."""
    ids: dict[tuple[str | None, str], list[str]] = {}
    for question_id, question in questions.items():
        ids.setdefault((question["subject_id"], question["question"]), []).append(question_id)
    several = [same for same in ids.values() if len(same) > 1]
    if several:
        named = ", ".join(several[0][:5])
        yield (
            f"{len(several):,} questions stand under several ids, as {named}: each id is asked and counted, and intervals"
            " take them as one subject"
        )


def select_questions(
    questions: Iterable[Mapping[str, Any]],
) -> tuple[list[Mapping[str, Any]], list[QuarantinedRow]]:
    """The questions that can be asked, and those put aside: marts call all relations together `all`."""
    usable: list[Mapping[str, Any]] = []
    rejected: list[QuarantinedRow] = []
    for question in questions:
        relation = question["relation"]
        if relation in ("", ALL):
            reason = f"relation {relation!r}: a name other than that of all relations together was expected"
            rejected.append(QuarantinedRow(question["question_id"], reason, question["question"]))
        else:
            usable.append(question)
    return usable, rejected


def link_questions(study: Study, dataset: Dataset, lake: Lake) -> ImportedDataset:
    """The content of a dataset's files; subjects that they only name are linked to the lake's entities, but for those
    of tables, which have ids of their own. Among several of a name, the popularity in files decides; without, site links.

    Errors: `SourceError`.
    """

    def names() -> tuple[dict[str, set[str]], dict[str, float]]:
        of_imports = [
            (entity_id, entity.popularity, format_of(other.imported).invents_ids)
            for other in study.datasets_of_files
            if other.imported is not None and format_of(other.imported).names_entities
            for entity_id, entity in read_questions(study, other).entities.items()
        ]
        invented = {entity_id for entity_id, _, is_invented in of_imports if is_invented}
        known = lake.read_all("entities", ["entity_id", "label", "aliases", "sitelinks"]).to_pylist()
        linkable = [entity for entity in known if entity["entity_id"] not in invented]
        of_files = {entity_id: number for entity_id, number, _ in of_imports if number is not None}
        of_source = {
            entity["entity_id"]: entity["sitelinks"] for entity in linkable if entity["sitelinks"] is not None
        }
        return by_name(linkable), of_files or of_source

    return read_questions(study, dataset, names)


def import_paraphrases(study: Study, dataset: Dataset, log: logging.Logger) -> ImportedParaphrases:
    """A dataset's wordings from its file of paraphrases. Errors: `SourceError`."""
    declared = dataset.paraphrases
    if declared is None:
        raise StudyError(f"{study.path}: dataset {dataset.name} declares no paraphrases to import")
    format_: ParaphraseFormat = load_format(PARAPHRASES, declared.format)
    questions = read_questions(study, dataset).questions
    paraphrases = format_.read(find_file(declared.place, study), questions)
    paraphrases.n_without = len(questions) - len(paraphrases.wordings)
    for line in paraphrases.says:
        log.info("%s: %s", dataset.name, line)
    if paraphrases.rejected:
        n, reasons = len(paraphrases.rejected), paraphrases.notes["reasons"]
        log.warning("%s: put %d wordings into quarantine: %s", dataset.name, n, reasons)
    return paraphrases


def wordings(question: Mapping[str, Any], imported: Mapping[int, str]) -> Iterator[tuple[int, str, str]]:
    """(number, template, wording) of a question: number 0 is the question itself, then come the imported ones."""
    for number, wording in sorted({**imported, 0: question["question"]}.items()):
        yield number, as_template(wording, question["subject"]), wording


def as_template(wording: str, subject: str | None) -> str:
    """The wording with [subj] for its subject. Without a subject that stands in it exactly once: the wording itself."""
    return wording.replace(subject, SUBJECT) if subject and wording.count(subject) == 1 else wording
