"""Reciprocal rank fusion against a brute-force implementation, and as lake table `retrieved_passages`."""

from __future__ import annotations

import dataclasses
import logging
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longtail.errors import LakeError
from longtail.retrieval.base import Context, Query
from longtail.retrieval.indexes import build_index
from longtail.retrieval.retrieve import retrieve_passages
from longtail.retrieval.retrievers.hybrid import Hybrid, fuse
from longtail.retrieval.stored_passages import StoredPassages
from longtail.storage.lake import Lake
from longtail.study.study import Study

IDS = [f"Q{number}-0" for number in range(12)]
RANKINGS = st.lists(st.lists(st.sampled_from(IDS), unique=True, max_size=8), max_size=4)


def brute_force(rankings: Sequence[Sequence[str]], k: int) -> list[tuple[str, float]]:
    """All passages scored one by one, by the formula as it is printed."""
    scores = {
        passage_id: sum(1 / (60 + ranking.index(passage_id) + 1) for ranking in rankings if passage_id in ranking)
        for passage_id in IDS
    }  # fmt: skip
    ordered = sorted(scores, key=lambda passage_id: (-round(scores[passage_id], 12), passage_id))
    return [(passage_id, scores[passage_id]) for passage_id in ordered if scores[passage_id]][:k]


@given(RANKINGS, st.integers(1, 14))
def test_fusion_equals_brute_force(rankings: list[list[str]], k: int) -> None:
    expected = brute_force(rankings, k)
    hits = fuse(rankings, k)
    assert [hit.passage_id for hit in hits] == [passage_id for passage_id, _ in expected]
    assert [hit.score for hit in hits] == pytest.approx([score for _, score in expected], rel=1e-12)


def test_results_belong_to_a_question_of_a_dataset(tmp_path: Path, log: logging.Logger) -> None:
    others = {
        "one": {("d", "1", 0): ["Q1-0"], ("e", "1", 0): ["Q2-0"]},
        "two": {("d", "1", 0): ["Q3-0"], ("d", "1", 1): ["Q4-0"]},
    }
    queries = [Query(dataset, "1", "text", "Q1", ()) for dataset in "def"]
    found = Hybrid().search(
        Context(StoredPassages.of([]), tmp_path, tmp_path, log, k=5, others=others), queries
    )
    assert [[hit.passage_id for hit in hits] for hits in found] == [["Q1-0", "Q3-0"], ["Q2-0"], []]


def test_the_study_s_retrievers_are_fused_and_what_they_find_anew_makes_the_fusion_stale(
    rdf_study: Study, searchable: Lake, log: logging.Logger
) -> None:
    study = dataclasses.replace(
        rdf_study, methods=("hybrid", "random", "closed_book", "bm25", "dense", "oracle")
    )
    assert study.results_read_by("hybrid") == ("bm25", "dense")
    assert study.results_read_by("bm25") == ()
    assert study.retrieval_methods == ("random", "bm25", "dense", "oracle", "hybrid")
    for name in study.results_read_by("hybrid"):
        with pytest.raises(LakeError, match="retrieved_passages"):
            retrieve_passages(study, searchable, "hybrid", log)
        build_index(study, searchable, name, log)
        retrieve_passages(study, searchable, name, log)
    retrieve_passages(study, searchable, "hybrid", log)
    assert retrieve_passages(study, searchable, "hybrid", log).was_current
    found = rankings(searchable, "hybrid")
    questions = searchable.read("questions").to_pylist()
    lists = [rankings(searchable, name) for name in ("bm25", "dense")]
    assert found == {
        question["question_id"]: [hit.passage_id for hit in fuse([one[question["question_id"]] for one in lists], 3)]
        for question in questions
    }  # fmt: skip
    retrieve_passages(dataclasses.replace(study, top_k=1), searchable, "bm25", log)
    assert not retrieve_passages(study, searchable, "hybrid", log).was_current


def rankings(lake: Lake, retriever: str) -> dict[str, list[str]]:
    """Question id → passage ids by rank; the rows in any order."""
    rows = lake.read("retrieved_passages", retriever).to_pylist()
    random.Random(0).shuffle(rows)
    found: dict[str, list[str]] = {}
    for row in sorted(rows, key=lambda row: row["rank"]):
        found.setdefault(row["question_id"], []).append(row["passage_id"])
    return found
