"""Marts of a study with one model, no retrieval and popularity that does not vary: valid, and nulls say why."""

from __future__ import annotations

import duckdb
import pandas as pd
import pytest

from dagster_project.core.study.study import Study
from tests.lakes import LakePlan
from tests.warehouses import built_study, mart

LONELY = LakePlan(
    n_relations=3,
    n_questions_per_relation=4,
    models=("only",),
    methods=("closed_book",),
    n_popularities=1,
    share_missing=0,
    share_zero=0,
    one_question_relation=True,
)
OF_PAIRS = ("fct_retrieval_quadrants", "fct_passage_effects", "fct_retrieval_recall", "fct_adaptive_accuracy")
OF_ANSWERS = (
    "fct_accuracy_by_popularity_level",
    "fct_accuracy_least_popular",
    "fct_accuracy_by_relative_popularity",
    "fct_leaderboard",
)


@pytest.fixture
def lonely(monkeypatch: pytest.MonkeyPatch) -> Study:
    return built_study(LONELY, monkeypatch)


def test_without_answers_what_is_asked_can_still_be_guessed(unanswered: Study) -> None:
    assert [name for name in (*OF_ANSWERS, *OF_PAIRS[:2]) if not mart(unanswered, name).empty] == []
    guesses = mart(unanswered, "fct_guessing_baselines")
    assert guesses.set_index("relation").n.to_dict()["all"] == 6
    assert guesses.accuracy_majority.notna().all()


def test_without_retrieval_nothing_is_said_of_pairs(lonely: Study) -> None:
    assert [name for name in OF_PAIRS if not mart(lonely, name).empty] == []
    board = mart(lonely, "fct_leaderboard")
    assert board[["rank", "method", "is_adaptive"]].to_numpy().tolist() == [[1, "closed_book", False]]


def test_popularity_that_does_not_vary_leaves_nulls_with_a_reason(lonely: Study) -> None:
    relative = mart(lonely, "fct_accuracy_by_relative_popularity").set_index("relation")
    assert set(relative.undefined) == {"no variance of popularity"}
    assert relative.bin.isna().all()
    assert relative.loc["all"].n_without_variance == len(mart(lonely, "fct_answers"))
    correlations = mart(lonely, "fct_popularity_correlation").set_index("relation")
    assert correlations[["pearson_binned", "point_biserial", "spearman"]].isna().all(axis=None)
    assert set(correlations.pearson_binned_undefined) == {"too few bins"}
    assert correlations.unbinned_undefined.value_counts().to_dict() == {
        "no variance of popularity": 3,
        "too few answers": 1,  # the relation of one question
    }


def test_levels_hold_every_answer_once(lonely: Study) -> None:
    levels = mart(lonely, "fct_accuracy_by_popularity_level")
    assert len(levels) == 6
    assert levels.n.sum() == len(mart(lonely, "fct_answers")) == 9
    empty = levels[levels.n == 0]
    assert len(empty) == 5
    assert empty[["accuracy", "ci_low", "ci_high"]].isna().all(axis=None)
    least = mart(lonely, "fct_accuracy_least_popular")
    pd.testing.assert_series_equal(least.n_least, pd.Series([3]), check_names=False)


def test_one_model_without_retrieval_fills_what_it_can_and_leaves_the_rest_empty(lonely: Study) -> None:
    with duckdb.connect(str(lonely.home.build_warehouse), read_only=True) as connection:
        tables = [name for (name,) in connection.sql(
            "select table_name from duckdb_tables() where schema_name = 'marts'").fetchall()]  # fmt: skip
        rows = {name: connection.table(f"marts.{name}").shape[0] for name in tables}
    for name in ("fct_answers", "fct_accuracy", "fct_leaderboard", "fct_question_consistency", "fct_costs"):
        assert rows[name], name
    for name in (
        "fct_method_comparison", "fct_retrieval_quadrants", "fct_adaptive_thresholds", "fct_adaptive_accuracy",
        "fct_adaptive_usage", "fct_adaptive_costs", "fct_passage_effects", "fct_generated_passages",
    ):  # fmt: skip
        assert rows[name] == 0, name
