"""Where facts, page views and texts come from, and how popularity is measured: keys `source` and `popularity`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field

from longtail.study.backends import IMPORTED
from longtail.study.imports import Counts, Place
from longtail.study.parts import Part
from longtail.study.values import (
    Default,
    Month,
    Reading,
    Text,
    Variable,
    fail,
    need_mapping,
    one_of,
    refuse_unknown,
    whole,
)

if TYPE_CHECKING:
    from longtail.study.study import Study

SOURCE_KINDS = ("sandbox", "wikidata", "rdf_file")
FACT_ORIGINS = ("query_service", "truthy_dump")
VIEW_ORIGINS = ("auto", "api", "dump")
FREQUENCIES = ("popularity", "text")
MATCHES = ("whole_words", "anywhere")
NO_SOURCE = "none"
REDIRECTS = ("ignore", "resolve", "sum")
AGENTS = ("user", "all")
MEASURES = ("page_views", "sitelinks", IMPORTED)
FIRST_MONTH = "2015-07"  # Wikimedia's page views begin here
_COUNTING_DAYS = 2
_KEYS = {
    "sandbox": ("seed", "facts_per_relation", "views_from", "facts_from"),
    "wikidata": ("views_from", "facts_from"),
    "rdf_file": ("path_env", "facts_from"),
}
"""The keys that each kind of source has, beside those that all have."""


@dataclass(frozen=True)
class FactSample(Part):
    """Which of the source's facts are asked about: a sample weighted by frequency (SPEC §1; PopQA, appendix A).

    The frequency in a text is rescaled to 800 MB. The study's `seed` also seeds this draw.
    """

    frequency: Annotated[str, one_of(FREQUENCIES)]
    """`popularity`, or `text`: how often the subject's names occur in your text"""
    per_relation: Annotated[int, whole(1)] = 2_000
    """the most facts of a relation"""
    month: Annotated[Month | None, Default("")] = None
    """popularity in page views: the month that weights the sample"""
    match: Annotated[str, one_of(MATCHES)] = "whole_words"
    """text: or `anywhere`"""
    text_path: Annotated[Text | None, Default(""), Field(alias="text")] = None
    """text: the file or folder"""
    text_env: Annotated[Variable | None, Default("")] = None
    """text: the variable that names it, in place of `text`"""

    def check(self, raw: Mapping[str, Any], reading: Reading) -> FactSample:
        for key in ("text", "text_env", "match") if self.frequency != "text" else ():
            if key in raw:
                raise fail(key, "goes with frequency: text")
        if self.frequency == "text" and bool(self.text_path) == bool(self.text_env):
            wanted = "exactly one of text and text_env must name the text sample: a file or a folder"
            raise fail("text", wanted)
        return self

    @property
    def text(self) -> Place | None:
        """The text, for frequency `text`."""
        return Place(self.text_path, self.text_env) if self.frequency == "text" else None


