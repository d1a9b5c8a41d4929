"""A study of three properties that PopQA has not, from an RDF file and a file of relations to the marts."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest

from tests.in_process_dbt import put_parsed
from tests.journeys.commands import run_up_to_the_warehouse
from tests.warehouses import build_marts

pytestmark = [pytest.mark.journey]

WD, WDT = "http://www.wikidata.org/entity/", "http://www.wikidata.org/prop/direct/"
LABEL, SITELINKS = "http://www.w3.org/2000/01/rdf-schema#label", "http://wikiba.se/ontology#sitelinks"
N_PEOPLE = 12
PROPERTIES = {"employer": "P108", "alma mater": "P69", "award": "P166"}
RELATIONS = """
- name: employer
  property: P108
  question: Who does [subj] work for?
  statement: "[subj] works for [obj]."
  wordings: ["Which employer does [subj] have?"]
- name: alma mater
  property: P69
  question: Where did [subj] study?
  statement: "[subj] studied at [obj]."
  wordings: ["Which school taught [subj]?", "[subj] is an alumnus of what?"]
- name: award
  property: P166
  question: Which award did [subj] receive?
  statement: "[subj] received [obj]."
"""
STUDY = """
name: own_relations
description: Three relations of its own, answered by a scripted backend
source: {kind: rdf_file, path_env: LONGTAIL_OWN_RDF, snapshot: "2026-10"}
datasets: [{name: people, relations: relations.yaml}]
prompts: [{name: zero_shot, generations: [questions, paraphrases]}]
models: [{name: scripted, path: script.json, backend: fake}]
methods: [closed_book, bm25, oracle]
max_new_tokens: 40
popularity: {measure: sitelinks}
embeddings: {least_paraphrase_cosine: 0.5}
"""


def write_study(folder: Path) -> Path:
    """People with an employer, a school and an award each. The model knows what the popular half's awards are."""
    lines, answers = [], {}
    for number in range(1, N_PEOPLE + 1):
        person = f"Person {'ABCDEFGHIJKL'[number - 1]}"
        lines += [f'{WD}Q{number} {LABEL} "{person}"@en', f'{WD}Q{number} {SITELINKS} "{number * number}"']
        for place, (name, prop) in enumerate(PROPERTIES.items(), 1):
            answer = f"{name.title()} {number}"
            lines += [
                f"{WD}Q{number} {WDT}{prop} {WD}Q{1000 * place + number}",
                f'{WD}Q{1000 * place + number} {LABEL} "{answer}"@en',
            ]
            if name == "award" and number > N_PEOPLE // 2:
                answers[f"Which award did {person} receive?"] = answer
    triples = []
    for line in lines:
        subject, predicate, obj = line.split(" ", 2)
        triples.append(f"<{subject}> <{predicate}> {obj if obj.startswith(chr(34)) else f'<{obj}>'} .\n")
    (folder / "facts.nt").write_text("".join(triples), encoding="utf-8")
    (folder / "relations.yaml").write_text(RELATIONS, encoding="utf-8")
    (folder / "script.json").write_text(json.dumps({"rule": "passage", "answers": answers}), encoding="utf-8")
    (folder / "study.yaml").write_text(STUDY, encoding="utf-8")
    return folder / "study.yaml"


def test_relations_of_ones_own_reach_the_marts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study, home = write_study(tmp_path), tmp_path / "home"
    monkeypatch.setenv("LONGTAIL_OWN_RDF", str(tmp_path / "facts.nt"))
    put_parsed(home, study)
    run_up_to_the_warehouse(home, study)
    build = build_marts(
        home, study, "dim_relations", "fct_accuracy", "fct_semantic_consistency", "fct_adaptive_thresholds"
    )

    with duckdb.connect(str(build), read_only=True) as connection:
        connection.execute("set search_path = 'marts'")

        def rows(query: str) -> list[tuple[object, ...]]:
            return connection.sql(query).fetchall()

        columns = "relation, property_id, n_paraphrases, n_questions, n_questions_with_popularity"
        assert rows(f"select {columns} from dim_relations order by relation") == [
            ("alma mater", "P69", 2, N_PEOPLE, N_PEOPLE),
            ("award", "P166", 0, N_PEOPLE, N_PEOPLE),
            ("employer", "P108", 1, N_PEOPLE, N_PEOPLE),
        ]
        found = rows("select method, relation, n, n_correct from fct_accuracy where relation <> 'all'")
        right = {(method, relation): n for method, relation, _, n in found}
        assert {n for _, _, n, _ in found} == {N_PEOPLE}
        assert right["closed_book", "award"] == N_PEOPLE // 2
        assert right["closed_book", "employer"] == right["closed_book", "alma mater"] == 0
        assert {right["oracle", relation] for relation in PROPERTIES} == {N_PEOPLE}
        compared = rows("select distinct relation from fct_semantic_consistency where scons is not null")
        assert {("employer",), ("alma mater",)} <= {*compared}
        thresholds = rows("select distinct relation from fct_adaptive_thresholds")
        assert {*thresholds} == {*((name,) for name in PROPERTIES), ("all",)}
