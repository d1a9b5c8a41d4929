"""Key `source` of study.yaml: where facts, page views and texts come from."""

from __future__ import annotations

from dataclasses import dataclass

from longtail.study.imports import Place
from longtail.study.reader import Reader

SOURCE_KINDS = ("sandbox", "wikidata", "rdf_file")
FACT_ORIGINS = ("query_service", "entity_api", "truthy_dump")
VIEW_ORIGINS = ("auto", "api", "dump")
FREQUENCIES = ("popularity", "text")
MATCHES = ("whole_words", "anywhere")
NO_SOURCE = "none"


@dataclass(frozen=True)
class FactSample:
    """Which of the source's facts are asked about: a sample weighted by frequency (SPEC §1; PopQA, appendix A).

    `frequency` says how the subject's frequency is measured. `text`: how often its names occur in `text`, rescaled to
    800 MB (`match`: as `whole_words`, or `anywhere`). `popularity`: the study's measure; page views are those of
    `month`. At most `per_relation` facts per relation are kept. The study's `seed` also seeds this draw.
    """

    frequency: str
    per_relation: int = 2_000
    month: str | None = None
    text: Place | None = None
    match: str = "whole_words"


@dataclass(frozen=True)
class Source:
    """Where facts, views and texts come from.

    `sandbox`: a synthetic world with `facts_per_relation` questions per relation, made from `seed`.
    `wikidata`: the live services; the environment variable `contact_env` must hold the operator's address.
    `rdf_file`: an N-Triples file (plain or gzip) named by the environment variable `path_env`.
    `none`: the study has no source; all its datasets are imports.
    `snapshot` is the month that the facts are pinned to; a new value fetches them again.

    `facts_from`: the SPARQL service; wbgetentities, for the subjects in the file of `ids_env`; or the truthy dump of
    `dump_env`, which is downloaded if that variable is not set. `views_from`: the page view API; the monthly dumps in
    the folder of `page_view_dumps_env` (downloaded if it is not set); or `auto`: the dumps if there are many articles.
    A truncated dump is used up to the break only if `accept_cut_dumps` is set. Without `sample`, all facts are asked
    about.
    """

    kind: str
    snapshot: str
    seed: int = 0
    facts_per_relation: int = 140
    path_env: str = "LONGTAIL_RDF_FILE"
    contact_env: str = "LONGTAIL_CONTACT"
    facts_from: str = "query_service"
    views_from: str = "auto"
    ids_env: str = "LONGTAIL_ENTITY_IDS"
    dump_env: str = "LONGTAIL_TRUTHY_DUMP"
    page_view_dumps_env: str = "LONGTAIL_PAGE_VIEW_DUMPS"
    accept_cut_dumps: bool = False
    sample: FactSample | None = None


def read_source(read: Reader) -> Source:
    """Key `source`: where facts and page views come from. Errors: `StudyError`."""
    kind = read.choice("kind", SOURCE_KINDS)
    dumps = ("facts_from", "ids_env", "accept_cut_dumps")
    keys = {
        "sandbox": ("seed", "facts_per_relation", "views_from", *dumps),
        "wikidata": ("contact_env", "views_from", "dump_env", "page_view_dumps_env", *dumps),
        "rdf_file": ("path_env", *dumps),
    }[kind]
    read.only("kind", "snapshot", "sample", *keys)
    source = Source(
        kind=kind,
        snapshot=read.month("snapshot"),
        seed=read.number("seed", 0, 0),
        facts_per_relation=read.number("facts_per_relation", 140, 8, 1_000_000),
        path_env=read.text("path_env", Source.path_env),
        contact_env=read.text("contact_env", Source.contact_env),
        facts_from=read.choice("facts_from", FACT_ORIGINS, Source.facts_from),
        views_from=read.choice("views_from", VIEW_ORIGINS, Source.views_from),
        ids_env=read.text("ids_env", Source.ids_env),
        dump_env=read.text("dump_env", Source.dump_env),
        page_view_dumps_env=read.text("page_view_dumps_env", Source.page_view_dumps_env),
        accept_cut_dumps=read.flag("accept_cut_dumps"),
        sample=_sample(read.child("sample")) if "sample" in read.raw else None,
    )
    _check_source(read, source)
    return source


def _check_source(read: Reader, source: Source) -> None:
    """Refuse keys that would have no effect."""
    has_views = source.kind != "rdf_file" and source.views_from != "api"
    for key, has_effect, needed in (
        ("ids_env", source.facts_from == "entity_api", "facts_from: entity_api"),
        ("dump_env", source.facts_from == "truthy_dump", "facts_from: truthy_dump"),
        ("page_view_dumps_env", has_views, "views_from: dump or auto"),
        ("accept_cut_dumps", has_views or source.facts_from == "truthy_dump", "a dump to read"),
    ):
        if key in read.raw and not has_effect:
            raise read.fail(key, f"goes with {needed}")


def _sample(read: Reader) -> FactSample:
    frequency = read.choice("frequency", FREQUENCIES)
    of_text = ("text", "text_env", "match")
    for key in of_text if frequency != "text" else ():
        if key in read.raw:
            raise read.fail(key, "goes with frequency: text")
    read.only("frequency", "per_relation", "month", *of_text)
    return FactSample(
        frequency=frequency,
        per_relation=read.number("per_relation", FactSample.per_relation, 1),
        month=read.optional("month", read.month),
        text=_text(read) if frequency == "text" else None,
        match=read.choice("match", MATCHES, FactSample.match),
    )


def _text(read: Reader) -> Place:
    path, variable = read.optional("text", read.text), read.optional("text_env", read.environment_name)
    if (path is None) == (variable is None):
        raise read.fail(
            "text", "exactly one of text and text_env must name the text sample: a file or a folder"
        )
    return Place(path, variable)
