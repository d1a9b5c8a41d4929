"""The pages of collections without passages: listed beside the passages, by one pass over the files."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import pytest

from benchmarks.generated_wiki import page_lines
from longtail.errors import LakeError, SourceError
from longtail.imports.records import RejectedRows
from longtail.imports.wiki import DISAMBIGUATION, REDIRECT, ExcludedPage
from longtail.retrieval.collections import ExcludedPages, write_beside
from longtail.retrieval.passages import build_passages
from longtail.sandbox.dumps import write_dump
from longtail.sandbox.pages import Pages
from longtail.sandbox.world import World
from longtail.storage.files import STAGING
from longtail.storage.lake import Lake
from longtail.study.study import Study
from tests.small_disk import files_up_to

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


def test_a_full_disk_is_one_line(hand_lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = hand_lake.root / STAGING
    folder.parent.mkdir(exist_ok=True)
    for file in folder.iterdir() if folder.is_dir() else ():
        file.unlink()
    if folder.is_dir():
        folder.rmdir()
    folder.write_text("no folder")
    with pytest.raises(LakeError, match="excluded_pages"):
        ExcludedPages(hand_lake)
