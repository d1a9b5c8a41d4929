"""The lake's facts: tables triples, entities and page_views, from a study's source.

What belongs here: which rows are fetched, and their way into the lake. What does not: how services are asked
(`wikidata`, `pageviews`), how facts become questions (`questions`), popularity (joined in dbt).
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, date, datetime
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dagster_project.core.errors import SourceError
from dagster_project.core.lake import Computed, Lake, Outcome, QuarantinedRow, code_version, fingerprint
from dagster_project.core.questions.asked import asked_entities
from dagster_project.core.questions.relations import RELATIONS, Relation
from dagster_project.core.study import NO_SOURCE, Study
from dagster_project.core.wikimedia.facts import read_entities, read_facts
from dagster_project.core.wikimedia.origins import (
    DUMP_ROWS,
    facts_code,
    page_view_file,
    source_slice,
    world,
    world_code,
)
from dagster_project.core.wikimedia.pageviews import FIRST_MONTH, newest_complete_month, newest_ended_month
from dagster_project.core.wikimedia.redirects import Resolved
from dagster_project.core.wikimedia.services import finish_stage, open_services
from dagster_project.core.wikimedia.views import (
    NO_VIEWS,
    fetch_views,
    resolve_articles,
    views_origin,
    with_constants,
    with_views,
    with_where,
)
from dagster_project.core.wikimedia.wikidata import sorted_ids


def ingest_triples(study: Study, lake: Lake, log: logging.Logger) -> Outcome:
    """Table triples: all truthy statements between items, of every relation that some dataset of the source names.

    A study whose datasets are all imported asks the source for none. Errors: `SourceError` where the source is
    missing, fails, or has no statement of any of these relations.
    """
    relations = [
        relation
        for relation in RELATIONS
        if any(relation.name in dataset.relations for dataset in study.datasets_of_source)
    ]
    if not relations:
        return lake.materialise(
            "triples", fingerprint("triples", "no dataset of the source"), lambda: Computed([])
        )
    names = [relation.name for relation in relations]
    stamp = fingerprint("triples", source_slice(study.source), names, facts_code(study.source))
    outcome = lake.materialise("triples", stamp, lambda: _triples(study, relations, stamp, log))
    finish_stage(study.home, stamp)
    return outcome


def _triples(study: Study, relations: Sequence[Relation], stage: str, log: logging.Logger) -> Computed:
    origin = study.source.facts_from
    with open_services(study.source, study.home, stage=stage) as services:
        facts = read_facts(study, services, relations, log)
        parts = [
            with_constants(table, relation=name, source=services.label, facts_from=origin)
            for name, table in facts.statements.items()
        ]
    counts = {name: table.num_rows for name, table in facts.statements.items()}
    if not any(counts.values()):
        raise SourceError(
            f"source {study.source.kind}: no statement of {', '.join(counts)}; nothing was written"
        )
    notes = {"triples": counts, **facts.notes, **_quarantine_notes(facts.aside)}
    return Computed(pa.concat_tables(parts), facts.aside, notes)


def ingest_entities(study: Study, lake: Lake, log: logging.Logger) -> Outcome:
    """Table entities: every subject and object of table triples that has a label.

    Errors: `LakeError` without table triples; `SourceError` where the source fails.
    """
    if not study.datasets_of_source:
        stamp = fingerprint("entities", "no dataset of the source")
        return lake.materialise("entities", stamp, lambda: Computed([]))
    stamp = fingerprint(
        "entities", source_slice(study.source), lake.content("triples"), facts_code(study.source)
    )
    outcome = lake.materialise("entities", stamp, lambda: _entities(study, lake, stamp, log))
    finish_stage(study.home, stamp)
    return outcome


def _entities(study: Study, lake: Lake, stage: str, log: logging.Logger) -> Computed:
    triples = lake.read("triples", columns=["subject_id", "object_id"])
    ids = sorted_ids([*triples["subject_id"].to_pylist(), *triples["object_id"].to_pylist()])
    with open_services(study.source, study.home, stage=stage) as services:
        found = read_entities(study, services, ids, log)
        rows = with_constants(found.table, source=services.label, facts_from=study.source.facts_from)
    notes = {
        **found.notes,
        "entities": rows.num_rows,
        "without_article": rows["article_title"].null_count,
        "without_sitelinks": rows["sitelinks"].null_count,
    }
    return Computed(rows, found.aside, notes | _quarantine_notes(found.aside))


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
    check_months(study, months, today or datetime.now(UTC).date())
    if not lake.partitions("entities"):
        lake.read("entities")  # says what is missing
    articles = _articles(study, lake)
    asked = articles.to_pylist()
    # Titles, not the whole table: a changed label or site link count must not fetch all views anew.
    pages = ("sandbox/pages",) if study.source.kind == "sandbox" else ()
    code = code_version("wikimedia/pageviews", *world_code(study.source), *pages)
    redirects = study.popularity.redirects
    origin = views_origin(study.source, len(asked), redirects)
    # The API's fingerprints are those of a time before dumps: what was fetched then stays.
    more = [origin, code_version(*DUMP_ROWS), study.source.accept_cut_dumps] if origin == "dump" else []
    # So are those of a time before redirects were looked at.
    more += [redirects, code_version("wikimedia/redirects")] if redirects != "ignore" else []
    common = (study.source.kind, world(study.source), asked, code, *more)
    files = {month: page_view_file(study.source, month, origin) for month in months}
    stamps = {month: fingerprint("page_views", month, *common, *files[month]) for month in months}
    stale = [month for month in months if not lake.current("page_views", stamps[month], month)]
    stage = fingerprint("page_views", [stamps[month] for month in stale])
    views = _page_views(study, articles, stale, stage, log) if stale else {}
    outcomes = [
        lake.materialise("page_views", stamps[month], partial(views.__getitem__, month), month)
        for month in months
    ]
    finish_stage(study.home, stage)
    return outcomes


def _articles(study: Study, lake: Lake) -> pa.Table:
    """Entities with an article, as far as the study asks about them: what a sample of facts leaves out is not fetched."""
    entities = lake.read_all("entities", columns=["entity_id", "article_title"])
    asked = asked_entities(study, lake)
    wanted = pc.is_valid(entities["article_title"])
    if asked is not None:
        wanted = pc.and_(wanted, pc.is_in(entities["entity_id"], value_set=asked))
    return entities.filter(wanted)


def _page_views(
    study: Study, entities: pa.Table, months: Sequence[str], stage: str, log: logging.Logger
) -> dict[str, Computed]:
    titles = entities["article_title"].to_pylist()
    with open_services(study.source, study.home, stage=stage) as services:
        articles = resolve_articles(study, services, titles, log)
        found = fetch_views(study, services, articles, months, log)
        # A world has no delay in counting: there, a month without views is what the world holds.
        source = "wikimedia" if services.label == "wikidata" else services.label
    computed = {}
    counted = with_where(
        entities.select(["entity_id", "article_title"]), articles, study.popularity.redirects
    )
    for month in months:
        views = found[month]
        rows = with_views(counted, month, source, views)
        notes = {"articles": len(rows), "missing": rows["views"].null_count}
        notes |= {**_moved(titles, articles), **views.notes}
        if source == "wikimedia" and titles and notes["missing"] == len(rows):
            raise SourceError(
                f"page_views: the source has no views of any of {len(rows)} articles in {month}; nothing was "
                "written. It may not have counted that month yet: try again later, or ask for an earlier month"
            )
        computed[month] = Computed(rows, views.aside, notes)
    return computed


def _moved(titles: Sequence[str], articles: Sequence[Resolved]) -> dict[str, int]:
    """Counts for people, of what there is to count."""
    counts = {
        "moved": sum(title != article.title for title, article in zip(titles, articles, strict=True)),
        "without_page": sum(not article.exists for article in articles),
        "redirects_added": sum(len(article.counted) - 1 for article in articles),
    }
    return {name: n for name, n in counts.items() if n}


def check_months(study: Study, months: Sequence[str], today: date) -> None:
    """Errors: `SourceError` for a month that is not complete, and for a source without page views."""
    if study.source.kind == NO_SOURCE:
        raise SourceError("a study without a source has no page views; set popularity.measure to imported")
    if study.source.kind == "rdf_file":
        raise SourceError(NO_VIEWS)
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


def _quarantine_notes(aside: Sequence[QuarantinedRow]) -> dict[str, Any]:
    reasons = Counter(row.reason.split(":")[0] for row in aside)
    return {
        "quarantined": len(aside),
        **({"quarantined_reasons": dict(reasons.most_common(10))} if reasons else {}),
    }
