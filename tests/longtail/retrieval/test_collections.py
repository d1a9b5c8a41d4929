"""Collections as tables passages and excluded_pages: joined, cut, named, linked to entities, never without licence."""

from __future__ import annotations

import dataclasses
import gzip
import json
import logging
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import escape

import pytest

from benchmarks.generated_wiki import page_lines, write_dump
from longtail.errors import LakeError, SourceError
from longtail.imports.datasets import import_entities
from longtail.imports.wiki import DISAMBIGUATION, REDIRECT, ExcludedPage
from longtail.parsing.line_files import RejectedRows
from longtail.preflight import needs_of_places
from longtail.retrieval.collections import ExcludedPages, FirstRows, entities_by_title, write_beside
from longtail.retrieval.passages import build_passages
from longtail.retrieval.retrieve import retrieve_passages
from longtail.sandbox.world import Pages, World
from longtail.storage.files import STAGING
from longtail.storage.lake import Lake, Outcome
from longtail.study.file import load_study
from longtail.study.study import Study
from tests.real_data import REAL_DATA, needs_real_data
from tests.small_disk import files_up_to

PSGS = [
    ("10", "Ada Quill was a weaver.", "Ada Quill (weaver)"),
    ("11", "She is buried in Lodz.", "Ada Quill (weaver)"),
    ("10", "another text", "Łódź"),
    ("12", " ", "Łódź"),
    ("13", "no title", ""),
    ("14", "long title", "x" * 256),
    ("", "no id", "Łódź"),
    ("16", "word " * 1_001, "Łódź"),
    ("15", "Łódź is a city.", "Łódź"),
]
LEADS = [
    {"title": "Łódź", "text": "Łódź is a city."},
    {"title": "Long", "text": " ".join(f"Sentence {i} has exactly seven words here." for i in range(40))},
    {"title": "Ada Quill (weaver)", "text": "A first part.\u0000"},
    {"title": "Ada Quill (weaver)", "text": "A second part 👩‍🚀."},
    {"title": "Ada Quill (weaver)", "text": "A first part."},
]
COLLECTIONS = """
collections:
  - {name: psgs, format: dpr, path: psgs.tsv, source: Wikipedia by DPR, date: 2018-12-20, licence: CC BY-SA 3.0}
  - {name: leads, format: articles, path: leads.jsonl, source: Wikipedia's leads, date: unknown, licence: CC BY-SA 4.0}
"""


