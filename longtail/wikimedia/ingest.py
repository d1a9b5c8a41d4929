"""The lake's facts: tables triples and entities, from a study's source."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import pyarrow as pa

from longtail.errors import SourceError
from longtail.parsing.line_files import DumpFile, RejectedRows
from longtail.relations.relation import Relation, content_of
from longtail.storage.fingerprints import fingerprint
from longtail.storage.home import StudyHome
from longtail.storage.lake import Computed, Lake, Outcome, QuarantinedRow
from longtail.storage.lake_files import add_constants
from longtail.study.source import Source
from longtail.study.study import Study
from longtail.wikimedia.dump_store import truthy_dump
from longtail.wikimedia.dumps.terms import EntityTerms, read_terms
from longtail.wikimedia.dumps.truthy import read_statements
from longtail.wikimedia.origins import facts_code, source_slice
from longtail.wikimedia.protocols.entities import (
    Entity,
    fetch_documents,
    fetch_entities,
    read_entity,
)
from longtail.wikimedia.protocols.wikidata import fetch_sitelinks, fetch_statements, sort_ids
from longtail.wikimedia.services import Services, finish_stage, open_services

_COLUMNS = ("subject_id", "property_id", "object_id")
_ENTITY_COLUMNS = pa.schema(
    {
        "entity_id": pa.string(),
        "label": pa.string(),
        "aliases": pa.list_(pa.string()),
        "description": pa.string(),
        "article_title": pa.string(),
        "sitelinks": pa.int64(),
    }
)
_ENTITIES_AT_ONCE = 20_000


@dataclass
class Facts:
    """Statements by relation name (columns subject_id, property_id, object_id), sorted and distinct."""

    statements: dict[str, pa.Table] = field(default_factory=dict)
    rejected: list[QuarantinedRow] = field(default_factory=list)
    notes: dict[str, Any] = field(default_factory=dict)


@dataclass
class Entities:
    """Entities in the order of the requested ids: columns entity_id, label, aliases, description, article_title,
    sitelinks (null: not known)."""

    table: pa.Table
    rejected: list[QuarantinedRow]
    notes: dict[str, Any] = field(default_factory=dict)


def read_facts(
    source: Source, home: StudyHome, services: Services, relations: Sequence[Relation], log: logging.Logger
) -> Facts:
    """All truthy statements of `relations` between two items. Errors: `SourceError`."""
    if source.facts_from == "truthy_dump":
        return _facts_of_dump(_dump(source, home, services, log), relations, log)
    facts = Facts()
    for relation in relations:
        statements, rejected = fetch_statements(services.client, services.sparql_url, relation, log)
        columns = {name: [getattr(statement, name) for statement in statements] for name in _COLUMNS}
        facts.statements[relation.name] = pa.table(
            columns, pa.schema([(name, pa.string()) for name in _COLUMNS])
        )
        facts.rejected.extend(rejected)
    facts.rejected = [*services.broken_lines(), *facts.rejected]
    return facts


def _facts_of_dump(dump: DumpFile, relations: Sequence[Relation], log: logging.Logger) -> Facts:
    rejected = RejectedRows()
    statements = read_statements(dump, [relation.property_id for relation in relations], rejected, log)
    tables = {relation.name: statements.of(relation.property_id) for relation in relations}
    return Facts(tables, rejected.rows, {**rejected.notes(), "dump_lines": dump.n_lines})


def _dump(source: Source, home: StudyHome, services: Services, log: logging.Logger) -> DumpFile:
    path = truthy_dump(source, home, services, log)
    return DumpFile(path, last_line_ends=b".")


def read_entities(
    source: Source, home: StudyHome, services: Services, ids: Sequence[str], log: logging.Logger
) -> Entities:
    """The entities `ids` that exist and have a label. Errors: `SourceError`."""
    if source.facts_from == "truthy_dump":
        return _entities_of_dump(_dump(source, home, services, log), services, ids, log)
    entities, rejected, n_redirected = fetch_entities(services.client, services.entities_url, ids, log)
    sitelinks = fetch_sitelinks(services.client, services.sparql_url, ids, log)
    notes = {"redirected": n_redirected}
    table = _entity_table((entity, sitelinks.get(entity.entity_id)) for entity in entities)
    return Entities(table, rejected, notes)


def _entity_table(entities: Iterable[tuple[Entity, int | None]]) -> pa.Table:
    """Entities and their numbers of site links as rows. Only some thousands are in memory as objects at a time."""
    left = iter(entities)
    parts = []
    while some := list(islice(left, _ENTITIES_AT_ONCE)):
        rows = [{**vars(entity), "sitelinks": number} for entity, number in some]
        parts.append(pa.RecordBatch.from_pylist(rows, schema=_ENTITY_COLUMNS))
    return pa.Table.from_batches(parts, schema=_ENTITY_COLUMNS)


def _entities_of_dump(
    dump: DumpFile, services: Services, ids: Sequence[str], log: logging.Logger
) -> Entities:
    """Terms from the dump; articles and numbers of site links from the services if the dump has none."""
    rejected = RejectedRows()
    terms = read_terms(dump, ids, rejected, log)
    client, url = services.client, services.entities_url
    redirected = [entity_id for entity_id in ids if entity_id in terms.redirects]
    unknown = [] if terms.lists_all else _list_missing(terms, ids)
    instead = dict(fetch_documents(client, url, [*redirected, *unknown], log))
    titles: dict[str, Any] = {}
    sitelinks: Mapping[str, int] = {}
    if not terms.has_sitelinks:
        known = [entity_id for entity_id in ids if entity_id not in instead]
        for entity_id, document in fetch_documents(client, url, known, log, props="sitelinks"):
            titles[entity_id] = (document or {}).get("sitelinks")
        sitelinks = fetch_sitelinks(client, services.sparql_url, ids, log)
    put_aside = list(rejected.rows)

    def entities() -> Iterator[tuple[Entity, int | None]]:
        for entity_id, dumped in terms.of(ids):
            document = dumped.document if dumped else None
            if entity_id in instead:
                document = instead[entity_id]
            elif document and entity_id in titles:
                document["sitelinks"] = titles[entity_id]
            number = dumped.sitelinks if dumped and terms.has_sitelinks else sitelinks.get(entity_id)
            if entity := read_entity(entity_id, document, put_aside.append):
                yield entity, number

    table = _entity_table(entities())
    notes = {
        "redirected": len(redirected),
        "terms_put_aside": rejected.counts.total(),
        "dump_lines": dump.n_lines,
    }
    return Entities(table, put_aside, notes)


def _list_missing(terms: EntityTerms, ids: Sequence[str]) -> list[str]:
    """The ids about which the dump has no line, and which it does not redirect."""
    known = zip(ids, terms.have_lines(ids), strict=True)
    return [entity_id for entity_id, is_known in known if not is_known and entity_id not in terms.redirects]


def ingest_triples(study: Study, lake: Lake, log: logging.Logger) -> Outcome:
    """Write table triples: all truthy statements between two items, of every relation in a dataset of the source.

    If all datasets are imported, the source is not used. Errors: `SourceError` where the source is missing, fails, or
    has no statement of these relations.
    """
    relations = study.relations_of_source
    if not relations:
        return lake.materialise(
            "triples", fingerprint("triples", "no dataset of the source"), lambda: Computed([])
        )
    source, home = study.source, study.home
    asked = content_of(relations, "name", "property_id")
    stamp = fingerprint("triples", source_slice(source), asked, facts_code(source, __name__))

    def compute() -> Computed:
        with open_services(source, home, stage=stamp) as services:
            facts = read_facts(source, home, services, relations, log)
        return triple_rows(facts, services.label, source.facts_from)

    outcome = lake.materialise("triples", stamp, compute)
    finish_stage(home, stamp)
    return outcome


def triple_rows(facts: Facts, source: str, facts_from: str) -> Computed:
    """The rows of `triples`. Errors: `SourceError` where there is no statement."""
    counts = {name: table.num_rows for name, table in facts.statements.items()}
    if not any(counts.values()):
        raise SourceError(f"source {source}: no statement of {', '.join(counts)}; nothing was written")
    parts = [
        add_constants(table, relation=name, source=source, facts_from=facts_from)
        for name, table in facts.statements.items()
    ]
    notes = {"triples": counts, **facts.notes, **_quarantine_notes(facts.rejected)}
    return Computed(pa.concat_tables(parts), facts.rejected, notes)


def ingest_entities(study: Study, lake: Lake, log: logging.Logger) -> Outcome:
    """Write table entities: every subject and object of table triples that has a label.

    Errors: `LakeError` without table triples; `SourceError` where the source fails.
    """
    if not study.datasets_of_source:
        stamp = fingerprint("entities", "no dataset of the source")
        return lake.materialise("entities", stamp, lambda: Computed([]))
    source, home = study.source, study.home
    stamp = fingerprint(
        "entities", source_slice(source), lake.content("triples"), facts_code(source, __name__)
    )

    def compute() -> Computed:
        triples = lake.read("triples", columns=["subject_id", "object_id"])
        ids = sort_ids([*triples["subject_id"].to_pylist(), *triples["object_id"].to_pylist()])
        with open_services(source, home, stage=stamp) as services:
            entities = read_entities(source, home, services, ids, log)
        return entity_rows(entities, services.label, source.facts_from)

    outcome = lake.materialise("entities", stamp, compute)
    finish_stage(home, stamp)
    return outcome


def entity_rows(entities: Entities, source: str, facts_from: str) -> Computed:
    """The rows of `entities`."""
    rows = add_constants(entities.table, source=source, facts_from=facts_from)
    notes = {
        **entities.notes,
        "entities": rows.num_rows,
        "without_article": rows["article_title"].null_count,
        "without_sitelinks": rows["sitelinks"].null_count,
    }
    return Computed(rows, entities.rejected, notes | _quarantine_notes(entities.rejected))


def _quarantine_notes(rejected: Sequence[QuarantinedRow]) -> dict[str, Any]:
    reasons = Counter(row.reason.split(":")[0] for row in rejected)
    return {
        "quarantined": len(rejected),
        **({"quarantined_reasons": dict(reasons.most_common(10))} if reasons else {}),
    }
