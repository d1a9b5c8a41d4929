"""The sandbox's world as a ParaRel-like dataset: `graphs_json/P*.jsonl` (patterns), `trex_lms_vocab/P*.jsonl` (facts).

A relation of ParaRel gives each subject one object. Therefore a fact with several objects is left out. Labels repeat, as
in ParaRel: namesakes are subjects of their own, each with its own uuid.

    python -m tools.reference_models.pararel --out folder
"""

from __future__ import annotations

import argparse
import json
import sys
import uuid
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from longtail.errors import LongtailError
from longtail.relations.cloze import pararel_patterns
from longtail.sandbox.world import Fact, World

FOLDERS = PATTERN_FILES, FACT_FILES = "graphs_json", "trex_lms_vocab"


def select_facts(world: World) -> Iterator[Fact]:
    """The facts of the dataset: those with one object, of the relations with patterns."""
    patterns = pararel_patterns()
    for fact in world.facts():
        if fact.relation.property_id in patterns and len(fact.object_ids) == 1:
            yield fact


def write_pararel(world: World, out: Path) -> Path:
    """Write the dataset's folder; return it."""
    lines: dict[tuple[str, str], list[str]] = {
        (PATTERN_FILES, name): [_line(asdict(pattern)) for pattern in patterns]
        for name, patterns in pararel_patterns().items()
    }
    for fact in select_facts(world):
        row = {
            "sub_label": world.label_of(fact.subject_id),
            "obj_label": world.label_of(fact.object_ids[0]),
            "uuid": str(uuid.uuid5(uuid.NAMESPACE_URL, f"{fact.subject_id} {fact.relation.property_id}")),
        }
        lines.setdefault((FACT_FILES, fact.relation.property_id), []).append(_line(row))
    for folder in FOLDERS:
        (out / folder).mkdir(parents=True, exist_ok=True)
    for (folder, name), own in lines.items():
        (out / folder / f"{name}.jsonl").write_text("".join(own), encoding="utf-8")
    return out


def _line(row: object) -> str:
    return json.dumps(row, ensure_ascii=False) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Write the dataset of a world."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.reference_models.pararel", description="Write a world like ParaRel."
    )
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    parser.add_argument("--seed", type=int, default=0, help="seed of the world")
    parser.add_argument("--facts-per-relation", type=int, default=140, help="size of the world")
    chosen = parser.parse_args(arguments)
    try:
        print(write_pararel(World(chosen.seed, chosen.facts_per_relation), chosen.out), flush=True)
    except (LongtailError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
