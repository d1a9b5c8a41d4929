"""Lakes at the edge: nothing answered, a model without retrieval, prices that are missing, windows with gaps."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from longtail.study.study import Study
from tests.in_process_dbt import invoke_dbt
from tests.warehouses import AWKWARD, copied_study, lake_of, mart


def test_without_answers_every_mart_is_there_valid_and_empty(unanswered: Study) -> None:
    with duckdb.connect(str(unanswered.home.build_warehouse), read_only=True) as connection:
        rows = {
            name: connection.execute(f"select count(*) from marts.{name}").fetchone()[0]
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
