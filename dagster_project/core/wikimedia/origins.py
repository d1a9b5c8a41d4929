"""What decides the rows of a source, for fingerprints: its slice of the study, its files' bytes, the code that reads it.

What belongs here: what makes rows stale. What does not: fetching them (`ingest`, `page_view_stage`).
"""

from __future__ import annotations

import hashlib
from typing import Any

from dagster_project.core.lake import code_version, fingerprint
from dagster_project.core.sandbox.world import WORLD_CODE
from dagster_project.core.study import Source, Study
from dagster_project.core.wikimedia.claims import listed_ids
from dagster_project.core.wikimedia.dump_store import dump_identity, named_page_view_dump, named_truthy_dump
from dagster_project.core.wikimedia.rdf import rdf_path
from dagster_project.core.wikimedia.views import views_origin

# The modules that decide which rows come out; a better retry must not fetch everything anew.
FACTS_CODE = tuple(
    f"wikimedia/{name}" for name in ("ingest", "facts", "wikidata", "entities", "terms", "rdf")
)
_DUMP_FILES = ("wikimedia/decompression", "wikimedia/dump_files")
TRUTHY_CODE = (
    *_DUMP_FILES,
    *(f"wikimedia/{name}" for name in ("ntriples", "truthy", "dump_terms", "entity_terms")),
)
# Of page views, apart from facts: a change here must not fetch all facts anew.
PAGE_VIEW_CODE = tuple(f"wikimedia/{name}" for name in ("pageviews", "redirects", "views"))
PAGE_VIEW_DUMP_CODE = (*_DUMP_FILES, "wikimedia/pageview_dumps", "wikimedia/title_index")


def source_slice(source: Source) -> dict[str, Any]:
    """What of the source decides the rows: for a file its bytes, wherever it lies."""
    origin: dict[str, Any] = {"facts_from": source.facts_from} if source.facts_from != "query_service" else {}
    if source.facts_from == "entity_api":
        origin["ids"] = fingerprint(listed_ids(source))
    if source.facts_from == "truthy_dump":
        named = named_truthy_dump(source)
        origin |= {"accept_cut_dumps": source.accept_cut_dumps, **(dump_identity(named) if named else {})}
    if source.kind == "rdf_file" and source.facts_from != "truthy_dump":
        with rdf_path(source).open("rb") as stream:
            origin["sha256"] = hashlib.file_digest(stream, "sha256").hexdigest()
    if source.kind == "rdf_file":
        return {"kind": source.kind, **origin}
    return {"kind": source.kind, "snapshot": source.snapshot, **world(source), **origin}


def page_views_slice(study: Study, month: str, n_articles: int) -> list[Any]:
    """What decides a month's page views of `n_articles` given articles, whoever asks for them."""
    source, redirects = study.source, study.popularity.redirects
    origin = views_origin(source, n_articles, redirects)
    pages = ("sandbox/pages",) if source.kind == "sandbox" else ()
    code = code_version(*PAGE_VIEW_CODE, *world_code(source), *pages)
    decided: list[Any] = [source.kind, world(source), redirects, origin, code]
    if origin == "dump":
        named = named_page_view_dump(source, month) if n_articles else None
        decided += [source.accept_cut_dumps, code_version(*PAGE_VIEW_DUMP_CODE)]
        decided += [dump_identity(named)] if named else []
    return decided


def world(source: Source) -> dict[str, int]:
    """Which world the sandbox serves; nothing for other sources."""
    if source.kind != "sandbox":
        return {}
    return {"seed": source.seed, "facts_per_relation": source.facts_per_relation}


def facts_code(source: Source) -> str:
    """The version of the code that decides facts and entities."""
    origin = {"truthy_dump": TRUTHY_CODE, "entity_api": ("wikimedia/claims",)}.get(source.facts_from, ())
    return code_version(*FACTS_CODE, *origin, *world_code(source))


def world_code(source: Source) -> tuple[str, ...]:
    """The modules that make the sandbox's world; none for other sources."""
    return WORLD_CODE if source.kind == "sandbox" else ()
