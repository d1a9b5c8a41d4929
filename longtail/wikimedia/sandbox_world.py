"""Which world the sandbox serves, for fingerprints; nothing for other sources."""

from __future__ import annotations

from longtail.relations.relation import SOURCE_SET, relation_set
from longtail.storage.fingerprints import code_version, fingerprint
from longtail.study.source import Source


def world(source: Source) -> dict[str, int]:
    """The seed and size of the world that the sandbox serves; nothing for other sources."""
    if source.kind != "sandbox":
        return {}
    return {"seed": source.seed, "facts_per_relation": source.facts_per_relation}


def world_version(source: Source) -> str:
    """The version of the code and relations that make the world, and of what serves it; empty for other sources."""
    if source.kind != "sandbox":
        return ""
    from longtail.sandbox import content

    return fingerprint(code_version(content.__name__), relation_set(SOURCE_SET))
