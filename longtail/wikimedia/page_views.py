"""Monthly page views, from the API or from the monthly dumps: lake tables page_views and reference_page_views.

The former has the study's entities, the latter the articles in reference questions that are no entity of the lake.
Missing is not zero.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from longtail.errors import SourceError
from longtail.storage.fingerprints import code_version, fingerprint
from longtail.storage.lake import Computed, Lake, Outcome, QuarantinedRow
from longtail.storage.lake_files import add_constants
from longtail.study.source import (
    FIRST_MONTH,
    NO_SOURCE,
    Popularity,
    Source,
    newest_complete_month,
    newest_past_month,
)
from longtail.study.study import Study
from longtail.wikimedia import page_view_dump
from longtail.wikimedia.articles import Resolved, fetch_page_views, resolve_titles
from longtail.wikimedia.page_view_dump import read_page_views
from longtail.wikimedia.selected_facts import asked_entities
from longtail.wikimedia.services import (
    Services,
    dump_identity,
    find_page_view_dump,
    finish_stage,
    open_services,
    user_page_view_dump,
    world,
    world_version,
)

MOST_BY_API = 20_000  # titles; for more titles, a month's dump costs Wikimedia less than the requests
# an estimate, with redirects; the true number is known only after the requests
TITLES_AN_ARTICLE = 4
NO_VIEWS = "a study with an rdf_file has no page views; set popularity.measure to sitelinks"


@dataclass(frozen=True)
class MonthViews:
    """Views of one month in the order of the articles; None = missing, which is not zero."""

    origin: str
    by_title: list[int | None]
    rejected: Sequence[QuarantinedRow] = ()
    notes: dict[str, Any] = field(default_factory=dict)


def views_origin(source: Source, n_articles: int, popularity: Popularity) -> str:
    """`api` or `dump`. With `redirects` set to `sum`, each article needs requests for several titles. The dumps have the
    views of users alone."""
    if source.views_from != "auto":
        return source.views_from
    if popularity.agent == "all":
        return "api"
    titles = n_articles * (TITLES_AN_ARTICLE if popularity.redirects == "sum" else 1)
    return "dump" if titles > MOST_BY_API else "api"


def resolve_articles(
    study: Study, services: Services, titles: Sequence[str], log: logging.Logger
) -> list[Resolved]:
    """Where the study's articles are now, as popularity.redirects demands. Errors: `SourceError`."""
    setting = study.popularity.redirects
    if setting == "ignore" or not titles:
        return [Resolved(title) for title in titles]
    distinct = list(dict.fromkeys(titles))
    found = resolve_titles(
        services.client, services.titles_url, distinct, log, with_redirects=setting == "sum"
    )
    by_title = dict(zip(distinct, found, strict=True))
    return [by_title[title] for title in titles]


def fetch_views(
    study: Study, services: Services, articles: Sequence[Resolved], months: Sequence[str], log: logging.Logger
) -> dict[str, MonthViews]:
    """Month → views of `articles`, summed over all titles of each. Errors: `SourceError`."""
    titles = list(dict.fromkeys(title for article in articles for title in article.counted))
    if views_origin(study.source, len(articles), study.popularity) == "dump":
        return {month: _of_dump(study, services, articles, titles, month, log) for month in months}
    rejected: list[QuarantinedRow] = []
    url = services.page_views_url
    agent = study.popularity.agent
    found = fetch_page_views(services.client, url, titles, months, log, rejected, agent) if titles else []
    by_title = dict(zip(titles, found, strict=True))
    return {
        month: MonthViews(
            "api", _add(articles, {title: views[month] for title, views in by_title.items()}), rejected
        )
        for month in months
    }


def _add(articles: Sequence[Resolved], views: Mapping[str, int | None]) -> list[int | None]:
    """The views of each article; missing only if none of its titles has any."""
    counts = ([n for title in article.counted if (n := views.get(title)) is not None] for article in articles)
    return [sum(known) if known else None for known in counts]


def _of_dump(
    study: Study,
    services: Services,
    articles: Sequence[Resolved],
    titles: Sequence[str],
    month: str,
    log: logging.Logger,
) -> MonthViews:
    path = find_page_view_dump(study.source, study.home, services, month, log)
    read = read_page_views(path, titles, log)
    notes = {"dump_lines": read.n_lines, **read.rejected.notes()}
    return MonthViews("dump", _add(articles, read.views), read.rejected.list_rows(), notes)


def page_views_slice(study: Study, month: str, n_articles: int) -> list[Any]:
    """What decides a month's page views of `n_articles` given articles, for any stage that fetches them."""
    source, popularity = study.source, study.popularity
    origin = views_origin(source, n_articles, popularity)
    unused = () if origin == "dump" else (page_view_dump.__name__,)
    code = code_version(__name__, without=unused)
    counted = [popularity.redirects, popularity.agent, origin]
    decided: list[Any] = [source.kind, world(source), world_version(source), *counted, code]
    if origin == "dump":
        named = user_page_view_dump(source, month) if n_articles else None
        decided += [dump_identity(named)] if named else []
    return decided


