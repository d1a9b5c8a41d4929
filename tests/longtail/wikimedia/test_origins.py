"""Every origin of facts and views gives the same rows, and existing rows are not fetched again."""

from __future__ import annotations

import bz2
import gzip
from datetime import date
from pathlib import Path

import pytest

from benchmarks.generated_wiki import write_dump
from longtail.errors import SourceError, StudyError
from longtail.imports.formats.collections.cirrus_search import read_articles
from longtail.parsing.line_files import RejectedRows
from longtail.sandbox.dumps import literal, truthy_lines
from longtail.sandbox.services import DUMP
from longtail.sandbox.world import World
from longtail.storage.lake import Lake
from longtail.transfer.downloads import download_dump
from longtail.wikimedia import page_views as views
from longtail.wikimedia.ingest import ingest_entities, ingest_triples
from longtail.wikimedia.page_views import ingest_page_view_months, views_origin
from longtail.wikimedia.services import Services, find_page_view_dump, find_truthy_dump
from tests.longtail.wikimedia.conftest import empty_lake

WD = "http://www.wikidata.org/entity/"
WDT = "http://www.wikidata.org/prop/direct/"
LABEL = "<http://www.w3.org/2000/01/rdf-schema#label>"
TODAY = date(2026, 11, 20)
MONTHS = ["2026-08", "2026-09"]
SANDBOX = 'kind: sandbox, seed: 5, facts_per_relation: 16, snapshot: "2026-10"'
RDF = 'kind: rdf_file, path_env: LONGTAIL_TEST_RDF, snapshot: "2026-10"'


def _rows(lake: Lake, table: str, partition: str | None = None) -> list[dict]:
    data = lake.read(table, partition) if partition else lake.read(table)
    return [
        {k: v for k, v in row.items() if k not in ("facts_from", "views_from")} for row in data.to_pylist()
    ]


def _origins(lake: Lake, table: str) -> set[str]:
    return set(lake.read(table)["facts_from"].to_pylist())


def test_both_origins_of_facts_give_the_same_lake(make_study, log) -> None:
    lakes = {}
    for origin in ("query_service", "truthy_dump"):
        study = make_study(f"{SANDBOX}, facts_from: {origin}", name=f"from_{origin}")
        lake = lakes[origin] = empty_lake(study)
        outcomes = [ingest_triples(study, lake, log), ingest_entities(study, lake, log)]
        assert [outcome.stamp.n_quarantined for outcome in outcomes] == [0, 0]
        assert _origins(lake, "triples") == _origins(lake, "entities") == {origin}
        again = [ingest_triples(study, lake, log), ingest_entities(study, lake, log)]
        assert [outcome.was_current for outcome in again] == [True, True]
    first = lakes["query_service"]
    assert len(_rows(first, "triples")) > 250
    for lake in lakes.values():
        assert _rows(lake, "triples") == _rows(first, "triples")
        assert _rows(lake, "entities") == _rows(first, "entities")


ODD = [
    f"<{WD}Q1> {LABEL} {literal('Ada')} .",
    f"<{WD}Q1> <{WDT}P106> <{WD}Q10> .",
    f"<{WD}Q1> <{WDT}P106> <{WD}Q12> .",
    f"<{WD}Q1> <{WDT}P19> <{WD}Q11> .",
    f"<{WD}Q2> {LABEL} {literal('Bo' + chr(7) + 'b')} .",
    f"<{WD}Q2> <{WDT}P106> _:unknown .",
    f"<{WD}Q2> <{WDT}P106> <{WD}Q13> .",
    f'<{WD}Q2> <{WDT}P19> "Paris" .',
    f"<{WD}Q10> {LABEL} {literal('writer')} .",
    f"<{WD}Q10> <http://www.w3.org/2004/02/skos/core#altLabel> {literal('zz')} .",
    f"<{WD}Q10> <http://www.w3.org/2004/02/skos/core#altLabel> {literal('author')} .",
    f"<{WD}Q11> {LABEL} {literal('Köln', '@de')} .",
    f"<{WD}Q12> <http://www.w3.org/2002/07/owl#sameAs> <{WD}Q10> .",
    f'<{WD}Q1> <http://wikiba.se/ontology#sitelinks> "12"^^<http://www.w3.org/2001/XMLSchema#integer> .',
]


