"""Lakes at the edge: nothing answered, models that left the study, undated popularity, windows with gaps."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from dagster_project.core.study import Study
from tests.lakes import LakePlan, write_study_tables
from tests.warehouses import AWKWARD, copied_study, lake_of, mart, run_dbt


def test_without_answers_every_mart_is_there_valid_and_empty(unanswered: Study) -> None:
    with duckdb.connect(str(unanswered.home.build_warehouse), read_only=True) as connection:
        rows = {
            name: connection.execute(f"select count(*) from marts.{name}").fetchone()[0]
            for (name,) in connection.execute(
                "select table_name from duckdb_tables() where schema_name = 'marts'"
            ).fetchall()
        }
    assert rows["fct_answers"] == rows["fct_accuracy"] == rows["fct_adaptive_accuracy"] == 0
    assert rows["fct_question_consistency"] == rows["fct_paraphrase_answers"] == 0
    assert rows["dim_questions"] == 6
    assert rows["dim_models"] == 2


def test_a_model_without_retrieval_has_accuracy_and_no_pairs(awkward: Study) -> None:
    assert set(mart(awkward, "fct_accuracy").query("model == 'memory_only'").method) == {"closed_book"}
    for name in ("fct_retrieval_quadrants", "fct_adaptive_thresholds", "fct_adaptive_accuracy"):
        assert "memory_only" not in set(mart(awkward, name).model)


def test_splits_without_test_questions_leave_nulls_not_errors(awkward: Study) -> None:
    single = mart(awkward, "fct_adaptive_thresholds").query("relation == 'father'")
    assert (single.n <= 1).all()


def test_popularity_is_the_mean_of_the_windows_months_that_have_a_row(awkward: Study) -> None:
    views = lake_of(awkward).read_all("page_views").to_pandas()
    window = views[(views.month >= "2025-11") & (views.month <= "2026-10")].dropna(subset=["views"])
    expected = window.groupby("entity_id").views.agg(["mean", "count"])
    questions = mart(awkward, "dim_questions").set_index("subject_id")
    assert questions.subject_popularity.isna().any()
    for subject_id, row in questions.iterrows():
        if subject_id in expected.index:
            assert row.subject_popularity == pytest.approx(expected.loc[subject_id, "mean"], rel=1e-12)
            assert row.n_popularity_months == expected.loc[subject_id, "count"]
        else:
            assert row.subject_popularity != row.subject_popularity
            assert row.n_popularity_months == 0


def test_what_left_the_study_stays_in_the_lake_and_out_of_the_marts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    study = copied_study(AWKWARD, monkeypatch, tmp_path / "copy")
    fewer = LakePlan(
        datasets=("popqa",), prompts=("zero_shot",), models=("small",), methods=("closed_book", "bm25"),
        measure="sitelinks", last_month=None,
    )  # fmt: skip
    write_study_tables(lake_of(study), fewer)
    run_dbt(study, "build")
    answers = mart(study, "fct_answers")
    assert set(zip(answers.dataset, answers.prompt, answers.model, answers.method, strict=True)) == {
        ("popqa", "zero_shot", "small", method) for method in ("closed_book", "bm25")
    }
    counted = mart(study, "fct_lake_reconciliation").set_index("table_name").loc["answers"]
    assert counted.n_lake == counted.n_outside_study + counted.n_mart
    assert counted.n_mart == len(answers) < counted.n_lake
    assert set(answers.popularity_measure) == {"sitelinks"}
    assert answers.subject_popularity.notna().all()
    assert set(mart(study, "fct_adaptive_accuracy").model) == {"small"}
