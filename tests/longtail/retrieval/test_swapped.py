"""Swapped passages: right but for their object (SPEC §11)."""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longtail.retrieval.base import Context, Hit, Query
from longtail.retrieval.indexes import build_index
from longtail.retrieval.retrieve import cite_passages, retrieve_passages
from longtail.retrieval.retrievers.swapped import SwappedPassages, swap
from longtail.retrieval.stored_passages import Passage, StoredPassages
from longtail.scoring.match import has_answer
from longtail.storage.lake import Lake
from longtail.study.study import Study


def fact(number: int, subject: str, *answers: str, relation: str = "capital") -> Query:
    return Query("d", f"{number}", f"What of {subject}?", f"Q{number}", answers, 0, relation, subject)


def search(
    queries: list[Query], texts: dict[str, str], log: logging.Logger, seed: int = 0
) -> list[list[Hit]]:
    """`texts`: question id → the passage that was found for it."""
    passages = StoredPassages.of(
        Passage(f"p{key}", None, "a title", 0, text) for key, text in sorted(texts.items())
    )
    found = {("d", key, 0): [f"p{key}"] for key in texts}
    context = Context(passages, Path(), Path(), log, k=1, seed=seed, others={"bm25": found})
    return SwappedPassages().search(context, queries)


def test_the_object_and_all_its_names_are_replaced(log: logging.Logger) -> None:
    queries = [fact(1, "France", "Paris", "Paris city"), fact(2, "Peru", "Lima")]
    texts = {"1": "Paris, or PARIS CITY, is the capital. Parisians love Paris."}
    (first,), (second,) = search(queries, texts, log)
    assert first.written is not None
    assert second.written is not None
    assert first.written.text == "Lima, or Lima, is the capital. Parisians love Lima."
    assert (first.written.original, first.written.answers, first.passage_id) == (
        "p1",
        ("Lima",),
        "swapped:d:1",
    )
    # nothing was found for the second: the fact's own sentence
    assert second.written.text == "The capital of Peru is Paris."
    assert (second.written.original, second.written.title) == (None, "Peru")


@pytest.mark.parametrize(
    "queries",
    [
        [fact(1, "France", "Paris"), fact(2, "Gaul", "Paris")],  # no other object
        [fact(1, "France", "Paris"), fact(2, "Peru", "Lima", "Paris")],  # it is right under another name
        [
            fact(1, "Oman", "Oman"),
            fact(2, "Peru", "Romania"),
        ],  # PopQA's rule finds oman in Romania; Oman names Oman
        [
            fact(1, "Paris Hilton", "Paris"),
            fact(2, "France", "1999"),
        ],  # the subject's name has it; a year for a city
        [
            fact(1, "France", "Paris", relation="no relation of PopQA"),
            fact(2, "Peru", "Lima"),
        ],  # no sentence, no other
    ],
)
def test_a_question_without_a_fitting_object_has_no_passage(
    queries: list[Query], log: logging.Logger
) -> None:
    assert search(queries, {"1": "Here is Paris. And Oman."}, log)[0] == []


def test_a_name_that_is_spelt_otherwise_gives_the_sentence(log: logging.Logger) -> None:
    """DPR's rule finds Zürich where the text says Zu\u0308rich; the sentence takes its place."""
    queries = [fact(1, "Swiss money", "Zürich"), fact(2, "Peru", "Lima")]
    ((hit,), _) = search(queries, {"1": "Banks of Zu\u0308rich."}, log)
    assert hit.written is not None
    assert hit.written.text == "The capital of Swiss money is Lima."


def test_the_seed_decides_and_the_order_of_questions_does_not(log: logging.Logger) -> None:
    queries = [fact(number, f"land {number}", f"town {'abcdefghij'[number]}") for number in range(10)]
    drawn = search(queries, {}, log)
    assert search(queries[::-1], {}, log)[::-1] == drawn
    assert search(queries, {}, log, seed=1) != drawn
    assert len({hit.written.answers for hits in drawn for hit in hits if hit.written}) > 4


@given(st.text(max_size=60), st.lists(st.text(max_size=8), min_size=1, max_size=4), st.text(max_size=8))
def test_no_answer_is_left_in_a_swapped_text(text: str, answers: list[str], replacement: str) -> None:
    changed = swap(text, tuple(answers), replacement)
    if changed is not None:
        assert not has_answer(changed, answers)
        assert changed != text or replacement in text


def test_rows_and_cited_passages(rdf_study: Study, searchable: Lake, log: logging.Logger) -> None:
    study = dataclasses.replace(rdf_study, methods=("bm25", "swapped"))
    own = searchable.read("questions").to_pylist()
    (born, *_) = (row for row in own if row["relation"] == "place of birth")
    elsewhere = born | {
        "question_id": "zz",
        "subject": "Nobody",
        "gold_answers": ["Rivertown", "Old Rivertown"],
    }
    searchable.write("questions", [*own, elsewhere], fingerprint="one more place")
    build_index(study, searchable, "bm25", log)
    for name in ("bm25", "swapped"):
        retrieve_passages(study, searchable, name, log)
    rows = searchable.read("retrieved_passages", "swapped").to_pylist()
    golds = {row["question_id"]: row for row in searchable.read("questions").to_pylist()}
    assert {row["swapped_from"] is None for row in rows} == {True, False}
    for row in rows:
        assert not row["has_answer"]
        assert row["swapped_answers"][0] in row["swapped_text"]
        assert not set(row["swapped_answers"]) & set(golds[row["question_id"]]["gold_answers"])
    assert not any(searchable.read("retrieved_passages", "bm25")["swapped_text"].to_pylist())
    cite_passages(study, searchable, log)
    cited = {row["passage_id"]: row for row in searchable.read("cited_passages").to_pylist()}
    for row in rows:
        own = cited[row["passage_id"]]
        assert (own["text"], own["source"]) == (row["swapped_text"], "swapped")
        original = cited.get(row["swapped_from"] or "")
        assert own["title"] == (original["title"] if original else row["swapped_title"])
