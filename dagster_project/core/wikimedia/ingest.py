"""The lake's facts: tables triples, entities and page_views, from a study's source.

What belongs here: which rows are fetched, and their way into the lake. What does not: how services are asked
(`wikidata`, `pageviews`), how facts become questions (`questions`), popularity (joined in dbt).
"""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from datetime import date
from functools import partial
from typing import Any

from dagster_project.core.errors import SourceError
from dagster_project.core.lake import Computed, Lake, Outcome, QuarantinedRow, code_version, fingerprint
from dagster_project.core.questions.relations import RELATIONS, Relation
from dagster_project.core.sandbox.world import WORLD_CODE
from dagster_project.core.study import Source, Study
from dagster_project.core.wikimedia.entities import Entity, fetch_entities
from dagster_project.core.wikimedia.pageviews import (
    FIRST_MONTH,
    fetch_page_views,
    newest_complete_month,
    newest_ended_month,
)
from dagster_project.core.wikimedia.rdf import rdf_path
from dagster_project.core.wikimedia.services import open_services
from dagster_project.core.wikimedia.wikidata import Statement, fetch_sitelinks, fetch_statements, sorted_ids

# The modules that decide which rows come out; a better retry must not fetch everything anew.
_ROWS = tuple(f"wikimedia/{name}" for name in ("ingest", "wikidata", "entities", "terms", "rdf"))


def ingest_triples(study: Study, lake: Lake, log: logging.Logger) -> Outcome:
    """Table triples: all truthy statements between items, of every relation that some dataset names.

    Errors: `SourceError` where the source is missing, fails, or has no statement of any of these relations.
    """
    relations = [
        relation for relation in RELATIONS if any(relation.name in d.relations for d in study.datasets)
    ]
    names = [relation.name for relation in relations]
    stamp = fingerprint("triples", _source_slice(study.source), names, _code(study.source))
    return lake.materialise("triples", stamp, lambda: _triples(study, relations, log))


def _triples(study: Study, relations: Sequence[Relation], log: logging.Logger) -> Computed:
    rows: list[dict[str, Any]] = []
    aside: list[QuarantinedRow] = []
    counts: dict[str, int] = {}
    with open_services(study.source, study.home) as services:
        for relation in relations:
            statements, put_aside = fetch_statements(services.client, services.sparql_url, relation, log)
            rows.extend(_triple(statement, relation, services.label) for statement in statements)
            aside.extend(put_aside)
            counts[relation.name] = len(statements)
        aside = [*services.broken_lines(), *aside]
    if not rows:
        raise SourceError(
            f"source {study.source.kind}: no statement of {', '.join(counts)}; nothing was written"
        )
    return Computed(rows, aside, {"triples": counts, **_quarantine_notes(aside)})


def _triple(statement: Statement, relation: Relation, source: str) -> dict[str, Any]:
    return {**asdict(statement), "relation": relation.name, "source": source}


def ingest_entities(study: Study, lake: Lake, log: logging.Logger) -> Outcome:
    """Table entities: every subject and object of table triples that has a label.

    Errors: `LakeError` without table triples; `SourceError` where the source fails.
    """
    stamp = fingerprint("entities", _source_slice(study.source), lake.content("triples"), _code(study.source))
    return lake.materialise("entities", stamp, lambda: _entities(study, lake, log))


def _entities(study: Study, lake: Lake, log: logging.Logger) -> Computed:
    triples = lake.read("triples", columns=["subject_id", "object_id"])
    ids = sorted_ids([*triples["subject_id"].to_pylist(), *triples["object_id"].to_pylist()])
    with open_services(study.source, study.home) as services:
        entities, aside = fetch_entities(services.client, services.entities_url, ids, log)
        sitelinks = fetch_sitelinks(services.client, services.sparql_url, ids, log)
        rows = [_entity(entity, sitelinks.get(entity.entity_id), services.label) for entity in entities]
    notes = {
        "entities": len(rows),
        "without_article": sum(row["article_title"] is None for row in rows),
        "without_sitelinks": sum(row["sitelinks"] is None for row in rows),
    }
    return Computed(rows, aside, notes | _quarantine_notes(aside))


def _entity(entity: Entity, sitelinks: int | None, source: str) -> dict[str, Any]:
    return {**asdict(entity), "aliases": list(entity.aliases), "sitelinks": sitelinks, "source": source}


