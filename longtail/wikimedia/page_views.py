"""Lake table page_views: the monthly page views of a study's entities."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from longtail.errors import SourceError
from longtail.storage.fingerprints import code_version, fingerprint
from longtail.storage.lake import Computed, Lake, Outcome
from longtail.study.source import FIRST_MONTH, NO_SOURCE, newest_complete_month, newest_past_month
from longtail.study.study import Study
from longtail.wikimedia import page_view_origins
from longtail.wikimedia.page_view_origins import (
    NO_VIEWS,
    add_origin,
    add_views,
    fetch_views,
    page_views_slice,
    resolve_articles,
)
from longtail.wikimedia.protocols.redirects import Resolved
from longtail.wikimedia.selected_facts import asked_entities
from longtail.wikimedia.services import finish_stage, open_services


def ingest_page_view_months(
    study: Study, lake: Lake, months: Sequence[str], log: logging.Logger, today: date | None = None
) -> list[Outcome]:
    """Write partitions of table page_views. Several months cost no more requests than one: a request covers all
    months.

    Each partition is one month (YYYY-MM), with one row per entity with an article. Errors: `SourceError` for an
    incomplete month, a live month without any views, or a source without page views; `LakeError` without entities.
    """
    check_months(study, months, today or datetime.now(UTC).date())
    if not lake.partitions("entities"):
        lake.read("entities")  # raises the error that names what is missing
    articles = _articles(study, lake)
    asked = articles.to_pylist()
    # Only titles, not the whole table: a changed label or site link count must not cause a new download of all views.
    code = code_version(__name__, without=[page_view_origins.__name__])
    stamps = {
        month: fingerprint("page_views", month, asked, page_views_slice(study, month, len(asked)), code)
        for month in months
    }
    return materialise_months(
        study,
        lake,
        "page_views",
        stamps,
        lambda stale, stage: _page_views(study, articles, stale, stage, log),
    )


def materialise_months(
    study: Study,
    lake: Lake,
    table: str,
    stamps: Mapping[str, str],
    fetch: Callable[[Sequence[str], str], Mapping[str, Computed]],
) -> list[Outcome]:
    """Keep the months whose fingerprint in `stamps` is current; fetch the others together, as one stage.

    `fetch` receives the stale months and the stage's fingerprint, and returns what it computed for each month.
    """
    stale = [month for month, stamp in stamps.items() if not lake.current(table, stamp, month)]
    stage = fingerprint(table, [stamps[month] for month in stale])
    computed = fetch(stale, stage) if stale else {}
    outcomes = [
        lake.materialise(table, stamp, partial(computed.__getitem__, month), month)
        for month, stamp in stamps.items()
    ]
    finish_stage(study.home, stage)
    return outcomes


def _articles(study: Study, lake: Lake) -> pa.Table:
    """Entities with an article that the study asks about; facts outside the sample need no page views."""
    entities = lake.read_all("entities", columns=["entity_id", "article_title"])
    asked = asked_entities(study, lake)
    wanted = pc.is_valid(entities["article_title"])
    if asked is not None:
        wanted = pc.and_(wanted, pc.is_in(entities["entity_id"], value_set=asked))
    return entities.filter(wanted)


def _page_views(
    study: Study, entities: pa.Table, months: Sequence[str], stage: str, log: logging.Logger
) -> dict[str, Computed]:
    named = entities.select(["entity_id", "article_title"])
    return fetch_months(study, "page_views", named, months, stage, log)


def fetch_months(
    study: Study, table: str, named: pa.Table, months: Sequence[str], stage: str, log: logging.Logger
) -> dict[str, Computed]:
    """For each month: the rows of `named` (which has `article_title`) with their views, and counts.

    Errors: `SourceError` where the source fails, or has no views at all in a month that has ended.
    """
    titles = named["article_title"].to_pylist()
    with open_services(study.source, study.home, stage=stage) as services:
        articles = resolve_articles(study, services, titles, log)
        found = fetch_views(study, services, articles, months, log)
        # The sandbox counts without delay: a month without views there is correct.
        source = "wikimedia" if services.label == "wikidata" else services.label
    counted = add_origin(named, articles, study.popularity)
    computed = {}
    for month in months:
        views = found[month]
        rows = add_views(counted, month, source, views)
        notes = {"articles": len(rows), "missing": rows["views"].null_count}
        notes |= {**_count_moves(titles, articles), **views.notes}
        if source == "wikimedia" and titles and notes["missing"] == len(rows):
            raise SourceError(
                f"{table}: the source has no views of any of {len(rows)} articles in {month}; nothing was "
                "written. It may not have counted that month yet: try again later, or ask for an earlier month"
            )
        computed[month] = Computed(rows, views.rejected, notes)
    return computed


def _count_moves(titles: Sequence[str], articles: Sequence[Resolved]) -> dict[str, int]:
    """Counts for people; only counts that exist."""
    counts = {
        "moved": sum(title != article.title for title, article in zip(titles, articles, strict=True)),
        "without_page": sum(not article.exists for article in articles),
        "redirects_added": sum(len(article.counted) - 1 for article in articles),
    }
    return {name: n for name, n in counts.items() if n}


def check_months(study: Study, months: Sequence[str], today: date) -> None:
    """Errors: `SourceError` for an incomplete month, and for a source without page views."""
    if study.source.kind == NO_SOURCE:
        raise SourceError("a study without a source has no page views; set popularity.measure to imported")
    if study.source.kind == "rdf_file":
        raise SourceError(NO_VIEWS)
    newest = newest_complete_month(today)
    if study.source.kind == "sandbox":
        # The sandbox's time is the study's: a machine with a slow clock must run it too.
        newest = max(newest_past_month(today), study.source.snapshot, study.popularity.last_month or "")
    for month in months:
        try:
            date.fromisoformat(f"{month}-01")
        except ValueError:
            raise SourceError(f"page_views: {month!r} is no month; give it as YYYY-MM") from None
        if not FIRST_MONTH <= month <= newest:
            raise SourceError(
                f"page_views: month {month} is refused; complete months here are {FIRST_MONTH} to {newest}"
            )
