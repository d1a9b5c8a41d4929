"""From a study to the lake's facts: sandbox, RDF file, and refusals."""

from __future__ import annotations

import gzip
import logging
import os
import threading
from datetime import date
from pathlib import Path

import pytest

from longtail.errors import LakeError, SourceError
from longtail.sandbox.dumps import literal
from longtail.sandbox.server import SandboxServer
from longtail.sandbox.world import Pages, World
from longtail.storage.home import PROJECT_ROOT
from longtail.storage.lake import Lake, Outcome
from longtail.study.file import load_study
from longtail.study.study import Study
from longtail.wikimedia.ingest import ingest_entities, ingest_triples
from longtail.wikimedia.page_views import ingest_page_view_months
from longtail.wikimedia.services import open_services
from tests.longtail.wikimedia.conftest import empty_lake

WD = "http://www.wikidata.org/entity/"
WDT = "http://www.wikidata.org/prop/direct/"
LABEL = "<http://www.w3.org/2000/01/rdf-schema#label>"
ENTITIES_COLUMNS = ["entity_id", "label", "description", "article_title", "sitelinks"]
TODAY = date(2026, 11, 20)
SANDBOX = 'kind: sandbox, seed: 5, facts_per_relation: 16, snapshot: "2026-10"'
RDF = 'kind: rdf_file, path_env: LONGTAIL_TEST_RDF, snapshot: "2026-10"'
WIKIDATA = 'kind: wikidata, snapshot: "2026-10"'
DATASETS = "[{name: first, relations: [occupation, place of birth]}, {name: second, relations: [mother]}]"


def _month(study: Study, lake: Lake, month: str, log: logging.Logger, today: date) -> Outcome:
    (outcome,) = ingest_page_view_months(study, lake, [month], log, today)
    return outcome


def test_the_whole_sandbox_world_arrives(make_study, log) -> None:
    study = make_study(SANDBOX, DATASETS)
    lake, world = empty_lake(study), World(5, 16)
    triples, entities = ingest_triples(study, lake, log), ingest_entities(study, lake, log)
    assert not triples.was_current
    asked = {"P106": "occupation", "P19": "place of birth", "P25": "mother"}
    expected = {
        (t.subject_id, t.property_id, t.object_id, asked[t.property_id], "sandbox", "query_service")
        for t in world.triples()
        if t.property_id in asked
    }
    rows = [tuple(row.values()) for row in lake.read("triples").to_pylist()]
    assert set(rows) == expected
    assert len(rows) == len(expected) == triples.stamp.n_rows == sum(triples.notes["triples"].values())

    found = {row["entity_id"]: row for row in lake.read("entities").to_pylist()}
    assert set(found) == {end for row in expected for end in (row[0], row[2])}
    assert entities.stamp.n_rows == len(found)
    for entity_id, row in found.items():
        entity = world.entity(entity_id)
        assert [row[name] for name in ENTITIES_COLUMNS] == [
            getattr(entity, name) for name in ENTITIES_COLUMNS
        ]
        assert set(row["aliases"]) == set(entity.aliases)

    views = _month(study, lake, "2026-09", log, TODAY)
    rows = lake.read("page_views", "2026-09").to_pylist()
    assert {row["entity_id"]: row["views"] for row in rows} == {
        entity_id: world.monthly_views(entity_id, "2026-09")
        for entity_id in found
        if found[entity_id]["article_title"]
    }
    assert {(row["month"], row["source"]) for row in rows} == {("2026-09", "sandbox")}
    moved = sum(row["resolved_title"] != row["article_title"] for row in rows)
    assert moved > 0
    assert views.notes == {"articles": len(rows), "missing": 0, "moved": moved}
    assert lake.partitions("quarantine") == []


def _people(folder: Path, monkeypatch: pytest.MonkeyPatch, *more: str) -> None:
    lines = [
        f"<{WD}Q1> {LABEL} {literal('Ada')} .",
        f"<{WD}Q1> <{WDT}P106> <{WD}Q10> .",
        f"<{WD}Q1> <{WDT}P19> <{WD}Q11> .",
        f"<{WD}Q10> {LABEL} {literal('writer')} .",
        f"<{WD}Q11> {LABEL} {literal('Köln', '@de')} .",
        f'<{WD}Q1> <http://wikiba.se/ontology#sitelinks> "12"^^<http://www.w3.org/2001/XMLSchema#integer> .',
        *more,
    ]
    path = folder / "people.nt.gz"
    path.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode()))
    monkeypatch.setenv("LONGTAIL_TEST_RDF", str(path))


