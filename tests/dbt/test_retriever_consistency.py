"""Consistency of retrievers between wordings equals brute force over all pairs, with and without answers."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations, groupby
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t

from longtail.study.study import Study
from tests.warehouses import lake_of, mart

Wording = tuple[str, str, int]
Pair = tuple[str, float, bool | None]
"""Question, measure, and whether the answers are equal; None without both."""


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
    expected: dict[tuple[str, str, str], list[Pair]] = defaultdict(list)
    for (dataset, question_id), own in numbers.items():
        for one, other in combinations(sorted(own), 2):
            a, b = (dataset, question_id, one), (dataset, question_id, other)
            equal = answers[a] == answers[b] if a in answers and b in answers else None
            titles_of = [{titles[passage_id] for passage_id in found[key]} for key in (a, b)]
            measured = {
                "passages_jaccard": jaccard(found[a], found[b]),
                "titles_jaccard": jaccard(*titles_of),
            }
            if a in vectors and b in vectors:
                lengths = np.linalg.norm(vectors[a]) * np.linalg.norm(vectors[b])
                measured["query_cosine"] = float(vectors[a] @ vectors[b] / lengths)
            for relation in ("all", relations[dataset, question_id]):
                for measure, value in measured.items():
                    if not math.isnan(value):
                        expected[dataset, relation, measure].append((question_id, value, equal))
    rows = mart(awkward, "fct_retriever_consistency")
    assert set(rows.retriever) == {"bm25"}
    assert set(rows.answer_kind) == {"text"}
    own = rows[rows.model == "small"]
    assert len(own) == len(expected)
    for row in own.to_dict("records"):
        check(row, expected[row["dataset"], row["relation"], row["measure"]])
    check_beside_bootstrap(own, expected)


def check(row: dict[str, Any], pairs: Sequence[Pair]) -> None:
    counts = (row["n_questions"], row["n_pairs"], row["n_agreeing"], row["n_disagreeing"])
    equal = [pair[2] for pair in pairs]
    assert counts == (len({pair[0] for pair in pairs}), len(pairs), equal.count(True), equal.count(False))
    least = -1 if row["measure"] == "query_cosine" else 0
    for ending, kept in (
        ("", pairs),
        ("_agreeing", [pair for pair in pairs if pair[2]]),
        ("_disagreeing", [pair for pair in pairs if pair[2] is False]),
    ):
        value = float(np.mean([pair[1] for pair in kept])) if kept else math.nan
        assert row[f"similarity{ending}"] == pytest.approx(value, abs=1e-6, nan_ok=True)
        errors = [(question_id, measured - value) for question_id, measured, _ in kept]
        check_ends(row, f"similarity{ending}", value, half_width(errors), least)
    value, errors = correlation_of(pairs)
    assert row["correlation"] == pytest.approx(value, abs=1e-5, nan_ok=True)  # float32
    check_ends(row, "correlation", value, half_width(errors), -1)


def check_ends(row: dict[str, Any], name: str, value: float, half: float, least: float) -> None:
    ends = (max(least, value - half), min(1, value + half)) if not math.isnan(half) else (math.nan, math.nan)
    for end, wanted in zip(("low", "high"), ends, strict=True):
        tolerance = 1e-5 if math.isnan(half) else 1e-5 + 0.003 * half  # student_quantile with four degrees
        assert row[f"{name}_{end}"] == pytest.approx(wanted, abs=tolerance, nan_ok=True)


def half_width(errors: Sequence[tuple[str, float]]) -> float:
    """Of the interval of a mean over pairs, whose questions are drawn: from each question's sum of errors."""
    sums = [
        sum(error for _, error in own)
        for _, own in groupby(sorted(errors, key=lambda e: e[0]), key=lambda e: e[0])
    ]
    m = len(sums)
    if m < 5:
        return math.nan
    variance = m / (m - 1) * sum(one**2 for one in sums) / len(errors) ** 2
    return float(t.ppf(0.975, m - 1)) * math.sqrt(variance)


def correlation_of(pairs: Sequence[Pair]) -> tuple[float, list[tuple[str, float]]]:
    """Pearson's correlation with equal answers, and what each pair adds to its error."""
    known = [pair for pair in pairs if pair[2] is not None]
    x, y = np.array([pair[1] for pair in known]), np.array([float(bool(pair[2])) for pair in known])
    if len(known) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return math.nan, []
    value = float(np.corrcoef(x, y)[0, 1])
    x, y = (x - x.mean()) / x.std(), (y - y.mean()) / y.std()
    errors = x * y - value * (x**2 + y**2) / 2
    return value, [(pair[0], float(error)) for pair, error in zip(known, errors, strict=True)]


def check_beside_bootstrap(own: pd.DataFrame, expected: Mapping[tuple[str, str, str], list[Pair]]) -> None:
    """The intervals in closed form are about those of a bootstrap over questions."""
    rng = np.random.default_rng(0)
    key = own.dataset.iloc[0], "all", "passages_jaccard"
    (row,) = own[(own.dataset == key[0]) & (own.relation == "all") & (own.measure == key[2])].to_dict(
        "records"
    )
    by_question = defaultdict(list)
    for pair in expected[key]:
        by_question[pair[0]].append(pair)
    groups = list(by_question.values())
    drawn = [
        [pair for at in rng.integers(0, len(groups), len(groups)) for pair in groups[at]] for _ in range(400)
    ]
    for name, values in (
        ("similarity", [np.mean([pair[1] for pair in pairs]) for pairs in drawn]),
        ("correlation", [correlation_of(pairs)[0] for pairs in drawn]),
    ):
        low, high = np.quantile(values, [0.025, 0.975])
        width = high - low
        assert row[f"{name}_low"] == pytest.approx(low, abs=0.15 * width)
        assert row[f"{name}_high"] == pytest.approx(high, abs=0.15 * width)
