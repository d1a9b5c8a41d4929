"""The files of others as they published them: every question is asked, under an id of its own.

Real records are read where they are there; otherwise the tests are skipped, visibly.
"""

from __future__ import annotations

import dataclasses
import logging
from collections import Counter
from pathlib import Path

import pytest

from longtail.imports.datasets import import_entities, link_questions
from longtail.imports.formats.questions.entity_questions import read_entity_questions
from longtail.questions.build import build_questions
from longtail.relations.relation import relation_names
from longtail.storage.home import PROJECT_ROOT
from longtail.study.file import load_study
from longtail.study.imports import Place
from tests.imported_files import empty_lake
from tests.real_data import REAL_DATA, needs_real_data

pytestmark = needs_real_data
LOG = logging.getLogger("test")
BY_RELATION = {
    "director": 1_999, "screenwriter": 1_999, "genre": 1_619, "producer": 1_520, "author": 1_514, "composer": 978,
    "country": 838, "capital": 645, "place of birth": 584, "father": 570, "sport": 547, "occupation": 532,
    "capital of": 363, "religion": 338, "mother": 187, "color": 34,
}  # fmt: skip
"""PopQA's rows by relation, counted in the file by other means."""


def test_popqa_14_267_rows_in_and_14_267_questions_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POPQA_TSV", str(REAL_DATA / "popqa/popQA.tsv.gz"))
    study = load_study(PROJECT_ROOT / "studies/popqa.yaml")
    (whole,) = study.datasets
    parts = {
        "random": {"ids": Place(str(REAL_DATA / "popqa/random_1000_ids.txt"))},
        "first": {"first_rows": 1_000},
        "both": {"ids": Place(str(REAL_DATA / "popqa/random_1000_ids.txt")), "first_rows": 1_000},
        "quick": {"max_questions": 150},
    }
    datasets = [whole, *(dataclasses.replace(whole, name=name, **keys) for name, keys in parts.items())]
    lake = empty_lake(tmp_path / "lake")
    outcome = build_questions(dataclasses.replace(study, datasets=tuple(datasets)), lake, LOG)
    rows = lake.read("questions").to_pylist()
    asked = {name: [row for row in rows if row["dataset"] == name] for name in ("popqa", *parts)}
    ids = {name: {row["question_id"] for row in some} for name, some in asked.items()}
    assert {name: len(found) for name, found in ids.items()} == {
        "popqa": 14_267, "random": 1_000, "first": 1_000, "both": len(ids["random"] & ids["first"]), "quick": 150,
    }  # fmt: skip
    assert list(lake.partitions("quarantine")) == []
    assert Counter(row["relation"] for row in asked["popqa"]) == BY_RELATION
    assert len({(row["subject_id"], row["relation"]) for row in asked["popqa"]}) == 14_267 - 467
    nameless = [row["question"] for row in asked["popqa"] if row["subject"] is None]
    assert sorted(nameless) == [
        "What is the capital of ?",
        "Who is the author of ?",
        "Who was the screenwriter for ?",
    ]
    assert sum(row["subject"] == "Nan" for row in asked["popqa"]) == 2
    assert outcome.notes["popqa"] == {"put_aside": 0, "reasons": {}, "says": [], "not_asked": 0}


def test_every_question_of_entity_questions_fits_its_relations_template() -> None:
    found = read_entity_questions(
        REAL_DATA / "entity_questions", "test", relation_names("entity_questions"), {"Hull": {"Q128147"}}
    )
    assert (len(found.questions), found.rejected) == (22_075, [])
    assert len({row["relation"] for row in found.questions.values()}) == 24
    assert all(row["subject"] for row in found.questions.values())
    assert found.questions["P17-2"]["subject_id"] == "Q128147"
    assert found.notes["linked_share"] < 0.0005


def test_the_share_of_entity_questions_that_popqas_names_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONGTAIL_REAL_DATA", str(REAL_DATA))
    study = load_study(PROJECT_ROOT / "studies/entity_questions.yaml")
    lake = empty_lake(tmp_path / "lake")
    import_entities(study, lake, LOG)
    linked = link_questions(study, study.datasets[0], lake)
    names = ("n_questions", "n_linked", "n_most_popular", "n_several_entities")
    counts = [sum(getattr(linking, name) for linking in linked.linking.values()) for name in names]
    assert counts == [22_075, 862, 237, 0]


def test_natural_questions_and_trivia_qa_are_asked_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NQ_OPEN", str(REAL_DATA / "nq_open/NQ-open.dev.jsonl.gz"))
    monkeypatch.setenv("TRIVIAQA", str(REAL_DATA / "triviaqa/triviaqa_sample.jsonl.gz"))
    lake = empty_lake(tmp_path / "lake")
    build_questions(load_study(PROJECT_ROOT / "studies/open_questions.yaml"), lake, LOG)
    rows = lake.read("questions").to_pylist()
    assert Counter(row["dataset"] for row in rows) == {"nq_open": 3_610, "triviaqa": 1_000}
    assert {(row["subject"], row["subject_id"], row["relation"]) for row in rows} == {(None, None, None)}
    assert len({(row["dataset"], row["question_id"]) for row in rows}) == 4_610
