"""The lake's facts: tables triples and entities, from a study's source."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import pyarrow as pa

from longtail.errors import SourceError
from longtail.parsing.line_files import MOST_LINES, DumpFile, RejectedRows
from longtail.relations.relation import Relation, content_of
from longtail.storage.fingerprints import fingerprint
from longtail.storage.home import StudyHome
from longtail.storage.lake import Computed, Lake, Outcome, QuarantinedRow
from longtail.storage.lake_files import add_constants
from longtail.study.source import Source
from longtail.study.study import Study
from longtail.wikimedia.services import (
    Services,
    facts_code,
    find_truthy_dump,
    finish_stage,
    open_services,
    source_slice,
)
from longtail.wikimedia.truthy_dump import read_statements, read_terms
from longtail.wikimedia.wikibase import (
    Entity,
    fetch_documents,
    fetch_entities,
    fetch_sitelinks,
    fetch_statements,
    read_entity,
    sort_ids,
)

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
_Read = tuple[pa.Table, list[QuarantinedRow], dict[str, Any]]
"""Rows, what was put aside, and notes for people."""


def read_facts(
    source: Source, home: StudyHome, services: Services, relations: Sequence[Relation], log: logging.Logger
) -> _Read:
    """All truthy statements of `relations` between two items, distinct: columns subject_id, property_id, object_id,
    relation. Note `triples` counts them by relation. Errors: `SourceError`.
    """
    notes: dict[str, Any] = {}
    tables: dict[str, pa.Table] = {}
    if source.facts_from == "truthy_dump":
        dump, rejected = _open_dump(source, home, services, log), RejectedRows(most=MOST_LINES)
        statements = read_statements(dump, [relation.property_id for relation in relations], rejected, log)
        tables = {relation.name: statements.of(relation.property_id) for relation in relations}
        put_aside, notes = rejected.list_rows(), {**rejected.notes(), "dump_lines": dump.n_lines}
    else:
        put_aside = []
        for relation in relations:
            fetched, odd = fetch_statements(services.client, services.sparql_url, relation, log)
            columns = {name: [getattr(statement, name) for statement in fetched] for name in _COLUMNS}
            tables[relation.name] = pa.table(columns, pa.schema([(name, pa.string()) for name in _COLUMNS]))
            put_aside += odd
        put_aside = [*services.broken_lines(), *put_aside]
    counts = {name: table.num_rows for name, table in tables.items()}
    rows = pa.concat_tables(add_constants(table, relation=name) for name, table in tables.items())
    return rows, put_aside, {"triples": counts, **notes}


def _open_dump(source: Source, home: StudyHome, services: Services, log: logging.Logger) -> DumpFile:
    return DumpFile(find_truthy_dump(source, home, services, log), last_line_ends=b".")


def read_entities(
    source: Source, home: StudyHome, services: Services, ids: Sequence[str], log: logging.Logger
) -> _Read:
    """The entities `ids` that exist and have a label, in this order: columns entity_id, label, aliases, description,
    article_title, sitelinks (null: not known). Errors: `SourceError`.
    """
    if source.facts_from == "truthy_dump":
        return _entities_of_dump(_open_dump(source, home, services, log), services, ids, log)
    entities, rejected, n_redirected = fetch_entities(services.client, services.entities_url, ids, log)
    sitelinks = fetch_sitelinks(services.client, services.sparql_url, ids, log)
    table = _entity_table((entity, sitelinks.get(entity.entity_id)) for entity in entities)
    return table, rejected, {"redirected": n_redirected}


def _entity_table(entities: Iterable[tuple[Entity, int | None]]) -> pa.Table:
    """Entities and their numbers of site links as rows. Only some thousands are in memory as objects at a time."""
    left = iter(entities)
    parts = []
    while some := list(islice(left, _ENTITIES_AT_ONCE)):
        rows = [{**vars(entity), "sitelinks": number} for entity, number in some]
        parts.append(pa.RecordBatch.from_pylist(rows, schema=_ENTITY_COLUMNS))
    return pa.Table.from_batches(parts, schema=_ENTITY_COLUMNS)


def _entities_of_dump(dump: DumpFile, services: Services, ids: Sequence[str], log: logging.Logger) -> _Read:
    """Terms from the dump; articles and numbers of site links from the services if the dump has none."""
    rejected = RejectedRows(most=MOST_LINES)
    terms = read_terms(dump, ids, rejected, log)
    client, url = services.client, services.entities_url
    unread = [entity_id for entity_id in ids if entity_id in terms.redirects]
    n_redirected = len(unread)
    if not terms.lists_all:
        known = zip(ids, terms.have_lines(ids), strict=True)
        unread += [name for name, is_known in known if not is_known and name not in terms.redirects]
    instead = dict(fetch_documents(client, url, unread, log))
    titles: dict[str, Any] = {}
    sitelinks: Mapping[str, int] = {}
    if not terms.has_sitelinks:
        of_dump = [entity_id for entity_id in ids if entity_id not in instead]
        for entity_id, document in fetch_documents(client, url, of_dump, log, props="sitelinks"):
            titles[entity_id] = (document or {}).get("sitelinks")
        sitelinks = fetch_sitelinks(client, services.sparql_url, ids, log)
    put_aside = rejected.list_rows()

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
    notes = {"redirected": n_redirected, "terms_put_aside": rejected.n_rows, "dump_lines": dump.n_lines}
    return table, put_aside, notes


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


def triple_rows(facts: _Read, source: str, facts_from: str) -> Computed:
    """The rows of `triples`, of what `read_facts` gives. Errors: `SourceError` where there is no statement."""
    rows, rejected, notes = facts
    if not rows.num_rows:
        names = ", ".join(notes["triples"])
        raise SourceError(f"source {source}: no statement of {names}; nothing was written")
    rows = add_constants(rows, source=source, facts_from=facts_from)
    return Computed(rows, rejected, notes | _count_reasons(rejected))


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


def entity_rows(entities: _Read, source: str, facts_from: str) -> Computed:
    """The rows of `entities`, of what `read_entities` gives."""
    table, rejected, notes = entities
    rows = add_constants(table, source=source, facts_from=facts_from)
    counts = {
        "entities": rows.num_rows,
        "without_article": rows["article_title"].null_count,
        "without_sitelinks": rows["sitelinks"].null_count,
    }
    return Computed(rows, rejected, notes | counts | _count_reasons(rejected))


def _count_reasons(rejected: Sequence[QuarantinedRow]) -> dict[str, Any]:
    reasons = Counter(row.reason.split(":")[0] for row in rejected)
    return {"quarantined_reasons": dict(reasons.most_common(10))} if reasons else {}
