"""A small hand-made study and lake: a few facts with known traps, for questions, retrieval and embedding."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from longtail.storage.lake import Lake
from longtail.study.file import load_study
from longtail.study.study import Study

HAND_STUDY = """
name: hand_made
description: A few facts made by hand
source: {kind: sandbox, seed: 0, facts_per_relation: 8, snapshot: "2026-10"}
datasets: [{name: facts}]
prompts: [{name: zero_shot, generations: [questions, paraphrases]}]
models: [{name: tiny, path: nowhere, backend: fake}]
methods: [closed_book, bm25, dense, oracle]
popularity: {measure: page_views, last_month: "2026-10"}
top_k: 3
"""

ENTITIES = {
    "Q1": ("Ada Quill", ["A. Quill"]),
    "Q2": ("Ada Quill", []),  # a namesake
    "Q3": ("Weaver", ["weaver", "Weaver", " cloth-maker "]),
    "Q4": ("Łódź", ["Lodz"]),
    "Q5": ("The [subj] {0} \\1 %s", ["[obj]"]),  # a label that looks like a template
    "Q6": ("Nun\x00Mark \u200f العربية 👩‍🚀", []),
    "Q7": ("Painter\nand more", ["", "   "]),
    "Q8": ("Ünïcödé", []),
}
TRIPLES = [
    ("Q1", "P106", "Q3"),
    ("Q1", "P106", "Q7"),
    ("Q1", "P19", "Q4"),
    ("Q2", "P106", "Q7"),
    ("Q2", "P106", "Q404"),  # an object without a label
    ("Q5", "P136", "Q8"),
    ("Q6", "P19", "Q4"),
    ("Q6", "P106", "Q404"),  # no object with a label
    ("Q405", "P19", "Q4"),  # a subject without a label
]
_RELATIONS = {"P106": "occupation", "P19": "place of birth", "P136": "genre"}


@pytest.fixture
def log() -> logging.Logger:
    return logging.getLogger("longtail-tests")


@pytest.fixture
def make_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Study]:
    """Load a study from YAML text; its home is the test's own folder."""
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path / "home"))

    def make(text: str) -> Study:
        path = tmp_path / "hand_made.yaml"
        path.write_text(text, encoding="utf-8")
        return load_study(path)

    return make


@pytest.fixture
def hand_text() -> str:
    return HAND_STUDY


@pytest.fixture
def hand_study(make_study: Callable[[str], Study], hand_text: str) -> Study:
    return make_study(hand_text)


@pytest.fixture
def hand_lake(hand_study: Study) -> Lake:
    """A lake that has only the tables triples and entities."""
    lake = Lake(hand_study.home.lake)
    lake.write("triples", [triple_row(*triple) for triple in TRIPLES], fingerprint="hand")
    lake.write("entities", [entity_row(i, *terms) for i, terms in ENTITIES.items()], fingerprint="hand")
    return lake


def triple_row(subject_id: str, property_id: str, object_id: str) -> dict[str, object]:
    return {
        "subject_id": subject_id,
        "property_id": property_id,
        "object_id": object_id,
        "relation": _RELATIONS[property_id],
        "source": "sandbox",
    }


def entity_row(entity_id: str, label: str, aliases: list[str]) -> dict[str, object]:
    return {
        "entity_id": entity_id,
        "label": label,
        "aliases": aliases,
        "description": None,
        "article_title": None,
        "sitelinks": None,
        "source": "sandbox",
    }