@dataclass(frozen=True)
class Source(Part):
    """Where facts, views and texts come from.

    Kind `none`: the study has no source, since all its datasets are imports.
    """

    kind: Annotated[str, one_of(SOURCE_KINDS)]
    """`sandbox` (a synthetic world), `wikidata` (the live services, which ask for your address: `LONGTAIL_CONTACT`), or
    `rdf_file` (an N-Triples file)"""
    snapshot: Month
    """the month that the facts are pinned to, as "2026-10". A new value fetches them again"""
    seed: Annotated[int, whole(0)] = 0
    """sandbox: the world"""
    facts_per_relation: Annotated[int, whole(8, 1_000_000)] = 140
    """sandbox: the size of the world"""
    path_env: Text = "LONGTAIL_RDF_FILE"
    """rdf_file: the variable that names the file"""
    facts_from: Annotated[str, one_of(FACT_ORIGINS)] = "query_service"
    """or `truthy_dump`: the file that `LONGTAIL_TRUTHY_DUMP` names, or a download"""
    views_from: Annotated[str, one_of(VIEW_ORIGINS)] = "auto"
    """`api`, `dump` (monthly dumps, in the folder that `LONGTAIL_PAGE_VIEW_DUMPS` names, or downloads), or `auto`: dumps
    above 20,000 titles"""
    sample: Annotated[FactSample | None, BeforeValidator(need_mapping)] = None
    """ask about a sample of the facts; see below"""

    @classmethod
    def expand(cls, raw: Mapping[str, Any], reading: Reading) -> Mapping[str, Any]:
        kind = raw.get("kind")
        if isinstance(kind, str) and kind in _KEYS:
            refuse_unknown(raw, ("kind", "snapshot", "sample", *_KEYS[kind]))
        return raw

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> dict[str, Any]:
        made = super().__get_pydantic_json_schema__(schema, handler)
        of_some = dict.fromkeys(key for keys in _KEYS.values() for key in keys)
        made["allOf"] = [
            {
                "if": {"properties": {"kind": {"const": kind}}},
                "then": {"properties": {key: False for key in of_some if key not in keys}},
            }
            for kind, keys in _KEYS.items()
        ]
        return made


def _find_measures(reading: Reading) -> tuple[str, ...]:
    counts = [Counts(str(raw.get("name")), Place(), raw.get("dataset")) for raw in reading.entries("counts")]
    return (*MEASURES, *(measure for declared in counts for measure in declared.measures))


@dataclass(frozen=True)
class Popularity(Part):
    """The measure and window of popularity: the mean of `n_months` months up to `last_month`.

    Measure `imported` is the one number per entity in an imported file, without a month. Wikimedia counts page views of
    a redirect separately from its article's. `redirects`: `resolve` looks up where an article is now and takes the views
    there; `sum` adds those of all redirects to the article; `ignore` takes the title that the entity links to, even if
    the page has moved.
    """

    measure: Annotated[str, one_of(_find_measures, is_open=True)] = "page_views"
    """or `sitelinks`, `imported` (the number in a dataset's file), or a measure of `counts`, as `leads_subject_articles`:
    how often the subject's name stands in your text. This needs no entity and no dump"""
    n_months: Annotated[int, whole(1, 240)] = 12
    """the window's months"""
    last_month: Annotated[Month | None, Default("the newest")] = None
    """the window's end. Without it, popularity follows the newest month"""
    redirects: Annotated[str, one_of(REDIRECTS)] = "resolve"
    """or `sum`, `ignore`: how page views of moved pages count"""
    agent: Annotated[str, one_of(AGENTS)] = "user"
    """or `all`: page views of crawlers too, from the API alone. PopQA counted `all`, in October 2021"""

    def check(self, raw: Mapping[str, Any], reading: Reading) -> Popularity:
        for key in ("redirects", "agent"):
            if key in raw and self.measure != "page_views":
                raise fail(key, "goes with measure: page_views")
        return self


def window(study: Study) -> tuple[str, ...]:
    """The months (YYYY-MM) of the popularity window, oldest first.

    If the study names no last month, it is the newest complete one.
    """
    newest = newest_past_month if study.source.kind == "sandbox" else newest_complete_month
    last = study.popularity.last_month or newest(datetime.now(UTC).date())
    end = int(last[:4]) * 12 + int(last[5:])
    months = range(end - study.popularity.n_months, end)
    return tuple(f"{month // 12:04d}-{month % 12 + 1:02d}" for month in months)


def newest_complete_month(today: date) -> str:
    """The newest month (YYYY-MM) that a live service has counted: it is complete from day 3 of the next month.

    Wikimedia counts a month's last days late. Before that, it answers with too few views, or none.
    """
    return newest_past_month(today - timedelta(days=_COUNTING_DAYS))


def newest_past_month(today: date) -> str:
    """The last month (YYYY-MM) that has ended, even if its views are not counted yet."""
    return f"{today.year - 1}-12" if today.month == 1 else f"{today.year}-{today.month - 1:02d}"