def write_files(
    folder: Path, psgs: list[tuple[str, str, str]] = PSGS, leads: Sequence[Mapping[str, Any]] = LEADS
) -> None:
    rows = ["id\ttext\ttitle", *("\t".join(row) for row in psgs)]
    (folder / "psgs.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    (folder / "leads.jsonl").write_text("".join(json.dumps(lead) + "\n" for lead in leads), encoding="utf-8")


@pytest.fixture
def collected(make_study: Callable[[str], Study], rdf_text: str, hand_lake: Lake) -> Study:
    """A study with two collections, and the hand-made lake, where some entities have articles."""
    rows = hand_lake.read("entities").to_pylist()
    articles = {"Q1": "Ada Quill (weaver)"}
    rows = [{**row, "article_title": articles.get(row["entity_id"])} for row in rows]
    hand_lake.write("entities", rows, fingerprint="with articles")
    study = make_study(rdf_text + COLLECTIONS)
    write_files(study.path.parent)
    return study


def built(study: Study, lake: Lake, log: logging.Logger) -> tuple[Outcome, dict[str, dict[str, Any]]]:
    outcome = build_passages(study, lake, log)
    return outcome, {row["passage_id"]: row for row in lake.read("passages").to_pylist()}


def test_collections_are_joined_in_order(collected: Study, hand_lake: Lake, log: logging.Logger) -> None:
    outcome, rows = built(collected, hand_lake, log)
    assert list(rows) == [
        "psgs:10", "psgs:11", "psgs:15",
        "leads:Long-0", "leads:Long-1", "leads:Long-2", "leads:Ada Quill (weaver)-0", "leads:Ada Quill (weaver)-1",
    ]  # fmt: skip
    assert [row["position"] for row in rows.values()] == [0, 1, 0, 0, 1, 2, 0, 1]
    assert rows["psgs:11"] == {
        "passage_id": "psgs:11", "entity_id": "Q1", "title": "Ada Quill (weaver)", "position": 1,
        "text": "She is buried in Lodz.", "source": "collection", "collection": "psgs",
        "collection_source": "Wikipedia by DPR", "collection_date": "2018-12-20", "licence": "CC BY-SA 3.0",
        "section": None, "revision": None, "url": None, "revision_date": None,
    }  # fmt: skip
    last = rows["leads:Ada Quill (weaver)-1"]
    assert (last["text"], last["licence"], last["collection_date"]) == (
        "A second part 👩‍🚀.",
        "CC BY-SA 4.0",
        None,
    )
    assert rows["leads:Ada Quill (weaver)-0"]["text"] == "A first part."
    words = [word for i in range(3) for word in rows[f"leads:Long-{i}"]["text"].split()]
    assert words == LEADS[1]["text"].split()
    assert outcome.notes["collections"] == {
        "psgs": {"passages": 3, "linked to an entity": 3, "known already": 0, "rows rejected": 6},
        "leads": {"passages": 5, "linked to an entity": 2, "known already": 2, "rows rejected": 0},
    }


def test_a_quick_run_searches_passages_about_entities(
    collected: Study, hand_lake: Lake, log: logging.Logger
) -> None:
    whole, all_rows = built(collected, hand_lake, log)
    quick, rows = built(dataclasses.replace(collected, limit=150), hand_lake, log)
    assert {row["title"] for row in all_rows.values()} > {row["title"] for row in rows.values()}
    assert rows == {name: row for name, row in all_rows.items() if row["entity_id"]}
    assert rows
    assert not whole.was_current
    assert not quick.was_current


def test_rows_left_out_say_why(collected: Study, hand_lake: Lake, log: logging.Logger) -> None:
    built(collected, hand_lake, log)
    rejected = hand_lake.read("quarantine", "passages|all").to_pylist()
    assert sorted((row["row_key"], row["reason"]) for row in rejected) == [
        ("leads.jsonl row 1", "kept once: row 9 of collection psgs has the same title and text"),
        ("leads.jsonl row 5", "kept once: row 3 of collection leads has the same title and text"),
        ("psgs.tsv row 3", "id '10': row 1 has it already; that row is kept"),
        ("psgs.tsv row 4", "text: is empty"),
        ("psgs.tsv row 5", "title: a text was expected"),
        ("psgs.tsv row 6", "title: at most 255 characters were expected, not 256"),
        ("psgs.tsv row 7", "id: a text was expected"),
        ("psgs.tsv row 8", "text: a passage of at most 1,000 words was expected, not 1,001"),
    ]


def test_a_section_is_cleaned_as_the_text_is(
    make_study: Callable[[str], Study], rdf_text: str, hand_lake: Lake, log: logging.Logger
) -> None:
    declared = "{name: atlas, format: atlas, path: a.jsonl, source: A, date: unknown, licence: none}"
    study = make_study(f"{rdf_text}\ncollections:\n  - {declared}\n")
    odd = [("1", "Life\x00 \ud800and\nwork", "She wove."), ("2", "\x01", "She left.")]
    lines = [{"id": name, "title": "Ann", "section": section, "text": text} for name, section, text in odd]
    (study.path.parent / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    _, rows = built(study, hand_lake, log)
    assert [(row["section"], row["text"]) for row in rows.values()] == [
        ("Life and work", "Life and work: She wove."),
        (None, "She left."),
    ]


def test_a_label_links_only_an_entity_without_article_or_namesake() -> None:
    def entity(entity_id: str, label: str, article: str | None = None) -> dict[str, str | None]:
        return {"entity_id": entity_id, "label": label, "article_title": article}

    assert entities_by_title([
        entity("Q1", "Harvest", "Harvest (2010 film)"),  # article Harvest is about something else
        entity("Q2", "Ann"),
        entity("Q3", "Bob"),
        entity("Q4", "Bob", "Bob (painter)"),
        entity("Q5", "Cid", "Shared"),
        entity("Q6", "Dan", "Shared"),
        entity("Q7", "Ann (film)", "Ann"),  # whose article it is goes before who is called so
    ]) == {"Harvest (2010 film)": "Q1", "Bob (painter)": "Q4", "Ann": "Q7"}  # fmt: skip


def test_a_file_that_names_entities_decides_whom_its_passages_are_about(
    collected: Study, hand_lake: Lake, log: logging.Logger
) -> None:
    """The title links where the file says nothing; a quick run leaves out entities that the lake does not know."""
    leads = [
        {"title": "Ada Quill (weaver)", "text": "By her title."},
        {"title": "Ada Quill (weaver)", "text": "About another.", "entity_id": "Q2"},
        {"title": "Ada Quill", "text": "A namesake.", "entity_id": "Q77"},
        {"title": "Ada Quill", "text": "Nobody knows.", "entity_id": None},
        {"title": "Ada Quill", "text": "No id.", "entity_id": 7},
    ]
    write_files(collected.path.parent, leads=leads)
    outcome, rows = built(collected, hand_lake, log)
    found = {row["text"]: row["entity_id"] for row in rows.values() if row["collection"] == "leads"}
    assert found == {
        "By her title.": "Q1", "About another.": "Q2", "A namesake.": "Q77", "Nobody knows.": None, "No id.": None,
    }  # fmt: skip
    assert outcome.notes["collections"]["leads"] == {
        "passages": 5, "linked to an entity": 3, "known already": 0, "rows rejected": 0,
        "values of key entity_id that are no text left out": 1,
    }  # fmt: skip
    _, quick = built(dataclasses.replace(collected, limit=150), hand_lake, log)
    assert "About another." in {row["text"] for row in quick.values()}
    assert not {"A namesake.", "Nobody knows."} & {row["text"] for row in quick.values()}


def test_the_oracle_reads_the_subject_s_passages(
    collected: Study, searchable: Lake, log: logging.Logger
) -> None:
    built(collected, searchable, log)
    retrieve_passages(collected, searchable, "oracle", log)
    rows = searchable.read("retrieved_passages", "oracle").to_pylist()
    assert {row["question_id"]: row["passage_id"] for row in rows} == {
        "Q1-P106": "psgs:10",
        "Q1-P19": "psgs:11",
    }


@pytest.mark.parametrize(
    ("psgs", "leads", "message"),
    [
        ([("1", "text", "")], LEADS, r"psgs\.tsv: no row gives collection psgs .*; the first one: title: a text"),
        ([], LEADS, r"psgs\.tsv: no row gives collection psgs \(format dpr\) a passage$"),
        (PSGS, [{"text": "a"}], r"leads\.jsonl: no row gives collection leads .*: key title: a text was expected"),
        (PSGS, [], r"leads\.jsonl: is empty"),
    ],
)  # fmt: skip
def test_a_collection_without_passages_is_refused(
    collected: Study,
    hand_lake: Lake,
    log: logging.Logger,
    psgs: list[tuple[str, str, str]],
    leads: list[dict[str, str]],
    message: str,
) -> None:
    write_files(collected.path.parent, psgs, leads)
    with pytest.raises(SourceError, match=message):
        build_passages(collected, hand_lake, log)


def test_a_missing_file_is_told_before_anything_is_computed(collected: Study) -> None:
    (collected.path.parent / "leads.jsonl").unlink()
    psgs, leads = needs_of_places(collected)
    assert (psgs.where, leads.where) == ("collections[0]", "collections[1]")
    psgs.check()
    with pytest.raises(SourceError, match=r"leads\.jsonl: there is no such file"):
        leads.check()


def test_a_wikipedia_dump_is_a_collection(
    make_study: Callable[[str], Study], rdf_text: str, hand_lake: Lake, log: logging.Logger
) -> None:
    world = World(seed=4, facts_per_relation=8)
    declared = "{name: wiki, format: wikipedia_xml, path: w.xml.bz2, source: W, date: unknown, licence: CC BY-SA 4.0}"
    study = make_study(f"{rdf_text}\ncollections:\n  - {declared}\n")
    write_dump(page_lines(world, per_page=2), study.path.parent / "w.xml.bz2")
    outcome, rows = built(study, hand_lake, log)
    first, second = (article for _, article in islice(world.articles(), 2))
    lead, section = list(rows.values())[:2]
    assert (lead["text"], lead["section"]) == (first.text, None)
    assert (section["text"], section["section"]) == (f"{second.title}: {second.text}", second.title)
    assert section["passage_id"] == f"wiki:{first.title}-1"
    assert section["url"] == f"https://en.wikipedia.org/wiki/{quote(first.title.replace(' ', '_'))}"
    assert section["revision_date"] == "2026-10-01T00:00:00Z"
    assert section["revision"]
    counts = outcome.notes["collections"]["wiki"]
    assert counts["passages"] == len(rows) == sum(1 for _ in world.articles())
    assert counts["redirects left out"] > 0


def test_the_first_of_many_equal_texts_is_found_again() -> None:
    known, expected = FirstRows(), dict[str, int]()
    draw = random.Random(1)
    for start in range(0, 5_000, 100):
        texts = [str(draw.randrange(2_000)) for _ in range(100)]
        rows = list(range(start, start + 100))
        for text, row in zip(texts, rows, strict=True):
            expected.setdefault(text, row)
        assert known.of(texts, rows) == [expected[text] for text in texts]


DECLARED = "{name: wiki, format: wikipedia_xml, path: w.xml, source: W, date: unknown, licence: CC BY-SA 4.0}"
HEAD = "<mediawiki><siteinfo></siteinfo>"


@pytest.fixture
def wiki_study(make_study: Callable[[str], Study], rdf_text: str) -> Study:
    return make_study(f"{rdf_text}\ncollections:\n  - {DECLARED}\n")


def write_wiki(study: Study, pages: dict[str, str], end: str = "</mediawiki>") -> Path:
    file = study.path.parent / "w.xml"
    lines = [
        f"<page>\n<title>{escape(title)}</title>\n<ns>0</ns>\n<id>{number}</id>\n<revision><id>1</id>"
        "<timestamp>2026-01-01T00:00:00Z</timestamp><model>wikitext</model>"
        f"<text>{escape(text)}</text></revision>\n</page>\n"
        for number, (title, text) in enumerate(pages.items(), 1)
    ]
    file.write_text(HEAD + "".join(lines) + end, encoding="utf-8")
    return file


def listed(lake: Lake) -> list[dict[str, Any]]:
    return lake.read("excluded_pages").to_pylist()


def test_the_sandbox_s_redirects_are_those_of_its_world(
    make_study: Callable[[str], Study], rdf_text: str, hand_lake: Lake, log: logging.Logger
) -> None:
    world = World(seed=4, facts_per_relation=8)
    study = make_study(f"{rdf_text}\ncollections:\n  - {DECLARED}\n")
    write_dump(page_lines(world), study.path.parent / "w.xml")
    build_passages(study, hand_lake, log)
    pages, wanted = Pages(world), Counter[tuple[str, str, str | None]]()
    for entity_id, article in world.articles():
        redirects = [one for one in pages.redirects(world.entity(entity_id)) if one.title != article.title]
        wanted.update((one.title, article.title, one.section) for one in redirects)
    rows = listed(hand_lake)
    assert Counter((row["title"], row["target_title"], row["target_section"]) for row in rows) == wanted
    assert {(row["collection"], row["kind"]) for row in rows} == {("wiki", REDIRECT)}
    assert any(row["target_section"] for row in rows)
    assert [row["page_number"] for row in rows] == sorted(row["page_number"] for row in rows)


def test_odd_titles_chains_and_loops_are_listed_as_they_are(
    wiki_study: Study, hand_lake: Lake, log: logging.Logger
) -> None:
    pages = {
        "Łódź": "A city.",
        "Lodz": "#REDIRECT [[Łódź]]",
        "Lodsch": "#redirect [[Lodz#History]]",
        "Loop": "#REDIRECT [[Pool]]",
        "Pool": "#REDIRECT [[Loop]]",
        "Broken": "#REDIRECT [[",
        "👩‍🚀 \0\x01x": "#REDIRECT [[Ada\0 👩‍🚀]]",
        "Mercury": "{{disambiguation}}",
        "\x7f": "#REDIRECT [[Łódź]]",
        "x" * 256: "#REDIRECT [[Łódź]]",
    }
    write_wiki(wiki_study, pages)
    outcome = build_passages(wiki_study, hand_lake, log)
    assert [
        (row["page_number"], row["title"], row["kind"], row["target_title"], row["target_section"])
        for row in listed(hand_lake)
    ] == [
        (2, "Lodz", REDIRECT, "Łódź", None),
        (3, "Lodsch", REDIRECT, "Lodz", "History"),
        (4, "Loop", REDIRECT, "Pool", None),
        (5, "Pool", REDIRECT, "Loop", None),
        (6, "Broken", REDIRECT, None, None),
        (7, "👩‍🚀 x", REDIRECT, "Ada 👩‍🚀", None),
        (8, "Mercury", DISAMBIGUATION, None, None),
    ]
    rejected = hand_lake.read("quarantine", "passages|all").to_pylist()
    assert [(row["row_key"], row["reason"].partition(", not")[0]) for row in rejected] == [
        ("w.xml row 9", "redirect: title: 1 to 255 characters were expected"),
        ("w.xml row 10", "redirect: title: 1 to 255 characters were expected"),
    ]
    counts = outcome.notes["collections"]["wiki"]
    assert (counts["passages"], counts["redirects left out"], counts["disambiguation pages left out"]) == (
        1,
        8,
        1,
    )


def test_only_a_whole_pass_gives_a_list_and_one_without_passages_is_none(
    wiki_study: Study, rdf_study: Study, hand_lake: Lake, log: logging.Logger
) -> None:
    pages = {"Łódź": "A city.", "Lodz": "#REDIRECT [[Łódź]]"}
    whole = write_wiki(wiki_study, pages).read_bytes()
    assert not build_passages(wiki_study, hand_lake, log).was_current
    content = hand_lake.content("excluded_pages")
    assert build_passages(wiki_study, hand_lake, log).was_current
    hand_lake.path("excluded_pages").unlink()
    assert not build_passages(wiki_study, hand_lake, log).was_current
    assert hand_lake.content("excluded_pages") == content
    write_wiki(wiki_study, pages | {"Lodsch": "#REDIRECT [[Łódź]]"}, end="")
    with pytest.raises(SourceError, match="breaks off"):
        build_passages(wiki_study, hand_lake, log)
    assert len(listed(hand_lake)) == 1
    assert list((hand_lake.root / STAGING).iterdir()) == []
    (wiki_study.path.parent / "w.xml").write_bytes(whole)
    assert build_passages(wiki_study, hand_lake, log).was_current
    passages = build_passages(wiki_study, hand_lake, log)
    assert write_beside(hand_lake, passages).stamp.content == content
    passages = build_passages(rdf_study, hand_lake, log)
    assert not write_beside(hand_lake, passages).was_current
    assert listed(hand_lake) == []


def test_many_pages_are_written_in_their_order(hand_lake: Lake) -> None:
    pages, rejected = ExcludedPages(hand_lake), RejectedRows("x")
    for number in range(12_001):
        pages.add("c", ExcludedPage(number, f"T{number}", REDIRECT, "Łódź"), rejected)
    pages.write("stamp")
    rows = listed(hand_lake)
    assert [row["title"] for row in rows] == [f"T{number}" for number in range(12_001)]
    assert rejected.rows == []


def test_a_disk_that_fills_while_pages_are_read_is_not_taken_for_a_file_that_cannot_be_read(
    make_study: Callable[[str], Study], rdf_text: str, hand_lake: Lake, log: logging.Logger
) -> None:
    declared = DECLARED.replace("wikipedia_xml", "cirrus_search").replace("w.xml", "c.json")
    study = make_study(f"{rdf_text}\ncollections:\n  - {declared}\n")
    redirects = [{"namespace": 0, "title": f"T{number} {'x' * 200}"} for number in range(6_000)]
    page = {"title": "Ann", "text": "Ann.", "redirect": redirects}
    (study.path.parent / "c.json").write_text(f'{{"index": {{}}}}\n{json.dumps(page)}\n')
    with files_up_to(100_000), pytest.raises(LakeError, match="excluded_pages could not be written"):
        build_passages(study, hand_lake, log)
    build_passages(study, hand_lake, log)
    assert len(listed(hand_lake)) == 6_000


STUDY = """
name: real
description: Real passages
datasets: [{name: popqa, import: {format: popqa, path_env: DATA, path: popqa/popQA.tsv.gz}}]
prompts: [{name: plain}]
models: [{name: fake, path: "fake:echo", backend: fake}]
methods: [bm25, oracle]
popularity: {measure: imported}
collections:
  - {name: psgs, format: dpr, path_env: DATA, path: wikipedia/psgs_w100_sample.tsv.gz, source: W, date: 2018-12-20,
     licence: CC BY-SA 3.0}
  - {name: leads, format: articles, path_env: DATA, path: wikipedia/leads.jsonl.gz, source: W, date: unknown,
     licence: CC BY-SA 4.0}
  - {name: openings, format: articles, path_env: DATA, path: popqa/paragraphs.jsonl.gz, source: W, date: unknown,
     licence: CC BY-SA 4.0}
"""


def articles(name: str) -> dict[str, list[str]]:
    """The words of each article of a file."""
    with gzip.open(REAL_DATA / name, "rt", encoding="utf-8") as stream:
        return {row["title"]: row["text"].split() for row in map(json.loads, stream)}


@needs_real_data
def test_three_real_collections_are_joined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DATA", str(REAL_DATA))
    path = tmp_path / "real.yaml"
    path.write_text(STUDY, encoding="utf-8")
    study, log = load_study(path), logging.getLogger("test")
    lake = Lake(study.home.lake)
    lake.write("entities", [], fingerprint="none")
    import_entities(study, lake, log)
    outcome = build_passages(study, lake, log)

    rows = lake.read("passages").to_pylist()
    assert len({row["passage_id"] for row in rows}) == len(rows)
    assert Counter(row["collection"] for row in rows) == {"psgs": 7_816, "leads": 11_720, "openings": 2_914}
    rejected = lake.read("quarantine", "passages|all").to_pylist()
    assert Counter(row["reason"].partition(" ")[0] for row in rejected) == {"title:": 1, "kept": 3}
    assert outcome.notes["collections"]["psgs"]["rows rejected"] == 1

    kept_once = {
        row["row_key"].rpartition(" ")[2] for row in rejected if row["reason"].startswith("kept once")
    }
    for collection, name in (
        ("leads", "wikipedia/leads.jsonl.gz"),
        ("openings", "popqa/paragraphs.jsonl.gz"),
    ):
        found: dict[str, list[str]] = {}
        for row in rows:
            if row["collection"] == collection:
                found.setdefault(row["title"], []).extend(row["text"].split())
        written = articles(name)
        differ = [title for number, title in enumerate(written, 1) if found.get(title) != written[title]]
        numbers = {str(number) for number, title in enumerate(written, 1) if title in differ}
        assert numbers <= (kept_once if collection == "openings" else set())

    titles = {row["entity_id"]: row["article_title"] for row in lake.read_all("entities").to_pylist()}
    linked = [row for row in rows if row["entity_id"]]
    assert Counter(row["collection"] for row in linked)["openings"] > 2_500
    assert all(titles[row["entity_id"]] == row["title"] for row in linked)
