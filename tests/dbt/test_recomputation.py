"""The marts equal an independent recomputation from fct_answers, to 1e-9."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from dagster_project.core.study import Study
from tests.dbt.recomputation import (
    GROUP,
    PAIR,
    accuracy,
    accuracy_by_popularity,
    adaptive_accuracy,
    correlations,
    quadrants,
    thresholds,
)
from tests.warehouses import mart

CASES: list[tuple[str, Callable[[pd.DataFrame], pd.DataFrame], list[str]]] = [
    ("fct_accuracy", accuracy, [*GROUP, "relation"]),
    ("fct_accuracy_by_popularity", accuracy_by_popularity, [*GROUP, "relation", "bin"]),
    ("fct_popularity_correlation", correlations, [*GROUP, "relation"]),
    ("fct_retrieval_quadrants", quadrants, [*PAIR, "parametric_correct", "retrieval_correct"]),
    ("fct_adaptive_thresholds", thresholds, [*PAIR, "relation", "search"]),
]


@pytest.mark.parametrize(("name", "recompute", "key"), CASES, ids=[case[0] for case in CASES])
def test_mart_equals_its_recomputation(
    awkward: Study, name: str, recompute: Callable[[pd.DataFrame], pd.DataFrame], key: list[str]
) -> None:
    assert_equal(mart(awkward, name), recompute(mart(awkward, "fct_answers")), key)


def test_adaptive_accuracy_over_100_splits_equals_its_recomputation(awkward: Study) -> None:
    def chosen(frame: pd.DataFrame) -> pd.DataFrame:
        return frame[(frame.prompt == "zero_shot") & (frame.model == "small")]

    answers = chosen(mart(awkward, "fct_answers"))
    expected = adaptive_accuracy(answers)
    assert_equal(
        chosen(mart(awkward, "fct_adaptive_accuracy")), expected, [*PAIR, "search", "threshold_scope"]
    )


def test_the_lake_holds_what_makes_it_awkward(awkward: Study) -> None:
    answers = mart(awkward, "fct_answers")
    questions = answers.drop_duplicates(["dataset", "question_id"])
    assert questions.subject_popularity.isna().any()
    assert (questions.subject_popularity == 0).any()
    assert questions.subject_popularity.duplicated().sum() > 20
    assert questions.groupby(["dataset", "relation"]).size().min() == 1
    assert answers[answers.model == "perfect"].is_correct.all()
    assert mart(awkward, "fct_adaptive_thresholds").threshold_popularity.isin([np.inf]).any()
    assert "memory_only" not in set(mart(awkward, "fct_retrieval_quadrants").model)


def assert_equal(actual: pd.DataFrame, expected: pd.DataFrame, key: list[str]) -> None:
    """The same keys, and every column of `expected` agrees; a missing value agrees with a missing one."""
    assert len(actual) == len(expected) > 0
    assert not actual.duplicated(key).any()
    both = expected.merge(actual, on=key, suffixes=("_expected", ""), how="outer", validate="one_to_one")
    assert len(both) == len(expected)
    for column in (name for name in expected.columns if name not in key):
        got, wanted = (both[name].to_numpy(dtype=float) for name in (column, f"{column}_expected"))
        np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-9, equal_nan=True, err_msg=column)
