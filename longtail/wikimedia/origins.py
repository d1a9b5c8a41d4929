"""What decides a source's rows, for fingerprints: its part of the study, the bytes of its files, the code that reads
it.
"""

from __future__ import annotations

import hashlib
from typing import Any

from longtail.storage.fingerprints import code_version, fingerprint
from longtail.study.source import Source
from longtail.wikimedia.dump_store import dump_identity, named_truthy_dump
from longtail.wikimedia.dumps import terms, truthy
from longtail.wikimedia.protocols import claims
from longtail.wikimedia.protocols.claims import listed_ids
from longtail.wikimedia.rdf_file import rdf_path
from longtail.wikimedia.sandbox_world import world, world_version

_OTHER_MODULES = {"truthy_dump": (truthy, terms), "entity_api": (claims,)}
"""The modules that only one origin of facts uses."""


def source_slice(source: Source) -> dict[str, Any]:
    """The source's settings that decide the rows; for a file its bytes, wherever it is."""
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


def facts_code(source: Source, stage: str) -> str:
    """The version of the code that decides facts and entities; `stage` is the module that ingests them."""
    unused = [
        module.__name__
        for origin, modules in _OTHER_MODULES.items()
        if origin != source.facts_from
        for module in modules
    ]
    return code_version(stage, without=unused) + world_version(source)
