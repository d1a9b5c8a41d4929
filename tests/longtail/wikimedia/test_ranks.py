"""Deprecated, outranked, absent and unknown statements, deleted and redirected entities: the same from every source."""

from __future__ import annotations

from pathlib import Path

import pytest

from longtail.sandbox.rdf import ABOUT, IN_LANGUAGE, NAME, PART_OF, WIKI, article_url, literal
from longtail.storage.lake import Lake
from longtail.study.file import load_study
from longtail.wikimedia.ingest import ingest_entities, ingest_triples

WD = "http://www.wikidata.org/entity/"
WDT = "http://www.wikidata.org/prop/direct/"
P, PS = "http://www.wikidata.org/prop/", "http://www.wikidata.org/prop/statement/"
RANK, SAME = "http://wikiba.se/ontology#rank", "http://www.w3.org/2002/07/owl#sameAs"
LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
SITELINKS, INTEGER = "http://wikiba.se/ontology#sitelinks", "http://www.w3.org/2001/XMLSchema#integer"


def _label(item: str, text: str, language: str = "en") -> str:
    return f"<{WD}{item}> <{LABEL}> {literal(text, f'@{language}')} ."


def _statement(subject: str, number: int, rank: str, obj: str | None, *, is_truthy: bool) -> list[str]:
    """A full statement, and the truthy one if its rank is the property's best; `obj` None: no value."""
    node = f"<{WD}statement/{subject}-{number}>"
    value = {"?": "_:unknown", None: None}.get(obj, f"<{WD}{obj}>")
    lines = [
        f"<{WD}{subject}> <{P}P106> {node} .",
        f"{node} <{RANK}> <http://wikiba.se/ontology#{rank}Rank> .",
        *([f"{node} <{PS}P106> {value} ."] if value else []),
    ]
    return [*lines, *([f"<{WD}{subject}> <{WDT}P106> {value} ."] if is_truthy and value else [])]


LINES = [
    *(_label(item, name) for item, name in {"Q1": "Ada", "Q2": "Bo", "Q3": "Cy", "Q4": "Di"}.items()),
    *(_label(item, name) for item, name in {"Q10": "writer", "Q11": "poet", "Q14": "spy"}.items()),
    _label("Q15", "Maler", "de"),
    *_statement("Q1", 1, "Normal", "Q10", is_truthy=True),
    *_statement("Q1", 2, "Normal", "Q12", is_truthy=True),
    *_statement("Q1", 3, "Deprecated", "Q14", is_truthy=False),
    *_statement("Q2", 1, "Preferred", "Q11", is_truthy=True),
    *_statement("Q2", 2, "Normal", "Q10", is_truthy=False),
    *_statement("Q2", 3, "Deprecated", "Q14", is_truthy=False),
    *_statement("Q3", 1, "Normal", None, is_truthy=True),
    *_statement("Q4", 1, "Normal", "?", is_truthy=True),
    *_statement("Q4", 2, "Normal", "Q13", is_truthy=True),
    *_statement("Q4", 3, "Normal", "Q15", is_truthy=True),
    f"<{WD}Q5> <{SAME}> <{WD}Q1> .",
    f"<{WD}Q12> <{SAME}> <{WD}Q11> .",
    *(f'<{WD}{item}> <{SITELINKS}> "3"^^<{INTEGER}> .' for item in ("Q1", "Q2", "Q4", "Q10", "Q11")),
    f"<{article_url('Ada')}> <{ABOUT}> <{WD}Q1> .",
    f"<{article_url('Ada')}> <{IN_LANGUAGE}> {literal('en', '')} .",
    f"<{article_url('Ada')}> <{PART_OF}> <{WIKI}> .",
    f"<{article_url('Ada')}> <{NAME}> {literal('Ada')} .",
]


@pytest.fixture
def lakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log) -> dict[str, tuple[Lake, dict, dict]]:
    (tmp_path / "all.nt").write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    (tmp_path / "ids").write_text("".join(f"Q{n}\n" for n in range(1, 6)), encoding="utf-8")
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LONGTAIL_RDF_FILE", str(tmp_path / "all.nt"))
    monkeypatch.setenv("LONGTAIL_ENTITY_IDS", str(tmp_path / "ids"))
    made = {}
    for origin in ("query_service", "entity_api", "truthy_dump"):
        path = tmp_path / f"from_{origin}.yaml"
        path.write_text(
            f"name: from_{origin}\ndescription: for tests\n"
            f'source: {{kind: rdf_file, snapshot: "2026-10", facts_from: {origin}}}\n'
            "datasets: [{name: all, relations: [occupation]}]\nprompts: [{name: zero_shot}]\n"
            "models: [{name: m, path: fake, backend: fake}]\npopularity: {measure: sitelinks}\n",
            encoding="utf-8",
        )
        study = load_study(path)
        lake = Lake(study.home.lake)
        lake.ensure_schemas()
        triples, entities = ingest_triples(study, lake, log), ingest_entities(study, lake, log)
        made[origin] = (lake, dict(triples.notes), dict(entities.notes))
    return made


def _rows(lake: Lake, table: str) -> list[dict]:
    return [{k: v for k, v in row.items() if k != "facts_from"} for row in lake.read(table).to_pylist()]


def test_ranks_and_odd_entities_are_the_same_from_every_source(lakes) -> None:
    first, *_ = lakes["query_service"]
    facts = [(row["subject_id"], row["object_id"]) for row in _rows(first, "triples")]
    assert facts == [("Q1", "Q10"), ("Q1", "Q12"), ("Q2", "Q11"), ("Q4", "Q13"), ("Q4", "Q15")]
    labels = {row["entity_id"]: (row["label"], row["article_title"]) for row in _rows(first, "entities")}
    assert labels == {
        "Q1": ("Ada", "Ada"),
        "Q2": ("Bo", None),
        "Q4": ("Di", None),
        "Q10": ("writer", None),
        "Q11": ("poet", None),
        "Q12": ("poet", None),
    }
    rejected = {(row["row_key"], row["reason"]) for row in first.read_all("quarantine").to_pylist()}
    assert rejected == {
        ("Q4 P106", "object is no item but an unknown value"),
        ("Q13", "no such entity"),
        ("Q15", "no English label"),
    }
    for lake, triples, entities in lakes.values():
        assert _rows(lake, "triples") == _rows(first, "triples")
        assert _rows(lake, "entities") == _rows(first, "entities")
        found = {(row["row_key"], row["reason"]) for row in lake.read_all("quarantine").to_pylist()}
        assert found == rejected
        assert (triples["triples"], triples["quarantined"]) == ({"occupation": 5}, 1)
        assert (entities["entities"], entities["redirected"], entities["quarantined"]) == (6, 1, 2)
        assert (entities["without_article"], entities["without_sitelinks"]) == (5, 1)


def test_statements_left_out_by_rank_are_counted_if_the_source_has_them(lakes) -> None:
    notes = {origin: triples for origin, (_, triples, _) in lakes.items()}
    counted = {"deprecated": 2, "outranked": 1, "no_value": 1, "redirected": 1}
    assert {name: notes["entity_api"].get(name) for name in counted} == counted
    assert not set(counted) & set(notes["query_service"]) | set(counted) & set(notes["truthy_dump"])
