"""Marts of a study that asks one model about one dataset and retrieves nothing; its lake holds much more."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from longtail.study.study import Study
from longtail.warehouse.build import STUDY_BUILD
from tests.in_process_dbt import invoke_dbt
from tests.lakes import LakePlan, write_study_tables
from tests.warehouses import AWKWARD, copied_study, lake_of, mart

LONELY = LakePlan(
    datasets=("popqa",),
    prompts=("zero_shot",),
    models=("small",),
    methods=("closed_book",),
    measure="sitelinks",
    last_month=None,
    n_samples=2,
)


@pytest.fixture(scope="module")
def lonely(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Study]:
    """The lake of `AWKWARD` after most of what it holds left the study, built with all tests."""
    with pytest.MonkeyPatch.context() as patch:
        study = copied_study(AWKWARD, patch, tmp_path_factory.mktemp("lonely") / "copy")
        write_study_tables(lake_of(study), LONELY)
        invoke_dbt(study, *STUDY_BUILD)
        yield study


def test_without_answers_what_is_asked_can_still_be_guessed(unanswered: Study) -> None:
    guesses = mart(unanswered, "fct_guessing_baselines")
    assert guesses.set_index("relation").n.to_dict()["all"] == 6
    assert guesses.accuracy_majority.notna().all()


def test_what_left_the_study_stays_in_the_lake_and_out_of_the_marts(lonely: Study) -> None:
    answers = mart(lonely, "fct_answers")
    assert set(zip(answers.dataset, answers.prompt, answers.model, answers.method, strict=True)) == {
        ("popqa", "zero_shot", "small", "closed_book")
    }
    sampled = mart(lonely, "fct_sampled_answers")
    assert set(sampled.model) == {"small"}
    assert set(sampled["sample"]) == {0, 1}
    # Samples that the study no longer asks for are neither awaited nor counted: 2 of 2 are there.
    consistency = mart(lonely, "fct_question_consistency")
    assert consistency.cert.notna().sum() == (consistency.n_samples == 2).sum() > 0
    counted = mart(lonely, "fct_lake_reconciliation").set_index("table_name").loc["answers"]
    assert counted.n_lake == counted.n_outside_study + counted.n_mart
    assert counted.n_mart == len(answers) < counted.n_lake
    assert set(answers.popularity_measure) == {"sitelinks"}
    assert answers.subject_popularity.notna().all()


def test_one_model_without_retrieval_fills_what_it_can_and_leaves_the_rest_empty(lonely: Study) -> None:
    with duckdb.connect(str(lonely.home.build_warehouse), read_only=True) as connection:
        tables = [name for (name,) in connection.sql(
            "select table_name from duckdb_tables() where schema_name = 'marts'").fetchall()]  # fmt: skip
        rows = {name: connection.table(f"marts.{name}").shape[0] for name in tables}
    for name in ("fct_answers", "fct_accuracy", "fct_leaderboard", "fct_question_consistency", "fct_costs"):
        assert rows[name], name
    for name in (
        "fct_method_comparisons", "fct_retrieval_quadrants", "fct_adaptive_thresholds", "fct_adaptive_accuracy",
        "fct_adaptive_usage", "fct_adaptive_costs", "fct_passage_effects", "fct_generated_passages",
        "fct_retrieval_recall",
    ):  # fmt: skip
        assert rows[name] == 0, name
    board = mart(lonely, "fct_leaderboard")
    assert board[["rank", "method", "is_adaptive"]].to_numpy().tolist() == [[1, "closed_book", False]]
