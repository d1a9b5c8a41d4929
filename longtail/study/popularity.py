"""Key `popularity` of study.yaml: its measure and its window."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from longtail.study.backends import IMPORTED
from longtail.study.reader import Reader

REDIRECTS = ("ignore", "resolve", "sum")
AGENTS = ("user", "all")
MEASURES = ("page_views", "sitelinks", IMPORTED)


@dataclass(frozen=True)
class Popularity:
    """The measure and window of popularity: the mean of `n_months` months up to `last_month` (None: the latest).

    Measure `imported` is the one number per entity in an imported file, without a month. A measure of key `counts` is how
    often a question's subject stands in texts: it needs the subject's name alone, and no entity.

    Wikimedia counts page views of a redirect separately from its article's. `redirects`: `resolve` looks up where an
    article is now and takes the views there; `sum` adds those of all redirects to the article; `ignore` takes the
    title that the entity links to, even if the page has moved. `agent`: page views by people (`user`), or by `all` who
    visit, crawlers too, as the authors of PopQA counted them for October 2021.
    """

    measure: str = "page_views"
    n_months: int = 12
    last_month: str | None = None
    redirects: str = "resolve"
    agent: str = "user"


def read_popularity(read: Reader, counted: tuple[str, ...]) -> Popularity:
    """Key `popularity`; `counted`: the measures of key `counts`. Errors: `StudyError`."""
    read.only(*(f.name for f in dataclasses.fields(Popularity)))
    popularity = Popularity(
        measure=read.choice("measure", (*MEASURES, *counted), "page_views"),
        n_months=read.number("n_months", 12, 1, 240),
        last_month=read.optional("last_month", read.month),
        redirects=read.choice("redirects", REDIRECTS, Popularity.redirects),
        agent=read.choice("agent", AGENTS, Popularity.agent),
    )
    for key in ("redirects", "agent"):
        if key in read.raw and popularity.measure != "page_views":
            raise read.fail(key, "goes with measure: page_views")
    return popularity
