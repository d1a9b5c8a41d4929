"""Consistency of retrievers between wordings equals brute force over all pairs, with and without answers."""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from dagster_project.core.study.study import Study
from tests.warehouses import lake_of, mart

Wording = tuple[str, str, int]
MEASURES = ("passages_jaccard", "titles_jaccard", "query_cosine")


def jaccard(one: set[str], other: set[str]) -> float:
    return len(one & other) / len(one | other) if one | other else math.nan


def test_similarities_of_wordings_equal_brute_force(awkward: Study) -> None:
    lake = lake_of(awkward)
    titles = {row["passage_id"]: row["title"] for row in lake.read("passages").to_pylist()}
    found: dict[Wording, set[str]] = defaultdict(set)
    vectors: dict[Wording, np.ndarray] = {}
    for row in lake.read("retrieved_passages", "bm25").to_pylist():
        key = row["dataset"], row["question_id"], row["paraphrase_id"]
        found[key].add(row["passage_id"])
        if row["query_embedding"]:
            vectors[key] = np.array(row["query_embedding"])
    numbers: dict[tuple[str, str], list[int]] = defaultdict(list)
    for row in lake.read("paraphrases").to_pylist():
        numbers[row["dataset"], row["question_id"]].append(row["paraphrase_id"])
    answers = {
        (row["dataset"], row["question_id"], row["paraphrase_id"]): row["prediction"]
        for row in lake.read("paraphrase_answers", "small").to_pylist()
    }
    relations = {(q["dataset"], q["question_id"]): q["relation"] for q in lake.read("questions").to_pylist()}
    expected: dict[tuple[str, str], list[tuple[float, ...]]] = defaultdict(list)
    for (dataset, question_id), own in numbers.items():
        for one, other in combinations(sorted(own), 2):
            a, b = (dataset, question_id, one), (dataset, question_id, other)
            cosine = math.nan
            if a in vectors and b in vectors:
                cosine = float(
                    vectors[a] @ vectors[b] / np.linalg.norm(vectors[a]) / np.linalg.norm(vectors[b])
                )
            equal = float(answers[a] == answers[b]) if a in answers and b in answers else math.nan
            titles_of = [{titles[passage_id] for passage_id in found[key]} for key in (a, b)]
            pair = (jaccard(found[a], found[b]), jaccard(*titles_of), cosine, equal)
            for relation in ("all", relations[dataset, question_id]):
                expected[dataset, relation].append(pair)
    rows = mart(awkward, "fct_retriever_consistency")
    assert set(rows.retriever) == {"bm25"}
    own = rows[rows.model == "small"]
    assert len(own) == len(expected)
    for row in own.to_dict("records"):
        check(row, np.array(expected[row["dataset"], row["relation"]]))


def check(row: dict[str, Any], pairs: np.ndarray) -> None:
    equal = pairs[:, 3]
    counts = (row["n_pairs"], row["n_agreeing"], row["n_disagreeing"])
    assert counts == (len(pairs), (equal == 1).sum(), (equal == 0).sum())
    for number, name in enumerate(MEASURES):
        measured = pairs[:, number]
        for ending, kept in (
            ("", np.ones(len(pairs), bool)),
            ("_agreeing", equal == 1),
            ("_disagreeing", equal == 0),
        ):
            some = measured[kept & ~np.isnan(measured)]
            assert row[name + ending] == pytest.approx(
                some.mean() if len(some) else math.nan, abs=1e-6, nan_ok=True
            )
        both = ~np.isnan(measured) & ~np.isnan(equal)
        x, y = measured[both], equal[both]
        varies = len(x) > 1 and np.ptp(x) > 0 and np.ptp(y) > 0
        wanted = np.corrcoef(x, y)[0, 1] if varies else math.nan
        assert row[f"{name}_correlation"] == pytest.approx(wanted, abs=1e-5, nan_ok=True)  # float32
