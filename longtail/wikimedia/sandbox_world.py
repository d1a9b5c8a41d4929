"""Which world the sandbox serves, for fingerprints; nothing for other sources."""

from __future__ import annotations

from longtail.storage.fingerprints import code_version
from longtail.study.source import Source


def world(source: Source) -> dict[str, int]:
    """The seed and size of the world that the sandbox serves; nothing for other sources."""
    if source.kind != "sandbox":
        return {}
    return {"seed": source.seed, "facts_per_relation": source.facts_per_relation}


def world_version(source: Source) -> str:
    """The version of the code that makes the world and serves it; empty for other sources."""
    if source.kind != "sandbox":
        return ""
    from longtail.sandbox import content

    return code_version(content.__name__)