@pytest.mark.parametrize("compress", [bytes, gzip.compress, bz2.compress])
@pytest.mark.parametrize("has_sitelinks", [True, False])
def test_all_origins_treat_unusual_entities_alike(
    make_study, log, tmp_path, monkeypatch, compress, has_sitelinks
) -> None:
    """Redirected, deleted, unlabelled, unknown entities: the same rows, and the same quarantine with other messages."""
    lines = ODD if has_sitelinks else ODD[:-1]
    path = tmp_path / "odd.nt"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    monkeypatch.setenv("LONGTAIL_TEST_RDF", str(path))
    found = {}
    for origin in ("query_service", "truthy_dump"):
        if origin == "truthy_dump":
            path.write_bytes(compress(path.read_bytes()))
        study = make_study(f"{RDF}, facts_from: {origin}", measure="sitelinks", name=f"odd_{origin}")
        lake = empty_lake(study)
        ingest_triples(study, lake, log)
        notes = ingest_entities(study, lake, log).notes
        rejected = {(row["row_key"], row["reason"]) for row in lake.read_all("quarantine").to_pylist()}
        found[origin] = (_rows(lake, "triples"), _rows(lake, "entities"), rejected)
        if origin == "truthy_dump":
            assert notes["redirected"] == 1
    assert found["truthy_dump"] == found["query_service"]
    labels = {row["entity_id"]: row["label"] for row in found["truthy_dump"][1]}
    assert labels == {"Q1": "Ada", "Q2": "Bob", "Q10": "writer", "Q12": "writer"}
    assert ("Q11", "no English label") in found["truthy_dump"][2]
    assert ("Q13", "no such entity") in found["truthy_dump"][2]


def test_a_truncated_dump_is_an_error(make_study, log, tmp_path, monkeypatch) -> None:
    path = write_dump(truthy_lines(World(5, 40)), tmp_path / "facts.nt.gz")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    monkeypatch.setenv("LONGTAIL_TEST_RDF", str(path))
    study = make_study(f"{RDF}, facts_from: truthy_dump", measure="sitelinks")
    with pytest.raises(SourceError, match=r"facts\.nt\.gz: breaks off at byte .*fetch it again"):
        ingest_triples(study, empty_lake(study), log)


def test_a_named_dump_is_used_and_a_missing_one_is_named(make_study, log, tmp_path, monkeypatch) -> None:
    """Live sources: only files are read, and no request is sent."""
    wikidata = 'kind: wikidata, snapshot: "2026-10", facts_from: truthy_dump, views_from: dump'
    study = make_study(wikidata)
    services = Services("wikidata", None, *[""] * 6)  # type: ignore[arg-type]
    monkeypatch.setenv("LONGTAIL_TRUTHY_DUMP", str(tmp_path / "absent.nt"))
    with pytest.raises(SourceError, match=r"absent\.nt: no such file; LONGTAIL_TRUTHY_DUMP must name"):
        find_truthy_dump(study.source, study.home, services, log)
    (tmp_path / "absent.nt").touch()
    assert find_truthy_dump(study.source, study.home, services, log) == tmp_path / "absent.nt"
    monkeypatch.setenv("LONGTAIL_PAGE_VIEW_DUMPS", str(tmp_path))
    with pytest.raises(
        SourceError, match=r"pageviews-202609-user\.bz2: no such file; LONGTAIL_PAGE_VIEW_DUMPS"
    ):
        find_page_view_dump(study.source, study.home, services, "2026-09", log)
    for name in ("pageviews-202609-user", "pageviews-202609-user.gz", "pageviews-202609-user.bz2"):
        (tmp_path / name).touch()
        assert find_page_view_dump(study.source, study.home, services, "2026-09", log) == tmp_path / name


def test_many_titles_are_read_from_dumps(make_study, log, monkeypatch) -> None:
    auto = make_study(SANDBOX)
    assert [views_origin(auto.source, n, auto.popularity) for n in (0, 20_000, 20_001)] == [
        "api",
        "api",
        "dump",
    ]
    lake = empty_lake(auto)
    ingest_triples(auto, lake, log)
    ingest_entities(auto, lake, log)
    monkeypatch.setattr(views, "MOST_BY_API", 10)
    ingest_page_view_months(auto, lake, MONTHS[:1], log, TODAY)
    assert set(lake.read("page_views", MONTHS[0])["views_from"].to_pylist()) == {"dump"}


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (f"{SANDBOX}, facts_from: hearsay", "source.facts_from"),
        (f"{SANDBOX}, views_from: dumps", "source.views_from"),
        (f"{SANDBOX}, dump_env: X", "unknown key"),
        (f"{RDF}, views_from: dump", "unknown key"),
    ],
)
def test_keys_that_contradict_each_other_are_refused(make_study, source: str, says: str) -> None:
    with pytest.raises(StudyError, match=says):
        make_study(source, measure="sitelinks")


def test_articles_equal_the_world(world, server, client, log, tmp_path: Path) -> None:
    path = download_dump(client, server.base_url + DUMP, tmp_path / "cache" / "dump.json.gz", log)
    rejected = RejectedRows("dump")
    articles = [(article.entity_id, article.title, article.text) for article in read_articles(path, rejected)]
    assert articles == [(entity_id, article.title, article.text) for entity_id, article in world.articles()]
    assert rejected.rows == []
