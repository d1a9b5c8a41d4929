"""Lakes at the edge: nothing answered, a model without retrieval, prices that are missing, windows with gaps; a
study that asks one model about one dataset, and whose lake holds much more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from longtail.study.study import Study
from longtail.warehouse.build import STUDY_BUILD
from tests.in_process_dbt import invoke_dbt
from tests.lakes import LakePlan, write_study_tables
from tests.warehouses import AWKWARD, copied_study, lake_of, mart


def test_without_answers_every_mart_is_there_valid_and_empty(unanswered: Study) -> None:
    with duckdb.connect(str(unanswered.home.build_warehouse), read_only=True) as connection:
        rows = {
            name: connection.execute(f"select count(*) from marts.{name}").fetchall()[0][0]
            for (name,) in connection.execute(
                "select table_name from duckdb_tables() where schema_name = 'marts'"
            ).fetchall()
        }
    assert {name for name, n in rows.items() if n and name.startswith("fct_")} == {
        "fct_answer_coverage", "fct_guessing_baselines", "fct_lake_reconciliation", "fct_popularity_distribution",
        "fct_popularity_history", "fct_popularity_quantiles", "fct_retrieval_recall",
        "fct_retrieval_recall_by_popularity_bin", "fct_retrieval_recall_by_popularity_third",
        "fct_retriever_consistency",
    }  # fmt: skip
    assert mart(unanswered, "fct_prompts").empty
    assert rows["dim_questions"] == 6
    assert rows["dim_models"] == 2


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


def test_a_service_has_dollars_and_no_seconds_and_a_model_without_price_seconds_alone(awkward: Study) -> None:
    costs = mart(awkward, "fct_costs").set_index("model")
    assert costs.loc["perfect"].cost_usd_per_1000.gt(0).all()
    assert costs.loc["perfect"].device_seconds_per_1000.isna().all()
    # What its own cache held was billed like the rest.
    service = costs.loc["perfect"]
    assert service.cost_usd_unshared_estimate_per_1000.tolist() == service.cost_usd_per_1000.tolist()
    assert costs.loc["small"].cost_usd_per_1000.isna().all()
    assert costs.loc["small"].device_seconds_per_1000.gt(0).all()
    adaptive = mart(awkward, "fct_adaptive_costs").set_index("model")
    assert adaptive.loc["small"].cost_usd_per_1000_saved.isna().all()
    assert adaptive.loc["perfect"].device_seconds_per_1000_saved.isna().all()
    assert adaptive.loc["perfect"].single_latency_ms_saved.isna().all()
    prices = mart(awkward, "dim_model_prices")
    assert set(prices.model) == {"perfect"}
    assert len(prices) == 2


def test_one_answer_without_a_price_leaves_its_group_without_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    study = copied_study(AWKWARD, monkeypatch, tmp_path / "copy")
    lake = lake_of(study)
    rows = lake.read("answers", "large|bm25").to_pylist()
    unpriced = next(row for row in rows if row["dataset"] == "popqa" and row["prompt"] == "zero_shot")
    unpriced["cost_usd"] = None
    lake.write("answers", rows, fingerprint="changed", partition="large|bm25")
    invoke_dbt(study, "run", "--select", "stg_generation__answers+,+fct_costs")
    costs = mart(study, "fct_costs").query("model == 'large' and method == 'bm25'")
    without = costs[costs.cost_usd_per_1000.isna()]
    assert list(zip(without.dataset, without.prompt, strict=True)) == [("popqa", "zero_shot")]
    assert without.device_seconds_per_1000.notna().all()


def test_the_latency_of_one_user_is_that_of_the_method_and_prompt(awkward: Study) -> None:
    timed = lake_of(awkward).read_all("single_latencies").to_pandas()
    timed = timed.groupby(["model", "method", "prompt"]).single_latency_ms.median().to_dict()
    answers = mart(awkward, "fct_answers")
    assert answers.single_latency_ms.isna().any()
    for key, group in answers.groupby(["model", "method", "prompt"]):
        expected = timed.get(key)
        assert (
            group.single_latency_ms.isna().all()
            if expected is None
            else group.single_latency_ms.to_numpy() == pytest.approx(expected)
        )
    for name in ("fct_paraphrase_answers", "fct_sampled_answers"):
        for (model, prompt), group in mart(awkward, name).groupby(["model", "prompt"]):
            expected = timed.get((model, "closed_book", prompt))
            assert (expected is not None) == (model in ("small", "large"))
            assert (
                group.single_latency_ms.isna().all()
                if expected is None
                else group.single_latency_ms.to_numpy() == pytest.approx(expected)
            )


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
