"""Paired comparisons agree with scipy, statsmodels and a bootstrap that draws subject by subject."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests

from longtail.statistics.method_comparisons import (
    compare_methods,
    difference_interval,
    kinds_of_subjects,
    mcnemar_exact,
)
from longtail.statistics.resampling import LEAST_P
from longtail.study.study import Study
from tests.warehouses import AWKWARD, built_study, mart

KEY = ["dataset", "prompt", "comparison", "model_a", "method_a", "model_b", "method_b"]


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
    """Down to p of about 1e-300; below that it is the smallest number that is published, never 0."""
    expected = min(1.0, 2 * stats.binom.cdf(min(a_only, b_only), a_only + b_only, 0.5))
    assert mcnemar_exact(a_only, b_only) == pytest.approx(expected, rel=1e-9, abs=1e-300)
    assert mcnemar_exact(a_only, b_only) >= LEAST_P > 0


def subjects(*kinds: tuple[int, int, int]) -> list[dict[str, int]]:
    """Difference and number of a subject's questions, and how many such subjects there are."""
    return [dict(zip(("difference", "n_questions", "n_subjects"), kind, strict=True)) for kind in kinds]


def test_bootstrap_is_that_of_drawn_subjects() -> None:
    """Percentiles agree within a fiftieth of the interval's width. Question by question it would be far narrower."""
    kinds = subjects((3, 3, 30), (-4, 4, 12), (1, 1, 20), (0, 2, 40), (0, 1, 25), (-1, 2, 18))
    difference, n, times = np.array([list(kind.values()) for kind in kinds]).T
    each = np.repeat([difference, n], times, axis=1)
    drawn = np.random.default_rng(0).integers(0, each.shape[1], (20_000, each.shape[1]))
    deviations = each[0] - each[1] * each[0].sum() / each[1].sum()
    n_deciding = (deviations**2).sum() ** 2 / (deviations**4).sum()
    tail = stats.norm.cdf(stats.t.ppf(0.025, n_deciding - 1) * math.sqrt(n_deciding / (n_deciding - 1)))
    low, high = np.quantile(each[0, drawn].sum(axis=1) / each[1, drawn].sum(axis=1), [tail, 1 - tail])
    found = difference_interval(kinds_of_subjects(kinds), seed=1)
    np.testing.assert_allclose(np.array(found[:2], dtype=float), (low, high), atol=(high - low) / 50)
    single = difference_interval(np.array([[1, 1, 110], [-1, 1, 66], [0, 1, 100]]), seed=1)
    assert np.diff(np.array(single[:2], dtype=float)) < 0.7 * (high - low)


def test_bootstrap_covers_the_normal_interval_and_depends_on_the_seed_alone() -> None:
    n, a_only, b_only = 14_267, 3_000, 2_500
    kinds = np.array([[1, 1, a_only], [-1, 1, b_only], [0, 1, n - a_only - b_only]])
    low, high, _ = difference_interval(kinds, seed=1)
    difference = (a_only - b_only) / n
    error = math.sqrt((a_only + b_only) / n - difference**2) / math.sqrt(n)
    ends = difference + 1.96 * np.array([-error, error])
    np.testing.assert_allclose(np.array([low, high], dtype=float), ends, atol=5e-4)
    assert (low, high, None) == difference_interval(kinds, seed=1)
    assert (low, high, None) != difference_interval(kinds, seed=2)


def test_repeated_questions_do_not_make_a_difference_certain() -> None:
    """Each of 40 subjects is asked six times: p and the interval are those of 40 questions asked once."""
    key = dict.fromkeys(KEY, "x")
    counts = {"n_subjects": 40, "n_a_only": 0, "n_b_only": 0}
    six = {**key, **counts, "n": 240, "subjects": subjects((6, 6, 14), (-6, 6, 6), (0, 6, 20))}
    once = {**key, **counts, "n": 40, "subjects": subjects((1, 1, 14), (-1, 1, 6), (0, 1, 20))}
    table = pa.Table.from_pylist([six, once])
    rows = compare_methods(table, 1).to_pylist()
    for name in ("p_value", "difference_low", "difference_high", "no_interval"):
        assert rows[0][name] == rows[1][name]
    assert rows[0]["p_value"] == pytest.approx(stats.binomtest(6, 20).pvalue, abs=0.02)


def test_the_mart_equals_its_recomputation(awkward: Study) -> None:
    actual = mart(awkward, "fct_method_comparisons").set_index(KEY).sort_index()
    asked = mart(awkward, "dim_questions")[["dataset", "question_id", "subject_id"]]
    answers = mart(awkward, "fct_answers").drop(columns="subject_id", errors="ignore").merge(asked)
    expected = recomputed(answers).set_index(KEY).sort_index()
    assert actual.index.equals(expected.index)
    assert {"methods", "models"} == set(actual.index.get_level_values("comparison"))
    for column in expected:
        drawn = 0.015 if column == "p_value" else 0  # three standard errors of a p by 10,000 draws
        np.testing.assert_allclose(
            actual[column].astype(float), expected[column], rtol=1e-9, atol=drawn, err_msg=column
        )
    has = actual.ci_low.notna()
    assert has.any()
    assert (has == actual.no_interval.isna()).all()
    assert ((actual.ci_low < actual.ci_high) | ~has).all()
    assert ((actual.ci_low <= actual.difference) & (actual.difference <= actual.ci_high) | ~has).all()
    holm = actual.groupby("dataset").p_value.transform(lambda p: multipletests(p, method="holm")[1])
    np.testing.assert_allclose(actual.p_holm, holm, rtol=1e-9)
    assert (actual.p_value > 0).all()
    assert (actual.n < actual.n.max()).any(), "some sides lack answers: only common questions count"
    assert actual.undefined.isna().all()


def recomputed(answers: pd.DataFrame) -> pd.DataFrame:
    """Every comparison by plain loops: p by signs that are drawn subject by subject, McNemar's by scipy."""
    rows = []
    rng = np.random.default_rng(0)
    answers = answers.assign(subject=answers.subject_id.fillna("question " + answers.question_id))
    for (dataset, prompt), group in answers.groupby(["dataset", "prompt"]):
        subject = group.drop_duplicates("question_id").set_index("question_id").subject
        right = {
            side: own.set_index("question_id").is_correct for side, own in group.groupby(["model", "method"])
        }
        for a, b in itertools.combinations(sorted(right), 2):
            if (a[0] == b[0]) == (a[1] == b[1]):
                continue
            both = pd.concat([right[a], right[b]], axis=1, join="inner").astype(int)
            difference = both.iloc[:, 0] - both.iloc[:, 1]
            sums = difference.groupby(subject).sum().to_numpy()
            signs = rng.choice([-1.0, 1.0], (20_000, len(sums)))
            p = (np.abs(signs @ sums) >= abs(sums.sum())).mean()
            a_only, b_only = (int((difference == sign).sum()) for sign in (1, -1))
            mcnemars = stats.binomtest(a_only, a_only + b_only).pvalue if a_only + b_only else 1.0
            rows.append((dataset, prompt, "methods" if a[0] == b[0] else "models", *a, *b, len(both), len(sums), a_only,
                         b_only, difference.mean(), p, mcnemars))  # fmt: skip
    names = ["n", "n_subjects", "n_a_only", "n_b_only", "difference", "p_value", "p_mcnemar"]
    return pd.DataFrame(rows, columns=[*KEY, *names])
