"""Paired comparisons agree with scipy, statsmodels and a bootstrap that draws subject by subject."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests

from longtail.statistics.paired_comparisons import (
    compare_methods,
    compare_prompts,
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


COMPARED = ("quip", "same_length_quip", "score")
SCHEMA = pa.schema([
    *((name, pa.string()) for name in ("dataset", "model", "method", "grounding_prompt", "compared_with")),
    ("cluster_id", pa.list_(pa.string())),
    *((f"{base}{name}", pa.list_(pa.float64())) for name in COMPARED for base in ("", "base_")),
])  # fmt: skip


def group(
    quip: Any, base_quip: Any, score: Any = None, base_score: Any = None, **more: Any
) -> dict[str, Any]:
    """The first part of each text has half its QUIP."""
    n = len(quip)
    return {
        "dataset": "d", "model": "m", "method": "closed_book", "grounding_prompt": "g",
        "compared_with": "null_prompt", "cluster_id": [f"q{i:04}" for i in range(n)],
        "quip": list(quip), "base_quip": list(base_quip), "same_length_quip": halves(quip),
        "base_same_length_quip": halves(base_quip),
        "score": [None] * n if score is None else list(score),
        "base_score": [None] * n if base_score is None else list(base_score), **more,
    }  # fmt: skip


def halves(scores: Any) -> list[float | None]:
    return [None if one is None else one / 2 for one in scores]


def compared(*groups: dict[str, Any], seed: int = 0) -> dict[tuple[str, str], dict[str, Any]]:
    found = compare_prompts(pa.Table.from_pylist(groups, schema=SCHEMA), seed).to_pylist()
    return {(one["grounding_prompt"], one["measure"]): one for one in found}


def test_intervals_equal_a_bootstrap_that_draws_question_by_question() -> None:
    """An independent resampling with many more draws: percentiles agree within a tenth of the interval's width."""
    rng = np.random.default_rng(3)
    null = rng.beta(1, 3, 200)
    quip, right = np.clip(null + rng.normal(0.05, 0.2, 200), 0, 1), rng.integers(0, 2, (2, 200))
    found = compared(group(quip, null, right[0], right[1]))
    drawn = rng.integers(0, 200, (20_000, 200))
    expected = {
        "quip_ratio": quip[drawn].mean(axis=1) / null[drawn].mean(axis=1),
        "quip_difference": (quip - null)[drawn].mean(axis=1),
        "same_length_ratio": quip[drawn].mean(axis=1) / null[drawn].mean(axis=1),
        "same_length_difference": (quip - null)[drawn].mean(axis=1) / 2,
        "score_difference": (right[0] - right[1])[drawn].mean(axis=1),
    }
    for measure, values in expected.items():
        low, high = np.quantile(values, [0.025, 0.975])
        ends = found["g", measure]["value_low"], found["g", measure]["value_high"]
        np.testing.assert_allclose(ends, (low, high), atol=(high - low) / 10, err_msg=measure)


def test_questions_on_one_subject_are_drawn_together() -> None:
    """Sixty questions of 20 subjects that are alike, in any order: the numbers are those of 20 questions."""
    rng = np.random.default_rng(4)
    null, quip = rng.uniform(0.2, 0.5, 20), rng.uniform(0.2, 0.8, 20)
    order = rng.permutation(np.repeat(np.arange(20), 3))
    names = [f"q{one:04}" for one in order]
    repeated = compared(group(quip[order], null[order], cluster_id=names))["g", "quip_difference"]
    once = compared(group(quip, null))["g", "quip_difference"]
    assert (repeated.pop("n_paired"), once.pop("n_paired"), once["n_subjects"]) == (60, 20, 20)
    for name, value in once.items():
        assert repeated[name] == pytest.approx(value) if isinstance(value, float) else repeated[name] == value


def test_questions_without_both_scores_do_not_count() -> None:
    """Neither in the numbers, nor in the ratio, whatever other prompts of the dataset have."""
    null = np.linspace(0.2, 0.4, 24)
    quip = [*(2 * null[:22]), None, None]
    short = group([0.5] * 3, [0.25] * 3, grounding_prompt="short")
    found = compared(group(quip, [*null[:22], None, None], [1.0] * 24, [0.0] * 24), short)
    ratio, difference, score = (
        found["g", one] for one in ("quip_ratio", "quip_difference", "score_difference")
    )
    assert [one["n_paired"] for one in (ratio, difference, score)] == [22, 22, 24]
    assert (ratio["value_low"], ratio["no_interval"], ratio["p_value"]) == (
        None,
        "all resamples are equal",
        None,
    )
    assert difference["value_low"] < null[:22].mean() < difference["value_high"]
    assert difference["p_value"] == score["p_value"] == 1 / 10_001, "the observed signs count"
    assert score["no_interval"] == "all resamples are equal"
    few = found["short", "quip_difference"]
    assert (few["n_paired"], few["n_subjects"], few["value_low"]) == (3, 3, None)
    assert few["no_interval"] == "fewer than 20 subjects"
    assert few["p_value"] == pytest.approx(2 / 2**3, abs=0.02)


def test_nothing_quoted_under_the_null_prompt_leaves_no_ratio() -> None:
    found = compared(group(np.linspace(0.1, 0.5, 25), [0.0] * 25))
    assert found["g", "quip_ratio"]["no_interval"] == "too few resamples have a value"
    assert found["g", "quip_difference"]["value_low"] > 0
    assert (found["g", "score_difference"]["n_paired"], found["g", "score_difference"]["p_value"]) == (
        0,
        None,
    )


def test_equal_prompts_have_a_p_of_one_and_draws_depend_on_the_seed() -> None:
    same = np.linspace(0, 1, 30)
    assert compared(group(same, same))["g", "quip_difference"]["p_value"] == 1
    one, again, other = (compared(group(same, same[::-1]), seed=seed) for seed in (1, 1, 2))
    assert one == again != other
