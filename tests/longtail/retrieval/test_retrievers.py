"""Retrievers that rank others, or draw: fused ranks, random passages, and passages fixed per fact (SPEC §4, §8)."""

from __future__ import annotations

import dataclasses
import logging
import random
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from longtail.errors import LakeError
from longtail.questions.build import build_paraphrases
from longtail.retrieval.base import Context, Query, Results, Retriever
from longtail.retrieval.indexes import build_index
from longtail.retrieval.retrieve import retrieve_passages
from longtail.retrieval.retrievers.hybrid import Hybrid, fuse
from longtail.retrieval.retrievers.irrelevant_cohesive import CohesivePassages
from longtail.retrieval.retrievers.random import RandomPassages, draws
from longtail.retrieval.retrievers.relevant import RelevantPassages
from longtail.retrieval.stored_passages import Passage, StoredPassages
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


@given(st.integers(0, 9), st.text(max_size=5), st.text(max_size=5), st.integers(1, 60), st.integers(1, 70))
def test_rows_are_distinct_and_as_many_as_wanted(
    seed: int, dataset: str, question: str, n: int, k: int
) -> None:
    rows = list(islice(draws(seed, dataset, question, n), k))
    assert len(rows) == len(set(rows)) == min(n, k)
    assert set(rows) <= set(range(n))
    assert list(islice(draws(seed, dataset, question, n), k)) == rows


def test_every_passage_is_as_likely_at_every_rank() -> None:
    drawn = [list(islice(draws(0, "facts", f"Q{number}", 20), 3)) for number in range(6_000)]
    for rank in range(3):
        counts = Counter(rows[rank] for rows in drawn)
        assert chisquare([counts[row] for row in range(20)]).pvalue > 1e-4
    pairs = Counter(tuple(rows[:2]) for rows in drawn)
    assert len(pairs) == 20 * 19


def test_seed_dataset_and_question_each_decide_the_draw() -> None:
    drawn = {
        tuple(islice(draws(seed, dataset, question, 10**6), 3))
        for seed in range(3)
        for dataset in ("d", "e")
        for question in ("Q1", "Q2")
    }
    assert len(drawn) == 12


def test_the_order_of_the_questions_does_not_matter(tmp_path: Path, log: logging.Logger) -> None:
    passages = [Passage(f"Q{number:02d}-0", None, "", 0, "text") for number in range(30)]
    queries = [Query("d", str(number), "text", "Q1", ()) for number in range(50)]
    context = Context(StoredPassages.of(passages, 7), tmp_path, tmp_path, log, k=4, seed=7)
    found = RandomPassages().search(context, queries)
    assert RandomPassages().search(context, queries[::-1]) == found[::-1]
    assert RandomPassages().search(context, queries[10:11]) == found[10:11]


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