def test_an_rdf_file_with_broken_lines(make_study, log, tmp_path, monkeypatch) -> None:
    nul = f"<{WD}Q2> {LABEL} {literal('Bo' + chr(0) + 'b')} ."
    unknown = f"<{WD}Q2> <{WDT}P106> _:b0 ."
    _people(tmp_path, monkeypatch, "broken \x00 line", nul, f"<{WD}Q2> <{WDT}P106> <{WD}Q10> .", unknown)
    study = make_study(RDF, DATASETS, "sitelinks")
    lake = empty_lake(study)
    triples, entities = ingest_triples(study, lake, log), ingest_entities(study, lake, log)
    assert (triples.stamp.n_rows, triples.stamp.n_quarantined) == (3, 2)
    assert (entities.stamp.n_rows, entities.stamp.n_quarantined) == (3, 2)
    rows = lake.read_all("quarantine").to_pylist()
    assert {(row["table_name"], row["row_key"], row["reason"].split(":")[0]) for row in rows} == {
        ("triples", "7", "not N-Triples"),
        ("triples", "Q2 P106", "object is no item but an unknown value"),
        ("entities", "Q11", "no English label"),
        ("entities", "Q2 label", "label kept, control characters removed"),
    }
    assert {row["raw"] for row in rows} >= {"broken \\x00 line", "Bo\\x00b"}
    labels = {row["label"]: row["sitelinks"] for row in lake.read("entities").to_pylist()}
    assert labels == {"Ada": 12, "writer": None, "Bob": None}


def test_a_changed_file_makes_facts_stale_and_a_corrected_one_empties_quarantine(
    make_study, log, tmp_path, monkeypatch
) -> None:
    study = make_study(RDF, DATASETS, "sitelinks")
    lake = empty_lake(study)
    _people(tmp_path, monkeypatch, "broken line")
    before = ingest_triples(study, lake, log)
    assert ingest_triples(study, lake, log).was_current
    _people(tmp_path, monkeypatch)
    after = ingest_triples(study, lake, log)
    assert (after.was_current, after.stamp.n_quarantined) == (False, 0)
    assert after.stamp.content == before.stamp.content
    assert lake.partitions("quarantine") == []


def test_a_failing_source_leaves_the_lake_unchanged(make_study, log, tmp_path, monkeypatch) -> None:
    study = make_study(RDF, DATASETS, "sitelinks")
    lake = empty_lake(study)
    _people(tmp_path, monkeypatch)
    stamp = ingest_triples(study, lake, log).stamp
    (tmp_path / "people.nt.gz").write_bytes(b"no triple here\n")
    with pytest.raises(SourceError, match="holds no triple"):
        ingest_triples(study, lake, log)
    monkeypatch.delenv("LONGTAIL_TEST_RDF")
    with pytest.raises(SourceError, match="LONGTAIL_TEST_RDF is not set"):
        ingest_triples(study, lake, log)
    assert lake.stamp("triples") == stamp


def test_a_file_without_the_relations_is_refused(make_study, log, tmp_path, monkeypatch) -> None:
    _people(tmp_path, monkeypatch)
    study = make_study(RDF, DATASETS.replace("occupation, place of birth", "capital"), "sitelinks")
    with pytest.raises(SourceError, match="no statement of mother, capital"):
        ingest_triples(study, empty_lake(study), log)


def test_entities_need_triples_and_views_need_entities(make_study, log) -> None:
    study = make_study(SANDBOX, DATASETS)
    with pytest.raises(LakeError, match="lake table triples is missing"):
        ingest_entities(study, empty_lake(study), log)
    with pytest.raises(LakeError, match="lake table entities is missing"):
        _month(study, empty_lake(study), "2026-09", log, TODAY)


@pytest.mark.parametrize("month", ["2026-12", "2027-01", "2015-06", "2026-13", "oct", ""])
def test_months_without_complete_data_are_refused(make_study, log, month: str) -> None:
    study = make_study(SANDBOX, DATASETS)
    with pytest.raises(SourceError, match=r"month|YYYY-MM"):
        _month(study, empty_lake(study), month, log, date(2026, 12, 31))


