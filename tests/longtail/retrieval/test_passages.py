"""Passages from articles and from verbalised triples."""

from __future__ import annotations

import logging

import pytest

from longtail.errors import LakeError
from longtail.retrieval.passages import build_passages, enumerate_names
from longtail.sandbox.world import World
from longtail.storage.lake import Lake
from longtail.study.study import Study


def test_triples_are_verbalised_one_passage_a_subject(searchable: Lake) -> None:
    rows = {row["passage_id"]: row for row in searchable.read("passages").to_pylist()}
    assert list(rows) == ["Q1-0", "Q2-0", "Q5-0", "Q6-0"]  # Q405 has no label
    ada = rows["Q1-0"]
    assert (
        ada["text"]
        == "The occupation of Ada Quill is Weaver and Painter and more. Ada Quill was born in Łódź."
    )
    assert (ada["entity_id"], ada["title"], ada["position"], ada["source"]) == (
        "Q1",
        "Ada Quill",
        0,
        "verbalised",
    )
    assert rows["Q5-0"]["text"] == "The genre of The [subj] {0} \\1 %s is Ünïcödé."
    assert rows["Q6-0"]["text"] == "Nun\x00Mark \u200f العربية 👩‍🚀 was born in Łódź."


def test_enumerated() -> None:
    assert [enumerate_names(list("abc")[:n]) for n in (1, 2, 3)] == ["a", "a and b", "a, b and c"]


def test_articles_of_the_sandbox(hand_study: Study, log: logging.Logger) -> None:
    lake = Lake(hand_study.home.lake)
    assert not build_passages(hand_study, lake, log).was_current
    assert build_passages(hand_study, lake, log).was_current
    expected = {entity_id: (a.title, a.text.split()) for entity_id, a in World(0, 8).articles()}
    found: dict[str, tuple[str, list[str]]] = {}
    for row in lake.read("passages").to_pylist():
        assert row["passage_id"] == f"{row['entity_id']}-{row['position']}"
        assert row["source"] == "sandbox"
        words = found.setdefault(row["entity_id"], (row["title"], []))[1]
        words.extend(row["text"].split())
    assert found == expected


def test_missing_triples_say_so(rdf_study: Study, log: logging.Logger) -> None:
    with pytest.raises(LakeError, match="lake/triples"):
        build_passages(rdf_study, Lake(rdf_study.home.lake), log)
