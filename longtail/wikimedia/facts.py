"""A study's facts and entities from any origin: query service, entity API, or truthy dump."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import pyarrow as pa

from longtail.parsing.line_files import DumpFile, RejectedRows
from longtail.relations.relation import Relation
from longtail.storage.home import StudyHome
from longtail.storage.lake import QuarantinedRow
from longtail.study.source import Source
from longtail.wikimedia.dump_store import truthy_dump
from longtail.wikimedia.dumps.terms import EntityTerms, read_terms
from longtail.wikimedia.dumps.truthy import read_statements
from longtail.wikimedia.protocols.claims import fetch_claims, read_ids
from longtail.wikimedia.protocols.entities import (
    Entity,
    fetch_documents,
    fetch_entities,
    read_entity,
)
from longtail.wikimedia.protocols.wikidata import Statement, fetch_sitelinks, fetch_statements
from longtail.wikimedia.services import Services

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
    if source.facts_from == "entity_api":
        subjects = read_ids(source)
        found, facts.rejected, facts.notes = fetch_claims(
            services.client, services.entities_url, subjects, relations, log
        )
        by_property: dict[str, list[Statement]] = {relation.property_id: [] for relation in relations}
        for statement in found:
            by_property[statement.property_id].append(statement)
        facts.statements = {one.name: _table(by_property[one.property_id]) for one in relations}
    else:
        for relation in relations:
            found, rejected = fetch_statements(services.client, services.sparql_url, relation, log)
            facts.statements[relation.name] = _table(found)
            facts.rejected.extend(rejected)
    facts.rejected = [*services.broken_lines(), *facts.rejected]
    return facts


def _table(statements: Sequence[Statement]) -> pa.Table:
    ordered = sorted(statements)
    return pa.table(
        {name: pa.array([getattr(one, name) for one in ordered], pa.string()) for name in _COLUMNS}
    )


def _facts_of_dump(dump: DumpFile, relations: Sequence[Relation], log: logging.Logger) -> Facts:
    rejected = RejectedRows()
    found = read_statements(dump, [relation.property_id for relation in relations], rejected, log)
    tables = {relation.name: found.of(relation.property_id) for relation in relations}
    return Facts(tables, rejected.rows, {**rejected.notes(), **_read(dump)})


def _dump(source: Source, home: StudyHome, services: Services, log: logging.Logger) -> DumpFile:
    path = truthy_dump(source, home, services, log)
    return DumpFile(path, source.accept_cut_dumps, last_line_ends=b".")


def _read(dump: DumpFile) -> dict[str, Any]:
    return {"dump_lines": dump.n_lines, **({"dump_cut": dump.cut} if dump.cut else {})}


def read_entities(
    source: Source, home: StudyHome, services: Services, ids: Sequence[str], log: logging.Logger
) -> Entities:
    """The entities `ids` that exist and have a label. Errors: `SourceError`."""
    if source.facts_from == "truthy_dump":
        return _entities_of_dump(_dump(source, home, services, log), services, ids, log)
    entities, rejected, n_redirected = fetch_entities(services.client, services.entities_url, ids, log)
    sitelinks = fetch_sitelinks(services.client, services.sparql_url, ids, log)
    notes = {"redirected": n_redirected}
    return Entities(_entity_table((one, sitelinks.get(one.entity_id)) for one in entities), rejected, notes)


def _entity_table(entities: Iterable[tuple[Entity, int | None]]) -> pa.Table:
    """Entities and their numbers of site links as rows. Only some thousands are in memory as objects at a time."""
    left = iter(entities)
    parts = []
    while some := list(islice(left, _ENTITIES_AT_ONCE)):
        rows = [{**vars(one), "sitelinks": number} for one, number in some]
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
    unknown = [] if terms.lists_all else _untold(terms, ids)
    instead = dict(fetch_documents(client, url, [*redirected, *unknown], log))
    titles: dict[str, Any] = {}
    sitelinks: Mapping[str, int] = {}
    if not terms.has_sitelinks:
        known = [one for one in ids if one not in instead]
        for entity_id, document in fetch_documents(client, url, known, log, props="sitelinks"):
            titles[entity_id] = (document or {}).get("sitelinks")
        sitelinks = fetch_sitelinks(client, services.sparql_url, ids, log)
    put_aside = list(rejected.rows)

    def entities() -> Iterator[tuple[Entity, int | None]]:
        for entity_id, told in terms.of(ids):
            document = told.document if told else None
            if entity_id in instead:
                document = instead[entity_id]
            elif document and entity_id in titles:
                document["sitelinks"] = titles[entity_id]
            number = told.sitelinks if told and terms.has_sitelinks else sitelinks.get(entity_id)
            if entity := read_entity(entity_id, document, put_aside.append):
                yield entity, number

    table = _entity_table(entities())
    notes = {"redirected": len(redirected), "terms_put_aside": rejected.counts.total(), **_read(dump)}
    return Entities(table, put_aside, notes)


def _untold(terms: EntityTerms, ids: Sequence[str]) -> list[str]:
    told = terms.tells_of(ids)
    return [one for one, is_told in zip(ids, told, strict=True) if not is_told and one not in terms.redirects]
