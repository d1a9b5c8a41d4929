"""A study's own relations, from an RDF file: questions, wordings and passages."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from longtail.questions.build import build_paraphrases, build_questions
from longtail.retrieval.passages import build_passages
from longtail.storage.lake import Lake
from longtail.study.file import load_study
from longtail.wikimedia.ingest import ingest_entities, ingest_triples

WD, WDT = "http://www.wikidata.org/entity/", "http://www.wikidata.org/prop/direct/"
LABELS = {"Q1": "Ada", "Q2": "Bob", "Q3": "Acme", "Q4": "Yale", "Q5": "Oslo", "Q6": "a medal"}
FACTS = ("Q1 P108 Q3", "Q1 P69 Q4", "Q1 P69 Q5", "Q2 P166 Q6", "Q2 P106 Q3")
RELATIONS = """
# Three properties that PopQA has not.
- name: employer
  property: P108
  question: Who does [subj] work for?
  statement: "[subj] works for [obj]."
  wordings: [Which employer has [subj]?, "Who employs [subj]?"]
- {name: alma mater, property: P69, question: "Where did [subj] study?", statement: "[subj] studied at [obj]."}
- {name: award, property: P166, question: "Which award did [subj] get?"}
""".replace("Which employer has [subj]?", '"Which employer has [subj]?"')
STUDY = """
name: own
description: Relations of its own
source: {kind: rdf_file, path_env: LONGTAIL_TEST_RDF, snapshot: "2026-10"}
datasets: [{name: facts, relations: relations.yaml}]
prompts: [{name: zero_shot}]
models: [{name: m, path: gpt2}]
popularity: {measure: sitelinks}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    label = "<http://www.w3.org/2000/01/rdf-schema#label>"
    lines = [f'<{WD}{entity}> {label} "{text}"@en .' for entity, text in LABELS.items()]
    for subject, prop, obj in map(str.split, FACTS):
        lines.append(f"<{WD}{subject}> <{WDT}{prop}> <{WD}{obj}> .")
    (tmp_path / "facts.nt").write_text("".join(f"{line}\n" for line in lines))
    (tmp_path / "study.yaml").write_text(STUDY)
    (tmp_path / "relations.yaml").write_text(RELATIONS)
    monkeypatch.setenv("LONGTAIL_TEST_RDF", str(tmp_path / "facts.nt"))
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path / "home"))
    return tmp_path


def test_the_files_relations_make_questions_wordings_and_passages(folder: Path, log: logging.Logger) -> None:
    study = load_study(folder / "study.yaml")
    lake = Lake(study.home.lake)
    lake.ensure_schemas()
    for stage in (ingest_triples, ingest_entities, build_questions, build_paraphrases, build_passages):
        stage(study, lake, log)
    questions = lake.read("questions").to_pylist()
    assert {row["question_id"]: (row["relation"], row["question"], row["objects"]) for row in questions} == {
        "Q1-P108": ("employer", "Who does Ada work for?", ["Acme"]),
        "Q1-P69": ("alma mater", "Where did Ada study?", ["Yale", "Oslo"]),
        "Q2-P166": ("award", "Which award did Bob get?", ["a medal"]),
    }
    assert [row["relation"] for row in questions] == ["employer", "alma mater", "award"]
    wordings = lake.read("paraphrases").to_pylist()
    assert [row["paraphrase"] for row in wordings if row["question_id"] == "Q1-P108"] == [
        "Who does Ada work for?", "Which employer has Ada?", "Who employs Ada?"
    ]  # fmt: skip
    texts = {row["entity_id"]: row["text"] for row in lake.read("passages").to_pylist()}
    assert texts == {"Q1": "Ada works for Acme. Ada studied at Yale and Oslo."}  # an award has no statement