def test_the_running_month_is_refused_but_the_sandbox_has_its_snapshot(make_study, log) -> None:
    study = make_study(WIKIDATA, DATASETS)
    with pytest.raises(SourceError, match="complete months here are 2015-07 to 2026-09"):
        _month(study, empty_lake(study), "2026-10", log, date(2026, 11, 2))  # counted from the third
    sandbox = make_study(SANDBOX, DATASETS)
    lake = empty_lake(sandbox)
    ingest_triples(sandbox, lake, log)
    ingest_entities(sandbox, lake, log)
    behind = _month(sandbox, lake, "2026-10", log, date(2024, 1, 1))  # a machine with a slow clock
    assert behind.stamp.n_rows > 0


class _LateCounts(Pages):
    """Pages whose views in the newest month have not been counted yet."""

    def views(self, title: str, month: str) -> int | None:
        return 7 if month < "2026-09" and title == "Ada" else None

    def lead_to(self, title: str) -> tuple[str, str | None]:
        return title, None


def test_a_live_month_without_any_views_is_refused(make_study, log, serve_live) -> None:
    study = make_study(WIKIDATA, DATASETS)
    lake = empty_lake(study)
    entity = {"description": "", "aliases": [], "sitelinks": 1, "source": "wikidata"}
    rows = [
        {**entity, "entity_id": f"Q{place}", "label": title, "article_title": title}
        for place, title in enumerate(["Ada", "Bo"])
    ]
    lake.write("entities", rows, fingerprint="f")
    with SandboxServer(World(5, 8)) as server:
        server.content.pages = _LateCounts(World(5, 8))
        serve_live(server)
        with pytest.raises(
            SourceError, match="no views of any of 2 articles in 2026-09; nothing was written"
        ):
            ingest_page_view_months(study, lake, ["2026-08", "2026-09"], log, TODAY)
        assert lake.partitions("page_views") == []
        assert _month(study, lake, "2026-08", log, TODAY).notes == {"articles": 2, "missing": 1}
    assert {row["source"] for row in lake.read("page_views", "2026-08").to_pylist()} == {"wikimedia"}


def test_an_rdf_file_has_no_page_views(make_study, log) -> None:
    study = make_study(RDF, DATASETS, "sitelinks")
    with pytest.raises(SourceError, match="sitelinks"):
        _month(study, empty_lake(study), "2026-09", log, TODAY)


def test_live_services_need_a_contact(make_study, log, monkeypatch) -> None:
    monkeypatch.delenv("LONGTAIL_CONTACT", raising=False)
    study = make_study(WIKIDATA, DATASETS)
    with pytest.raises(SourceError, match="LONGTAIL_CONTACT"):
        ingest_triples(study, empty_lake(study), log)
    monkeypatch.setenv("LONGTAIL_CONTACT", "mailto:someone@example.org")
    with open_services(study.source, study.home) as services:
        urls = [services.sparql_url, services.entities_url, services.page_views_url]
    assert all(url.startswith("https://") for url in urls)
    assert services.label == "wikidata"


def test_services_end_without_a_trace(make_study) -> None:
    study = make_study(SANDBOX, DATASETS)
    before = threading.active_count()
    with open_services(study.source, study.home) as services:
        assert services.label == "sandbox"
        assert services.articles_url
    assert threading.active_count() == before


@pytest.mark.skipif(not os.environ.get("LONGTAIL_PEOPLE_RDF"), reason="LONGTAIL_PEOPLE_RDF names no file")
def test_real_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log) -> None:
    """Every occupation and birthplace in the file, counted by an independent reader."""
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path))
    study = load_study(PROJECT_ROOT / "studies" / "wikidata_people.yaml")
    lake = empty_lake(study)
    triples, entities = ingest_triples(study, lake, log), ingest_entities(study, lake, log)
    path = Path(os.environ["LONGTAIL_PEOPLE_RDF"])
    text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text("utf-8")
    facts = {
        tuple(line.split()[:3])
        for line in text.splitlines()
        if f"<{WDT}P106>" in line or f"<{WDT}P19>" in line
    }
    labelled = {
        line.split(" ", 1)[0] for line in text.splitlines() if LABEL in line and line.endswith("@en .")
    }
    ends = {end for fact in facts for end in (fact[0], fact[2])}
    assert triples.stamp.n_rows == len(facts)
    assert entities.stamp.n_rows == len(ends & labelled)
    assert entities.stamp.n_quarantined == len(ends - labelled)
    rows = lake.read("entities", columns=["entity_id", "sitelinks"]).to_pylist()
    subjects = {fact[0].removeprefix(f"<{WD}").rstrip(">") for fact in facts}
    assert all(row["sitelinks"] is not None for row in rows if row["entity_id"] in subjects)
