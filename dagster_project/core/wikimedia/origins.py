"""What decides the rows of a source, for fingerprints: its slice of the study, its files' bytes, the code that reads it.

What belongs here: what makes rows stale. What does not: fetching them (`ingest`).
"""

from __future__ import annotations

import hashlib
from typing import Any

from dagster_project.core.lake import code_version, fingerprint
from dagster_project.core.sandbox.world import WORLD_CODE
from dagster_project.core.study import Source
from dagster_project.core.wikimedia.claims import listed_ids
from dagster_project.core.wikimedia.dump_store import dump_identity, named_page_view_dump, named_truthy_dump
from dagster_project.core.wikimedia.rdf import rdf_path

# The modules that decide which rows come out; a better retry must not fetch everything anew.
_ROWS = tuple(f"wikimedia/{name}" for name in ("ingest", "facts", "wikidata", "entities", "terms", "rdf"))
DUMP_ROWS = tuple(
    f"wikimedia/{name}"
    for name in (
        "decompression",
        "dump_files",
        "ntriples",
        "truthy",
        "dump_terms",
        "entity_terms",
        "pageview_dumps",
        "title_index",
        "views",
    )
)


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


def page_view_file(source: Source, month: str, origin: str) -> tuple[object, ...]:
    """What tells the file that the operator names for a month from one that replaces it; nothing for other origins."""
    path = named_page_view_dump(source, month) if origin == "dump" else None
    return () if path is None else (dump_identity(path),)


def world(source: Source) -> dict[str, int]:
    """Which world the sandbox serves; nothing for other sources."""
    if source.kind != "sandbox":
        return {}
    return {"seed": source.seed, "facts_per_relation": source.facts_per_relation}


def facts_code(source: Source) -> str:
    """The version of the code that decides facts and entities."""
    origin = {"truthy_dump": DUMP_ROWS, "entity_api": ("wikimedia/claims",)}.get(source.facts_from, ())
    return code_version(*_ROWS, *origin, *world_code(source))


def world_code(source: Source) -> tuple[str, ...]:
    """The modules that make the sandbox's world; none for other sources."""
    return WORLD_CODE if source.kind == "sandbox" else ()
