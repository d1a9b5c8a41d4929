"""The bootstrap agrees with the marts, and with a bootstrap written as plain loops."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dagster_project.core.errors import LakeError
from dagster_project.core.lake import Lake
from dagster_project.core.statistics.adaptive_gains import Cells, bootstrap_adaptive_gains, bootstrap_pair
from dagster_project.core.study import Study
from tests.lakes import LakePlan, make_study
from tests.warehouses import AWKWARD, UNANSWERED, built_study, lake_of, mart

PAIR = ["dataset", "prompt", "model", "parametric_method", "retrieval_method"]
LOG = logging.getLogger(__name__)


@pytest.fixture
def awkward(monkeypatch: pytest.MonkeyPatch) -> Study:
    return built_study(AWKWARD, monkeypatch)


def test_gain_agrees_with_the_marts(awkward: Study) -> None:
    thresholds = mart(awkward, "fct_adaptive_thresholds")
    gains = lake_of(awkward).read("adaptive_gains").to_pandas()
    assert len(gains) == thresholds.groupby([*PAIR, "search"]).ngroups * 2
    for _, row in gains.iterrows():
        mine = thresholds[(thresholds[[*PAIR, "search"]] == row[[*PAIR, "search"]]).all(axis=1)]
        overall = mine[mine.relation == "all"].iloc[0]
        used = (
            mine[mine.relation != "all"]
            if row.threshold_scope == "per_relation"
            else mine[mine.relation == "all"]
        )
        adaptive = (used.accuracy * used.n).sum() / used.n.sum()
        expected = adaptive - max(overall.accuracy_always, overall.accuracy_never)
        assert row.n_questions == overall.n
        assert row.gain_in_sample == pytest.approx(expected, abs=1e-9)
        assert 0 <= row.gain_low <= row.gain_high
        assert row.gain_mean >= 0


def test_the_mart_carries_the_gains(awkward: Study) -> None:
    key = [*PAIR, "search", "threshold_scope"]
    both = mart(awkward, "fct_adaptive_accuracy").merge(
        lake_of(awkward).read("adaptive_gains").to_pandas(),
        on=key,
        validate="one_to_one",
        suffixes=("", "_lake"),
    )
    assert len(both) == len(mart(awkward, "fct_adaptive_accuracy")) > 0
    assert (both.gain_in_sample == both.gain_in_sample_lake).all()
    held_out = both.accuracy_adaptive - both[["accuracy_always", "accuracy_never"]].max(axis=1)
    assert both.gain.to_numpy() == pytest.approx(held_out.to_numpy(), abs=1e-12, nan_ok=True)
    low = (both.gain + (both.gain_low - both.gain_mean).clip(upper=0)).where(both.gain_low < both.gain_high)
    high = (both.gain + (both.gain_high - both.gain_mean).clip(lower=0)).where(both.gain_low < both.gain_high)
    assert 0 < low.notna().sum() < len(both), "some resamples vary, some do not"
    assert both.gain_ci_low.to_numpy() == pytest.approx(low.to_numpy(), abs=1e-12, nan_ok=True)
    assert both.gain_ci_high.to_numpy() == pytest.approx(high.to_numpy(), abs=1e-12, nan_ok=True)


def test_a_second_call_is_current(awkward: Study) -> None:
    assert bootstrap_adaptive_gains(awkward, lake_of(awkward), LOG).was_current


def test_resampled_gains_equal_plain_loops() -> None:
    """Each cell holds one question, so that the numbers drawn can be read off and refitted one by one."""
    rng = np.random.default_rng(5)
    relation = np.repeat(["a", "b"], 12)
    popularity = np.concatenate([np.sort(rng.integers(0, 8, 12)) for _ in range(2)]).astype(float)
    right, retrieved = rng.integers(0, 2, (2, 24))
    steps = np.where(popularity < 4, 4.0, np.inf)
    cells = Cells(relation, popularity, right, retrieved, np.ones(24, dtype=np.int64),
                  {"per_relation": steps, "all": steps})  # fmt: skip
    weights = np.random.default_rng(7).multinomial(24, np.full(24, 1 / 24), size=30)
    results = {name: (gain, resampled) for name, gain, resampled in bootstrap_pair(cells, 7, 30)}
    for (search, scope), (gain, resampled) in results.items():
        expected = [_gain(cells, draw, search, scope) for draw in weights]
        np.testing.assert_allclose(resampled, expected, atol=1e-12)
        assert gain == pytest.approx(_gain(cells, np.ones(24, dtype=int), search, scope))
        assert gain >= 0


def _gain(cells: Cells, draw: np.ndarray, search: str, scope: str) -> float:
    frame = pd.DataFrame({
        "group": cells.relation if scope == "per_relation" else "all", "popularity": cells.popularity,
        "parametric": cells.parametric, "retrieval": cells.retrieval,
    }).loc[np.repeat(np.arange(len(draw)), draw)]  # fmt: skip
    right = 0
    for _, rows in frame.groupby("group"):
        tried = {0.0, 4.0, np.inf} if search == "binned10" else {*rows.popularity, np.inf}
        right += max(
            int(np.where(rows.popularity < limit, rows.retrieval, rows.parametric).sum()) for limit in tried
        )
    return (right - max(frame.parametric.sum(), frame.retrieval.sum())) / len(frame)


def test_draws_depend_on_the_seed_alone() -> None:
    steps = np.array([2.0, np.inf])
    cells = Cells(
        np.array(["a", "a"]), np.array([1.0, 2.0]), np.array([0, 1]), np.array([1, 0]), np.array([30, 20]),
        {"per_relation": steps, "all": steps},
    )  # fmt: skip
    first, again, other = ([r[2] for r in bootstrap_pair(cells, seed, 50)] for seed in (1, 1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not np.array_equal(first[0], other[0])


def test_nothing_answered_gives_no_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    study = built_study(UNANSWERED, monkeypatch)
    assert lake_of(study).read("adaptive_gains").num_rows == 0


def test_without_a_build_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path / "home"))
    study = make_study(tmp_path, LakePlan())
    with pytest.raises(LakeError, match="first pass"):
        bootstrap_adaptive_gains(study, Lake(study.home.lake), LOG)
