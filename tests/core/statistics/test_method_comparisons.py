"""Paired comparisons agree with scipy, statsmodels and a bootstrap that draws question by question."""

from __future__ import annotations

import itertools
import logging
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests

from dagster_project.core.statistics.method_comparisons import (
    bootstrap_difference,
    mcnemar_exact,
)
from dagster_project.core.study.study import Study
from tests.warehouses import AWKWARD, built_study, mart

KEY = ["dataset", "prompt", "comparison", "model_a", "method_a", "model_b", "method_b"]
LOG = logging.getLogger(__name__)


@pytest.fixture
def awkward(monkeypatch: pytest.MonkeyPatch) -> Study:
    return built_study(AWKWARD, monkeypatch)


@given(st.integers(0, 60), st.integers(0, 60))
def test_mcnemar_equals_scipy_and_statsmodels(a_only: int, b_only: int) -> None:
    p = mcnemar_exact(a_only, b_only)
    assert p == mcnemar_exact(b_only, a_only)
    if a_only + b_only:
        assert p == pytest.approx(stats.binomtest(a_only, a_only + b_only).pvalue, rel=1e-11)
        assert p == pytest.approx(mcnemar([[0, a_only], [b_only, 0]], exact=True).pvalue, rel=1e-11)
    else:
        assert p == 1


@pytest.mark.parametrize(
    ("a_only", "b_only"), [(1, 0), (7_000, 7_001), (3_000, 3_200), (5_000, 4_000), (5_000, 2_000), (9_000, 3)]
)
def test_mcnemar_keeps_its_digits_for_thousands_of_questions(a_only: int, b_only: int) -> None:
    """Down to p of about 1e-300, and below that 0 at worst."""
    expected = min(1.0, 2 * stats.binom.cdf(min(a_only, b_only), a_only + b_only, 0.5))
    assert mcnemar_exact(a_only, b_only) == pytest.approx(expected, rel=1e-9, abs=1e-300)


def test_bootstrap_is_that_of_drawn_questions() -> None:
    """Differences of resamples are multiples of 1/n: percentiles agree but for one of those steps."""
    n, a_only, b_only = 400, 90, 50
    right = np.repeat([[1, 0], [0, 1], [1, 1]], [a_only, b_only, n - a_only - b_only], axis=0)
    rng = np.random.default_rng(0)
    drawn = right[rng.integers(0, n, (10_000, n))].mean(axis=1)
    expected = np.quantile(drawn[:, 0] - drawn[:, 1], [0.025, 0.975])
    np.testing.assert_allclose(bootstrap_difference(n, a_only, b_only, seed=1), expected, atol=1.01 / n)


def test_bootstrap_covers_the_normal_interval_and_depends_on_the_seed_alone() -> None:
    n, a_only, b_only = 14_267, 3_000, 2_500
    low, high = bootstrap_difference(n, a_only, b_only, seed=1)
    difference = (a_only - b_only) / n
    error = math.sqrt((a_only + b_only) / n - difference**2) / math.sqrt(n)
    np.testing.assert_allclose([low, high], [difference - 1.96 * error, difference + 1.96 * error], atol=5e-4)
    assert (low, high) == bootstrap_difference(n, a_only, b_only, seed=1)
    assert (low, high) != bootstrap_difference(n, a_only, b_only, seed=2)
    assert bootstrap_difference(5, 0, 0, seed=1) == (0, 0)
    assert bootstrap_difference(5, 5, 0, seed=1) == (1, 1)


def test_the_mart_equals_its_recomputation(awkward: Study) -> None:
    actual = mart(awkward, "fct_method_comparisons").set_index(KEY).sort_index()
    expected = recomputed(mart(awkward, "fct_answers")).set_index(KEY).sort_index()
    assert actual.index.equals(expected.index)
    assert {"methods", "models"} == set(actual.index.get_level_values("comparison"))
    for column in expected:
        np.testing.assert_allclose(actual[column].astype(float), expected[column], rtol=1e-9, err_msg=column)
    assert ((actual.ci_low <= actual.difference) & (actual.difference <= actual.ci_high)).all()
    assert (actual.n < actual.n.max()).any(), "some sides lack answers: only common questions count"
    assert actual.undefined.isna().all()


def recomputed(answers: pd.DataFrame) -> pd.DataFrame:
    """Every comparison by plain loops, p by scipy, Holm by statsmodels."""
    rows = []
    for (dataset, prompt), group in answers.groupby(["dataset", "prompt"]):
        right = {
            side: rows.set_index("question_id").is_correct
            for side, rows in group.groupby(["model", "method"])
        }
        for a, b in itertools.combinations(sorted(right), 2):
            if (a[0] == b[0]) == (a[1] == b[1]):
                continue
            both = pd.concat([right[a], right[b]], axis=1, join="inner").to_numpy(dtype=bool)
            a_only = int((both[:, 0] & ~both[:, 1]).sum())
            b_only = int((both[:, 1] & ~both[:, 0]).sum())
            p = stats.binomtest(a_only, a_only + b_only).pvalue if a_only + b_only else 1.0
            rows.append((dataset, prompt, "methods" if a[0] == b[0] else "models", *a, *b, len(both), a_only,
                         b_only, both[:, 0].mean() - both[:, 1].mean(), p))  # fmt: skip
    found = pd.DataFrame(rows, columns=[*KEY, "n", "n_a_only", "n_b_only", "difference", "p_value"])
    holm = found.groupby("dataset").p_value.transform(lambda p: multipletests(p, method="holm")[1])
    return found.assign(p_holm=holm)
