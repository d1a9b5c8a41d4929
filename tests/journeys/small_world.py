"""The small study that journeys share: a scripted backend and one that fails, every kind of prompt, references."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import duckdb

from longtail.relations.relation import relation_set
from longtail.sandbox.world import World
from tests.journeys.commands import small_study

SEED = 3
FACTS = 8
ASKED = ("occupation", "genre", "country", "color")
RELATIONS = [relation for relation in relation_set("popqa") if relation.name in ASKED]
"""Fewer than there are: a study's texts, which are all embedded, and its thresholds grow with its relations."""
QUESTIONS = FACTS * len(RELATIONS)
TODAY = datetime.date(2026, 11, 20)
"""The day of these journeys, whatever a clock says. The study's window of popularity ends with the month before the
newest: a monthly refresh then moves it."""


def month_before(month: str) -> str:
    return f"{datetime.date.fromisoformat(f'{month}-01') - datetime.timedelta(days=1):%Y-%m}"


NEWEST = month_before(f"{TODAY:%Y-%m}")
LAST = month_before(NEWEST)
MONTHS = (month_before(LAST), LAST)
PINNED = f'n_months: 2, last_month: "{LAST}"'
MODEL = "  - {name: scripted,"
BROKEN = '  - {name: broken, path: "fake:digest?fail_on_call=1", backend: fake}'
"""A model that fails: each run ends with exit code 1. Those of the wheel and of the default study end with 0."""
REFERENCES = """\
seed: 0
reference_questions:
  - {name: nq_names, format: nq_open, path: nq.jsonl}
  - {name: nq_tagme, format: nq_open, path: nq.jsonl, tagme: {}}
"""


@dataclass(frozen=True)
class Small:
    """The folder of a finished run: study file, home, what it printed, also as errors, and put into a store."""

    folder: Path
    study: Path
    output: str
    errors: str
    objects: Mapping[str, bytes]

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def root(self) -> Path:
        """What the home holds of this study."""
        return self.home / "small"

    def published(self) -> duckdb.DuckDBPyConnection:
        return duckdb.connect(str(self.root / "published/warehouse.duckdb"), read_only=True)


def write_small_world(folder: Path) -> Path:
    """The study file, beside the reference questions that it names."""
    texts = [f"who or what was {label.lower()}" for label in named_entities()]
    lines = [json.dumps({"question": text, "answer": ["x"]}) for text in [*texts, "nothing at all"]]
    (folder / "nq.jsonl").write_text("\n".join([*lines, "{broken"]), encoding="utf-8")
    edit = {
        'snapshot: "2026-10"': f'snapshot: "{NEWEST}"',
        'n_months: 2, last_month: "2026-10"': PINNED,
        "seed: 0\n": REFERENCES,
        MODEL: f"{BROKEN}\n{MODEL}",
        "  - name: small\n": f"  - {{name: small, relations: {[relation.name for relation in RELATIONS]}}}\n",
        # the fusion stands before what it fuses: retrieval brings them into order
        "genread, bm25, oracle": "genread, hybrid, bm25, oracle, random",
    }
    return small_study(folder, "fake:passage", FACTS, edit)


def named_entities() -> dict[str, str]:
    """Label → id of the entities that alone bear it, have an article, and are in some fact."""
    world, asked = World(SEED, FACTS), {relation.property_id for relation in RELATIONS}
    triples = [triple for triple in world.triples() if triple.property_id in asked]
    stated = {entity for triple in triples for entity in (triple.subject_id, triple.object_id)}
    bearers: dict[str, set[str]] = {}
    for entity in world.entities():
        for name in (entity.label, *entity.aliases):
            bearers.setdefault(name.casefold(), set()).add(entity.entity_id)
    known = (e for e in world.entities() if e.article_title and e.entity_id in stated)
    return {e.label: e.entity_id for e in known if " " in e.label and len(bearers[e.label.casefold()]) == 1}
