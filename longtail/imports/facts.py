"""Facts, entities and popularity of imported datasets, beside those of the study's source.

An entity that the source knows too keeps the source's row. Files that name no entities bring none.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from longtail.errors import StudyError
from longtail.imports.data_files import find_file
from longtail.imports.dataset import SOURCE, ImportedDataset, ImportedEntity
from longtail.imports.format import Names, QuestionFormat
from longtail.imports.records import file_hashes
from longtail.relations.relation import relation_set
from longtail.storage.fingerprints import code_version, fingerprint
from longtail.storage.lake import Computed, Lake, Outcome
from longtail.study.backends import IMPORTED
from longtail.study.datasets import Dataset, relation_set_of
from longtail.study.imports import QUESTIONS, Import, load_format, slice_of
from longtail.study.study import Study

PARTITION = IMPORTED


def import_triples(study: Study, lake: Lake, log: logging.Logger) -> list[Outcome]:
    """Write partition `imported` of table triples, if a dataset is, or was, an import of facts."""

    def compute() -> Computed:
        known = _known(lake, "triples", ("subject_id", "property_id", "object_id"))
        rows = [
            dict(zip(("subject_id", "property_id", "object_id", "relation"), fact, strict=True))
            | {"source": SOURCE}
            for fact in sorted(
                {fact for found in datasets_with_entities(study).values() for fact in found.facts}
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
        known = _known(lake, "entities", ("entity_id",))
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


@functools.lru_cache(maxsize=4)
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
    found: QuestionFormat = load_format(QUESTIONS, declared.format)
    return found


def file_slice(study: Study, dataset: Dataset) -> list[Any]:
    """What decides the rows of a dataset's files: their bytes, how they are read, and the relations of their set."""
    files = [
        [slice_of(declared), file_hashes(_files_of(study, declared))]
        for declared in (dataset.imported, dataset.paraphrases)
        if declared is not None
    ]
    set_name = relation_set_of(dataset.imported)
    return [*files, relation_set(set_name) if set_name else None]


def _files_of(study: Study, declared: Import) -> list[Path]:
    """The files that a declaration reads, and no other files of their folder."""
    found: list[Path] = load_format(declared.kind, declared.format).files(
        find_file(declared.place, study), declared
    )
    return found


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
    found: dict[str, tuple[ImportedEntity, str]] = {}
    for name, dataset in datasets_with_entities(study).items():
        for entity_id, entity in dataset.entities.items():
            found.setdefault(entity_id, (entity, name))
    return dict(sorted(found.items()))


def _known(lake: Lake, table: str, key: tuple[str, ...]) -> set[tuple[Any, ...]]:
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
