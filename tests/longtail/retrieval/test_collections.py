"""Collections as lake table passages: joined, cut, named, linked to entities, and never without their licence."""

from __future__ import annotations

import dataclasses
import json
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from benchmarks.generated_wiki import page_lines, write_dump
from longtail.errors import SourceError
from longtail.preflight import needs_of_places
from longtail.retrieval.collections import FirstRows, entities_by_title
from longtail.retrieval.passages import build_passages
from longtail.retrieval.retrieve import retrieve_passages
from longtail.sandbox.world import World
from longtail.storage.lake import Lake, Outcome
from longtail.study.study import Study

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