def ingest_page_views(
    study: Study, lake: Lake, month: str, log: logging.Logger, today: date | None = None
) -> Outcome:
    """Table page_views, partition `month` (YYYY-MM): one row for each entity with an article.

    Errors: `SourceError` for a month that is not complete, a live month without any views, or a source without
    page views; `LakeError` without entities.
    """
    return ingest_page_view_months(study, lake, [month], log, today)[0]


def ingest_page_view_months(
    study: Study, lake: Lake, months: Sequence[str], log: logging.Logger, today: date | None = None
) -> list[Outcome]:
    """Several partitions of table page_views for the price of one: a request covers all its months."""
    _check_months(study, months, today or date.today())
    entities = lake.read("entities", columns=["entity_id", "article_title"]).to_pylist()
    asked = [entity for entity in entities if entity["article_title"] is not None]
    # Titles, not the whole table: a changed label or site link count must not fetch all views anew.
    code = code_version("wikimedia/pageviews", *_world_code(study.source))
    stamps = {
        month: fingerprint("page_views", month, study.source.kind, _world(study.source), asked, code)
        for month in months
    }
    stale = [month for month in months if not lake.current("page_views", stamps[month], month)]
    views = _page_views(study, asked, stale, log) if stale else {}
    return [
        lake.materialise("page_views", stamps[month], partial(views.__getitem__, month), month)
        for month in months
    ]


def _page_views(
    study: Study, entities: Sequence[dict[str, Any]], months: Sequence[str], log: logging.Logger
) -> dict[str, Computed]:
    titles = [entity["article_title"] for entity in entities]
    with open_services(study.source, study.home) as services:
        if services.pageviews_url is None:
            raise SourceError(_NO_VIEWS)
        by_title = (
            fetch_page_views(services.client, services.pageviews_url, titles, months, log) if titles else []
        )
    # A world has no delay in counting: there, a month without views is what the world holds.
    source = "wikimedia" if services.label == "wikidata" else services.label
    computed = {}
    for month in months:
        rows = [
            {**entity, "month": month, "views": views[month], "source": source}
            for entity, views in zip(entities, by_title, strict=True)
        ]
        notes = {"articles": len(rows), "missing": sum(row["views"] is None for row in rows)}
        if source == "wikimedia" and rows and notes["missing"] == len(rows):
            raise SourceError(
                f"page_views: the source has no views of any of {len(rows)} articles in {month}; nothing was "
                "written. It may not have counted that month yet: try again later, or ask for an earlier month"
            )
        computed[month] = Computed(rows, (), notes)
    return computed


_NO_VIEWS = "a study with an rdf_file has no page views; set popularity.measure to sitelinks"


def _check_months(study: Study, months: Sequence[str], today: date) -> None:
    if study.source.kind == "rdf_file":
        raise SourceError(_NO_VIEWS)
    newest = newest_complete_month(today)
    if study.source.kind == "sandbox":
        # The sandbox's time is its study's: a machine whose clock is behind must still be able to run it.
        newest = max(newest_ended_month(today), study.source.snapshot, study.popularity.last_month or "")
    for month in months:
        try:
            date.fromisoformat(f"{month}-01")
        except ValueError:
            raise SourceError(f"page_views: {month!r} is no month; give it as YYYY-MM") from None
        if not FIRST_MONTH <= month <= newest:
            raise SourceError(
                f"page_views: month {month} is refused; complete months here are {FIRST_MONTH} to {newest}"
            )


def _source_slice(source: Source) -> dict[str, Any]:
    """What of the source decides the rows: for a file its bytes, wherever it lies."""
    if source.kind == "rdf_file":
        with rdf_path(source).open("rb") as stream:
            return {"kind": source.kind, "sha256": hashlib.file_digest(stream, "sha256").hexdigest()}
    return {"kind": source.kind, "snapshot": source.snapshot, **_world(source)}


def _world(source: Source) -> dict[str, int]:
    if source.kind != "sandbox":
        return {}
    return {"seed": source.seed, "facts_per_relation": source.facts_per_relation}


def _code(source: Source) -> str:
    return code_version(*_ROWS, *_world_code(source))


def _world_code(source: Source) -> tuple[str, ...]:
    return WORLD_CODE if source.kind == "sandbox" else ()


def _quarantine_notes(aside: Sequence[QuarantinedRow]) -> dict[str, Any]:
    reasons = Counter(row.reason.split(":")[0] for row in aside)
    return {
        "quarantined": len(aside),
        **({"quarantined_reasons": dict(reasons.most_common(10))} if reasons else {}),
    }
