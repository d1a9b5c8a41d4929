"""Monthly page views of articles from the study's origin: the API, or the monthly dumps."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from longtail.errors import SourceError
from longtail.storage.fingerprints import code_version
from longtail.storage.lake import QuarantinedRow
from longtail.storage.lake_files import add_constants
from longtail.study.source import Popularity, Source
from longtail.study.study import Study
from longtail.wikimedia.dump_store import dump_identity, page_view_dump, user_page_view_dump
from longtail.wikimedia.dumps import page_views as dumped_page_views
from longtail.wikimedia.dumps.page_views import read_page_views
from longtail.wikimedia.protocols.page_views import fetch_page_views
from longtail.wikimedia.protocols.redirects import Resolved, resolve_titles
from longtail.wikimedia.services import Services, world, world_version

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
    if services.titles_url is None:
        raise SourceError(NO_VIEWS)
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
    if services.page_views_url is None:
        raise SourceError(NO_VIEWS)
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
    path = page_view_dump(study.source, study.home, services, month, log)
    read = read_page_views(path, titles, log)
    notes = {
        "dump_lines": read.n_lines,
        **read.rejected.notes(),
    }
    return MonthViews("dump", _add(articles, read.views), read.rejected.rows, notes)


def add_origin(titles: pa.Table, articles: Sequence[Resolved], popularity: Popularity) -> pa.Table:
    """The rows of titles with columns that say how their views are counted. There may be millions of rows."""
    is_asked, is_sum = popularity.redirects != "ignore", popularity.redirects == "sum"
    where = [one.title if is_asked and one.exists else None for one in articles]
    added = [len(one.counted) - 1 if is_sum else None for one in articles]
    rows = add_constants(titles, redirects=popularity.redirects, agent=popularity.agent)
    rows = rows.append_column("resolved_title", pa.array(where, pa.string()))
    return rows.append_column("n_redirects", pa.array(added, pa.int32()))


def add_views(titles: pa.Table, month: str, source: str, views: MonthViews) -> pa.Table:
    """The rows of titles with their views in a month."""
    rows = add_constants(titles, month=month, source=source, views_from=views.origin)
    return rows.append_column("views", pa.array(views.by_title, pa.int64()))


def page_views_slice(study: Study, month: str, n_articles: int) -> list[Any]:
    """What decides a month's page views of `n_articles` given articles, for any stage that fetches them."""
    source, popularity = study.source, study.popularity
    origin = views_origin(source, n_articles, popularity)
    unused = () if origin == "dump" else (dumped_page_views.__name__,)
    code = code_version(__name__, without=unused)
    counted = [popularity.redirects, popularity.agent, origin]
    decided: list[Any] = [source.kind, world(source), world_version(source), *counted, code]
    if origin == "dump":
        named = user_page_view_dump(source, month) if n_articles else None
        decided += [dump_identity(named)] if named else []
    return decided
