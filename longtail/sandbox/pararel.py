"""The sandbox's world as a ParaRel-like dataset: `graphs_json/P*.jsonl` (patterns), `trex_lms_vocab/P*.jsonl` (facts).

A relation of ParaRel gives each subject one object. Therefore a fact with several objects is left out. Labels repeat, as
in ParaRel: namesakes are subjects of their own, each with its own uuid.

    python -m longtail.sandbox.pararel --out folder
"""

from __future__ import annotations

import argparse
import json
import sys
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from longtail.errors import LongtailError
from longtail.sandbox.world import Fact, World

FOLDERS = PATTERN_FILES, FACT_FILES = "graphs_json", "trex_lms_vocab"


@dataclass(frozen=True)
class Pattern:
    """One line of a file of patterns."""

    pattern: str
    lemma: str
    extended_lemma: str
    tense: str


PATTERNS: dict[str, tuple[Pattern, ...]] = {
    "P106": (
        Pattern("The occupation of [X] is [Y].", "occupation", "occupation-of-is", "present"),
        Pattern("[X] is a [Y] by profession.", "by-profession", "is-by-profession", "present"),
        Pattern("[X] is an [Y] by profession.", "by-profession", "is-by-profession", "present"),
        Pattern("[X] worked as a [Y].", "work", "work-as", "past"),
        Pattern("[X] worked as an [Y].", "work", "work-as", "past"),
        Pattern("[Y] was the profession of [X].", "profession", "was-profession-of", "past"),
        Pattern("[X]'s occupation is [Y].", "occupation", "'s-occupation-is", "present"),
    ),
    "P19": (
        Pattern("[X] was born in [Y].", "born", "born-in", "past"),
        Pattern("[X] came into the world in [Y].", "come", "come-into-the-world-in", "past"),
        Pattern("The birthplace of [X] is [Y].", "birthplace", "birthplace-of-is", "present"),
        Pattern("[Y] is the city where [X] was born.", "born", "city-where-born", "past"),
        Pattern("[X], who was born in [Y].", "born", "who-born-in", "past"),
    ),
    "P17": (
        Pattern("[X] is in [Y].", "be", "is-in", "present"),
        Pattern("[X] is located in [Y].", "locate", "located-in", "present"),
        Pattern("[X] lies in [Y].", "lie", "lie-in", "present"),
        Pattern("[Y] is the country of [X].", "country", "is-country-of", "present"),
        Pattern("The country of [X] is [Y].", "country", "country-of-is", "present"),
        Pattern("[X] was located in [Y].", "locate", "located-in", "past"),
    ),
    "P140": (
        Pattern("The religion of [X] is [Y].", "religion", "religion-of-is", "present"),
        Pattern("[X] follows [Y].", "follow", "follow", "present"),
        Pattern("[Y] is the religion of [X].", "religion", "is-religion-of", "present"),
        Pattern("[X] is affiliated with [Y].", "affiliate", "affiliated-with", "present"),
        Pattern("[X] followed [Y].", "follow", "follow", "past"),
    ),
    "P641": (
        Pattern("The sport that [X] plays is [Y].", "sport", "sport-that-plays-is", "present"),
        Pattern("[X] plays [Y].", "play", "play", "present"),
        Pattern("[X] competes in [Y].", "compete", "compete-in", "present"),
        Pattern("[Y] is the sport of [X].", "sport", "is-sport-of", "present"),
        Pattern("[X] played [Y].", "play", "play", "past"),
    ),
    "P57": (
        Pattern("The director of [X] was [Y].", "director", "director-of-was", "past"),
        Pattern("[X] was directed by [Y].", "direct", "directed-by", "past"),
        Pattern("[Y] directed [X].", "direct", "direct", "past"),
        Pattern("[Y] is the director of [X].", "director", "is-director-of", "present"),
        Pattern("[X] is a film by [Y].", "film", "is-film-by", "present"),
    ),
    "P50": (
        Pattern("The author of [X] is [Y].", "author", "author-of-is", "present"),
        Pattern("[X] was written by [Y].", "write", "written-by", "past"),
        Pattern("[Y] wrote [X].", "write", "write", "past"),
        Pattern("[X] is a book by [Y].", "book", "is-book-by", "present"),
        Pattern("[Y] is the author of [X].", "author", "is-author-of", "present"),
    ),
    "P36": (
        Pattern("The capital of [X] is [Y].", "capital", "capital-of-is", "present"),
        Pattern("[X] has [Y] as its capital.", "have", "has-as-capital", "present"),
        Pattern("[X] has its capital in [Y].", "have", "has-capital-in", "present"),
        Pattern("[Y] is the capital of [X].", "capital", "is-capital-of", "present"),
        Pattern("The capital city of [X] is [Y].", "capital-city", "capital-city-of-is", "present"),
    ),
}
"""Property → patterns, the first of which is the question."""


def select_facts(world: World) -> Iterator[Fact]:
    """The facts of the dataset: those with one object, of the relations with patterns."""
    for fact in world.facts():
        if fact.relation.property_id in PATTERNS and len(fact.object_ids) == 1:
            yield fact


def write_pararel(world: World, out: Path) -> Path:
    """Write the dataset's folder; return it."""
    lines: dict[tuple[str, str], list[str]] = {
        (PATTERN_FILES, name): [_line(asdict(pattern)) for pattern in patterns]
        for name, patterns in PATTERNS.items()
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
        prog="python -m longtail.sandbox.pararel", description="Write a world like ParaRel."
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
