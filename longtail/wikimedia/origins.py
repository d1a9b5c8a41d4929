"""What a source depends on: what decides its rows, for fingerprints, and what it needs from the operator."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import partial
from typing import Any

from longtail.needs import Need
from longtail.storage.fingerprints import code_version
from longtail.study.source import Source, window
from longtail.study.study import Study
from longtail.wikimedia.dump_store import dump_identity, user_page_view_dump, user_truthy_dump
from longtail.wikimedia.dumps import terms, truthy
from longtail.wikimedia.services import check_contact, rdf_path, world, world_version


def source_slice(source: Source) -> dict[str, Any]:
    """The source's settings that decide the rows; for a file its bytes, wherever it is."""
    origin: dict[str, Any] = {"facts_from": source.facts_from} if source.facts_from != "query_service" else {}
    if source.facts_from == "truthy_dump":
        named = user_truthy_dump(source)
        origin |= dump_identity(named) if named else {}
    if source.kind == "rdf_file" and source.facts_from != "truthy_dump":
        with rdf_path(source).open("rb") as stream:
            origin["sha256"] = hashlib.file_digest(stream, "sha256").hexdigest()
    if source.kind == "rdf_file":
        return {"kind": source.kind, **origin}
    return {"kind": source.kind, "snapshot": source.snapshot, **world(source), **origin}


def facts_code(source: Source, stage: str) -> str:
    """The version of the code that decides facts and entities; `stage` is the module that ingests them."""
    unused = () if source.facts_from == "truthy_dump" else (truthy.__name__, terms.__name__)
    return code_version(stage, without=unused) + world_version(source)


def needs_of_source(study: Study) -> Iterator[Need]:
    """A dump that Longtail would download is no need; one that a variable names is."""
    source = study.source
    if source.kind == "wikidata":
        yield Need("source", check_contact)
    if source.kind == "rdf_file":
        yield Need("source.path_env", partial(rdf_path, source))
    elif source.facts_from == "truthy_dump":
        yield Need("source.facts_from", partial(user_truthy_dump, source))
    if study.popularity.measure == "page_views" and source.views_from == "dump":
        for month in window(study):
            yield Need("source.views_from", partial(user_page_view_dump, source, month))