def ingest_page_view_months(
    study: Study, lake: Lake, months: Sequence[str], log: logging.Logger, today: date | None = None
) -> list[Outcome]:
    """Write partitions of table page_views, each one month (YYYY-MM), with one row per entity with an article.

    Several months cost no more requests than one: a request covers all months. Without articles the partitions are
    empty, and no request is sent. Errors: `SourceError` for an incomplete month, a live month without any views, or a
    source without page views; `LakeError` without entities.
    """
    return _ingest(study, lake, "page_views", _articles, months, log, today)


def ingest_reference_page_views(
    study: Study, lake: Lake, months: Sequence[str], log: logging.Logger, today: date | None = None
) -> list[Outcome]:
    """Write partitions of table reference_page_views, with one row per article. Else as `ingest_page_view_months`."""
    return _ingest(study, lake, "reference_page_views", _reference_articles, months, log, today)


def _ingest(
    study: Study,
    lake: Lake,
    table: str,
    read_articles: Callable[[Study, Lake], pa.Table],
    months: Sequence[str],
    log: logging.Logger,
    today: date | None,
) -> list[Outcome]:
    """Keep the months whose fingerprint is current; fetch the others together, as one stage."""
    check_months(study, months, today or datetime.now(UTC).date())
    articles = read_articles(study, lake)
    # Only titles, not the whole table: a changed label or site link count must not cause a new download of all views.
    asked = articles.to_pylist()
    stamps = {
        month: fingerprint(table, month, asked, page_views_slice(study, month, len(asked)))
        for month in months
    }
    stale = [month for month, stamp in stamps.items() if not lake.current(table, stamp, month)]
    stage = fingerprint(table, [stamps[month] for month in stale])
    computed: Mapping[str, Computed] = {month: Computed([], notes={"articles": 0}) for month in stale}
    if asked and stale:
        computed = _fetch_months(study, table, articles, stale, stage, log)
    outcomes = [
        lake.materialise(table, stamp, partial(computed.__getitem__, month), month)
        for month, stamp in stamps.items()
    ]
    finish_stage(study.home, stage)
    return outcomes


def _reference_articles(study: Study, lake: Lake) -> pa.Table:
    """The titles that reference questions are linked to and that no entity of the lake has."""
    titles: list[str] = []
    if study.reference_questions:
        rows = lake.read("reference_mentions", columns=["entity_id", "article_title"]).to_pylist()
        titles = sorted(
            {row["article_title"] for row in rows if row["article_title"] and not row["entity_id"]}
        )
    return pa.table({"article_title": pa.array(titles, pa.string())})


def _articles(study: Study, lake: Lake) -> pa.Table:
    """Entities with an article that the study asks about; facts outside the sample need no page views."""
    if not lake.partitions("entities"):
        lake.read("entities")  # raises the error that names what is missing
    entities = lake.read_all("entities", columns=["entity_id", "article_title"])
    asked = asked_entities(study, lake)
    wanted = pc.is_valid(entities["article_title"])
    if asked is not None:
        wanted = pc.and_(wanted, pc.is_in(entities["entity_id"], value_set=asked))
    return entities.filter(wanted).select(["entity_id", "article_title"])


def _fetch_months(
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
    redirects = study.popularity.redirects
    resolved = [article.title if redirects != "ignore" and article.exists else None for article in articles]
    of_all = add_constants(named, redirects=redirects, agent=study.popularity.agent)
    of_all = of_all.append_column("resolved_title", pa.array(resolved, pa.string()))
    n_redirects = [len(article.counted) - 1 if redirects == "sum" else None for article in articles]
    of_all = of_all.append_column("n_redirects", pa.array(n_redirects, pa.int32()))
    moves = {
        "moved": sum(title != article.title for title, article in zip(titles, articles, strict=True)),
        "without_page": sum(not article.exists for article in articles),
        "redirects_added": sum(len(article.counted) - 1 for article in articles),
    }
    computed = {}
    for month in months:
        views = found[month]
        rows = add_constants(of_all, month=month, source=source, views_from=views.origin)
        rows = rows.append_column("views", pa.array(views.by_title, pa.int64()))
        notes = {"articles": len(rows), "missing": rows["views"].null_count}
        notes |= {**{name: n for name, n in moves.items() if n}, **views.notes}
        if source == "wikimedia" and titles and notes["missing"] == len(rows):
            raise SourceError(
                f"{table}: the source has no views of any of {len(rows)} articles in {month}; nothing was "
                "written. It may not have counted that month yet: try again later, or ask for an earlier month"
            )
        computed[month] = Computed(rows, views.rejected, notes)
    return computed


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
