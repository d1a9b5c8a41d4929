"""Passages for paraphrases: rows beside those of the questions, which stay as they are."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from longtail.generation.prompts.build import first_passages, read_passages, read_wordings
from longtail.questions.build import build_paraphrases
from longtail.retrieval.base import Context, Query, load_retriever
from longtail.retrieval.cited_passages import cite_passages
from longtail.retrieval.indexes import Index, build_index
from longtail.retrieval.retrieve import retrieve_passages
from longtail.retrieval.stored_passages import open_passages
from longtail.storage.lake import Lake
from longtail.study.study import Study


@pytest.fixture
def asked(searchable: Lake, rdf_study: Study, log: logging.Logger) -> Lake:
    build_paraphrases(rdf_study, searchable, log)
    return searchable


def rows_of(study: Study, lake: Lake, retriever: str, log: logging.Logger) -> list[dict[str, Any]]:
    if study.method(retriever).index:
        build_index(study, lake, retriever, log)
    retrieve_passages(study, lake, retriever, log)
    return lake.read("retrieved_passages", retriever).to_pylist()


def test_every_wording_has_its_passages_and_the_questions_keep_theirs(
    rdf_text: str, rdf_study: Study, make_study: Callable[[str], Study], asked: Lake, log: logging.Logger
) -> None:
    names = ("bm25", "dense", "oracle")
    before = {name: rows_of(rdf_study, asked, name, log) for name in names}
    cite_passages(rdf_study, asked, log)
    first = {name: first_passages(read_passages(asked, rdf_study.method(name), 0)) for name in names}
    text = rdf_text.replace("bm25, dense, oracle", "bm25, dense, oracle, hybrid")
    study = make_study(text + "retrieve_paraphrases: true\n")
    wordings = read_wordings(asked)
    assert max(map(len, wordings.values())) > 3
    for name in names:
        rows = rows_of(study, asked, name, log)
        own = [{**row, "query_embedding": None} for row in rows if row["paraphrase_id"] == 0]
        assert own == before[name]
        assert first_passages(read_passages(asked, study.method(name), 0)) == first[name]
        others = {(row["question_id"], row["paraphrase_id"]) for row in rows if row["paraphrase_id"]}
        if name == "oracle":
            assert not others
        if name == "dense":
            wanted = {(q, number) for (_, q), own in wordings.items() for number, _ in own if number}
            assert others == wanted
            assert all((row["query_embedding"] is None) == (row["rank"] > 1) for row in rows)
    check_alone(study, asked, wordings, log)
    fused = rows_of(study, asked, "hybrid", log)
    assert {row["paraphrase_id"] for row in fused} > {0, 1}
    assert {row["query_embedding"] for row in fused} == {None}


def check_alone(
    study: Study, lake: Lake, wordings: dict[tuple[str, str], list[tuple[int, str]]], log: logging.Logger
) -> None:
    """Each wording's rows are those of a search for this wording alone."""
    tool = load_retriever(study.method("dense"))
    index = Index.of(study.method("dense"), tool, lake.content("passages"), study.home.indexes)
    context = Context(
        open_passages(lake, study.home.indexes, log), index.folder, study.home.cache, log, study.top_k
    )
    rows = lake.read("retrieved_passages", "dense").to_pylist()
    (dataset, question_id), own = sorted(wordings.items())[2]
    for number, text in own:
        queries = [Query(dataset, question_id, text, None, (), number)]
        (hits,), vectors = tool.search_with_vectors(context, queries)
        found = [row for row in rows if (row["question_id"], row["paraphrase_id"]) == (question_id, number)]
        assert [row["passage_id"] for row in found] == [hit.passage_id for hit in hits]
        np.testing.assert_allclose([row["score"] for row in found], [hit.score for hit in hits], atol=2e-6)
        assert vectors is not None
        np.testing.assert_allclose(found[0]["query_embedding"], vectors[0], atol=1e-5)
