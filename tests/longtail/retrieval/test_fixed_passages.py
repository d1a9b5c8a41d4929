"""Passages fixed per fact: relevant ones, and those of another fact of the relation (SPEC §8)."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from longtail.questions.build import build_paraphrases
from longtail.retrieval.base import Context, Query, Results, Retriever
from longtail.retrieval.indexes import build_index
from longtail.retrieval.retrieve import retrieve_passages
from longtail.retrieval.retrievers.irrelevant_cohesive import CohesivePassages
from longtail.retrieval.retrievers.relevant import RelevantPassages
from longtail.retrieval.stored_passages import StoredPassages
from longtail.storage.lake import Lake
from longtail.study.study import Study

WORDINGS = 3


def fact(
    number: int, relation: str | None, subject_id: str | None = None, dataset: str = "d", text: str = ""
) -> Query:
    own = text or f"text {number}"
    return Query(dataset, f"{number}", own, subject_id or f"Q{number}", (), relation=relation)


def found_for(queries: Sequence[Query]) -> dict[tuple[str, str, int], list[str]]:
    """Two passages for each of three wordings, which say what they were found for."""
    return {
        (query.dataset, query.question_id, wording): [
            f"{query.dataset}{query.question_id}-{wording}-{rank}" for rank in "ab"
        ]
        for query in queries
        for wording in range(WORDINGS)
    }


@pytest.fixture
def search(tmp_path: Path, log: logging.Logger) -> Callable[..., list[list[str]]]:
    """Passage ids for each query."""

    def ids(tool: Retriever, queries: Sequence[Query], results: Results, seed: int = 0) -> list[list[str]]:
        context = Context(
            StoredPassages.of([]), tmp_path, tmp_path, log, k=2, seed=seed, others={"dense": results}
        )
        return [[hit.passage_id for hit in hits] for hits in tool.search(context, queries)]

    return ids


def test_relevant_passages_are_all_of_one_seeded_wording(search: Callable[..., list[list[str]]]) -> None:
    facts = [fact(number, "capital") for number in range(60)]
    found = search(RelevantPassages(), facts, found_for(facts))
    wordings = [hits[0].split("-")[1] for hits in found]
    for query, wording, hits in zip(facts, wordings, found, strict=True):
        assert hits == [f"d{query.question_id}-{wording}-{rank}" for rank in "ab"]
    assert set(wordings) == {"0", "1", "2"}
    assert search(RelevantPassages(), facts[::-1], found_for(facts)) == found[::-1]
    assert search(RelevantPassages(), facts, found_for(facts), seed=1) != found


def test_cohesive_passages_are_those_that_another_fact_of_the_relation_has_as_relevant(
    search: Callable[..., list[list[str]]],
) -> None:
    facts = [fact(number, ("capital", "father")[number % 2]) for number in range(40)]
    elsewhere = [fact(number, "capital", dataset="e") for number in range(3)]
    results = found_for([*facts, *elsewhere])
    relevant = search(RelevantPassages(), facts, results)
    found = search(CohesivePassages(), [*elsewhere, *facts], results)[3:]
    others = [relevant.index(hits) for hits in found]
    assert all(other != number and other % 2 == number % 2 for number, other in enumerate(others))
    assert len(set(others)) > 20
    assert search(CohesivePassages(), [*facts[::-1], *elsewhere], results)[:40] == found[::-1]


def test_a_question_without_another_fact_has_no_passage(search: Callable[..., list[list[str]]]) -> None:
    queries = [
        fact(1, "capital"),
        fact(2, "father"), fact(3, "father", "Q2"),  # one subject: the same fact
        fact(4, None), fact(5, None),
        fact(8, "composer", text="text 9"), fact(9, "composer"),  # of namesakes: what is found for one is of the other
        fact(6, "author"), fact(7, "author"),  # nothing was found for the seventh
    ]  # fmt: skip
    results = found_for(queries[:-1])
    assert search(CohesivePassages(), queries, results)[:-1] == [[]] * 8
    assert search(CohesivePassages(), queries, results)[-1][0].startswith("d6-")
    assert search(RelevantPassages(), queries, results)[-1] == []


def test_conditions_read_the_first_dense_retriever_or_the_first(rdf_study: Study) -> None:
    names = ("oracle", "relevant", "bm25", "dense", "hybrid", "irrelevant_cohesive")
    study = dataclasses.replace(rdf_study, methods=names)
    assert study.results_read_by("relevant") == study.results_read_by("irrelevant_cohesive") == ("dense",)
    assert study.results_read_by("hybrid") == ("bm25", "dense")
    without = dataclasses.replace(study, methods=("relevant", "bm25"))
    assert without.results_read_by("relevant") == ("bm25",)
    assert without.retrieval_methods == ("bm25", "relevant")


def test_rows_stand_under_the_question_alone_and_what_is_missing_is_counted(
    rdf_text: str, make_study: Callable[[str], Study], searchable: Lake, log: logging.Logger
) -> None:
    text = rdf_text.replace("bm25, dense, oracle", "relevant, irrelevant_cohesive, bm25")
    study = make_study(text + "retrieve_paraphrases: true\n")
    build_paraphrases(study, searchable, log)
    build_index(study, searchable, "bm25", log)
    outcomes = {
        name: retrieve_passages(study, searchable, name, log)
        for name in ("bm25", "relevant", "irrelevant_cohesive")
    }
    given = {
        name: {row["question_id"] for row in searchable.read("retrieved_passages", name).to_pylist()}
        for name in outcomes
    }
    questions = {row["question_id"] for row in searchable.read("questions").to_pylist()}
    assert given["relevant"] == given["bm25"]
    assert given["irrelevant_cohesive"] < questions
    for name, ids in given.items():
        assert outcomes[name].notes["n_without_passage"] == len(questions - ids)
    rows = searchable.read("retrieved_passages", "relevant").to_pylist()
    assert {(row["paraphrase_id"], row["score"]) for row in rows} == {(0, None)}
    assert {row["rank"] for row in rows} == set(range(1, study.top_k + 1))
    reseeded = dataclasses.replace(study, seed=study.seed + 1)
    assert retrieve_passages(study, searchable, "relevant", log).was_current
    assert not retrieve_passages(reseeded, searchable, "relevant", log).was_current
