"""Costs, and what one user waits: equal to a recomputation from the lake; what was spent is counted once."""

from __future__ import annotations

import pandas as pd
import pytest

from longtail.study.study import Study
from tests.dbt.recomputation import GROUP, PAIR, assert_equal
from tests.dbt.recomputation_costs import (
    GENERATED,
    SPENT,
    as_told_by_the_lake,
    costs,
    latencies,
    savings,
    spent,
)
from tests.warehouses import lake_of, mart


def test_costs_equal_their_recomputation(awkward: Study) -> None:
    actual = mart(awkward, "fct_costs")
    answers = as_told_by_the_lake(mart(awkward, "fct_answers"), lake_of(awkward))
    expected = costs(answers, mart(awkward, "fct_generated_passages"))
    assert_equal(actual, expected, GROUP)
    by_model = actual.groupby("model")
    assert by_model.cost_usd_per_1000.count().to_dict() == {
        "large": 16,
        "memory_only": 0,
        "perfect": 16,
        "small": 0,
    }
    assert by_model.device_seconds_per_1000.count()["perfect"] == 0
    assert (actual[actual.method == "genread"].n_background_texts > 0).all()


@pytest.mark.parametrize("model", ["small", "large", "perfect", "memory_only"])
def test_sums_of_seconds_and_dollars_are_what_was_spent(awkward: Study, model: str) -> None:
    marts = [_of(model, mart(awkward, f"fct_{name}")) for name in GENERATED]
    expected = spent(lake_of(awkward), GENERATED, model)
    told = _of(model, lake_of(awkward).read_all("answers").to_pandas())
    for name in SPENT:
        assert sum(table[name].sum(skipna=False) for table in marts) == pytest.approx(
            expected[name], rel=1e-12, nan_ok=True
        )
        # Most of oracle's prompts are bm25's: what the rows of the lake tell counts them twice.
        if model != "memory_only" and told[name].notna().all():
            assert told[name].sum() > 1.1 * marts[0][name].sum()
    summed = _of(model, mart(awkward, "fct_costs"))[SPENT].sum(skipna=False)
    of_questions = spent(lake_of(awkward), ("answers", "generated_passages"), model)
    assert summed.to_dict() == pytest.approx(of_questions, rel=1e-12, nan_ok=True)


def test_what_oracle_has_of_bm25_is_counted_as_reused(awkward: Study) -> None:
    lake = lake_of(awkward).read_all("answers").to_pandas()
    oracle = mart(awkward, "fct_costs").query("method == 'oracle' and model == 'small'")
    told = (
        lake.query("method == 'oracle' and model == 'small'").groupby(["dataset", "prompt"]).is_reused.sum()
    )
    assert oracle.set_index(["dataset", "prompt"]).n_reused.to_dict() == told.to_dict()
    assert (oracle.n_reused > 0.5 * oracle.n).all()
    assert (oracle.device_seconds < 0.9 * oracle.device_seconds_per_1000 * oracle.n / 1000).all()


def test_latencies_have_the_intervals_of_scipy(awkward: Study) -> None:
    actual = mart(awkward, "fct_latency")
    assert_equal(actual, latencies(lake_of(awkward)), ["model", "method", "prompt", "device"])
    assert actual.is_interleaved.all()
    assert set(actual.model) == {"small", "large"}


def test_savings_are_claimed_where_the_interval_of_the_difference_excludes_zero(awkward: Study) -> None:
    adaptive = mart(awkward, "fct_adaptive_costs")
    expected = savings(lake_of(awkward), adaptive)
    key = [*PAIR, "search", "threshold_scope"]
    timed = adaptive[adaptive.n_timed.notna()]
    assert_equal(timed, expected.drop(columns="latency_claim"), key)
    claims = timed.merge(expected, on=key, suffixes=("", "_expected"))
    assert claims.latency_claim.tolist() == claims.latency_claim_expected.tolist()
    assert set(claims.query("parametric_method == 'closed_book'").latency_claim) == {"saves"}
    assert "undecided" in set(claims.query("parametric_method == 'genread'").latency_claim)
    assert adaptive[adaptive.n_timed.isna()].latency_claim.isna().all()
    for name in ("device_seconds", "cost_usd"):
        saved = adaptive[f"{name}_per_1000_saved"]
        difference = adaptive[f"{name}_per_1000_always"] - adaptive[f"{name}_per_1000_adaptive"]
        sign = adaptive.latency_claim.map({"saves": 1, "takes_longer": -1})
        of_service = pd.Series(name == "cost_usd", adaptive.index) & (adaptive.model == "perfect")
        expected_saved = difference.where(of_service | (sign * difference > 0))
        pd.testing.assert_series_equal(saved, expected_saved, check_names=False)
        assert saved.notna().any()


def _of(model: str, rows: pd.DataFrame) -> pd.DataFrame:
    return rows[rows.model == model]
