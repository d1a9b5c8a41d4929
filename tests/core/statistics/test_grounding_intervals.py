"""Grounding prompts against the null prompt: the bootstrap and the test agree with plain loops, scipy and statsmodels."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from dagster_project.core.statistics.grounding_intervals import compare_prompts, sign_flip_p

LOG = logging.getLogger("test")
COMPARED = ("quip", "same_length_quip", "score")
SCHEMA = pa.schema([
    *((name, pa.string()) for name in ("dataset", "model", "method", "grounding_prompt", "compared_with")),
    ("question_id", pa.list_(pa.string())),
    *((f"{base}{name}", pa.list_(pa.float64())) for name in COMPARED for base in ("", "base_")),
])  # fmt: skip


def group(
    quip: Any, base_quip: Any, score: Any = None, base_score: Any = None, **more: Any
) -> dict[str, Any]:
    """The first part of each text has half its QUIP."""
    n = len(quip)
    return {
        "dataset": "d", "model": "m", "method": "closed_book", "grounding_prompt": "g",
        "compared_with": "null_prompt", "question_id": [f"q{i:04}" for i in range(n)],
        "quip": list(quip), "base_quip": list(base_quip), "same_length_quip": halves(quip),
        "base_same_length_quip": halves(base_quip),
        "score": [None] * n if score is None else list(score),
        "base_score": [None] * n if base_score is None else list(base_score), **more,
    }  # fmt: skip


def halves(scores: Any) -> list[float | None]:
    return [None if one is None else one / 2 for one in scores]


def compared(*groups: dict[str, Any], seed: int = 0) -> dict[tuple[str, str], dict[str, Any]]:
    found = compare_prompts([pa.Table.from_pylist(groups, schema=SCHEMA)], seed, LOG)["grounding_intervals"]
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


def test_p_values_are_those_of_scipys_permutation_test() -> None:
    """Exactly all changes of signs for few questions, and many random ones; the t test agrees roughly."""
    rng = np.random.default_rng(5)
    differences = np.stack([rng.normal(shift, 1, 9) for shift in (0, 0.5, 2)], axis=1)
    own = sign_flip_p(differences, seed=1, n_signs=100_000)
    for column, p in zip(differences.T, own, strict=True):
        exact = stats.permutation_test((column,), np.sum, permutation_type="samples", n_resamples=np.inf)
        assert p == pytest.approx(exact.pvalue, abs=0.005)
    assert sign_flip_p(np.ones((60, 1)), seed=1, n_signs=999) == [1 / 1_000], "the observed signs count"
    many = rng.normal(0.08, 1, (500, 1))
    assert sign_flip_p(many, seed=1)[0] == pytest.approx(stats.ttest_1samp(many[:, 0], 0).pvalue, abs=0.02)


def test_questions_without_both_scores_do_not_count() -> None:
    """Neither in the numbers, nor in the ratio, whatever other prompts of the dataset have."""
    null, quip = [0.25] * 8, [0.5] * 6 + [None] * 2
    short = group([0.5] * 3, [0.25] * 3, grounding_prompt="short")
    found = compared(group(quip, [*null[:6], None, None], [1.0] * 8, [0.0] * 8), short)
    ratio, difference, score = (
        found["g", one] for one in ("quip_ratio", "quip_difference", "score_difference")
    )
    assert [one["n_paired"] for one in (ratio, difference, score)] == [6, 6, 8]
    assert (ratio["value_low"], ratio["value_high"], ratio["p_value"]) == (2, 2, None)
    assert (difference["value_low"], difference["value_high"]) == (0.25, 0.25)
    assert difference["p_value"] == pytest.approx(2 / 2**6, abs=0.01)
    few = found["short", "quip_difference"]
    assert (few["n_paired"], few["value_low"], few["p_value"]) == (3, None, None)
    assert few["undefined"] == "fewer than five questions"
    four, five = (group([0.5] * n, [0.25] * n, grounding_prompt=str(n)) for n in (4, 5))
    found = compared(four, five)
    assert found["4", "quip_ratio"]["undefined"] == "fewer than five questions"
    assert found["4", "quip_difference"]["p_value"] is None
    assert (found["5", "quip_ratio"]["value_low"], found["5", "quip_ratio"]["undefined"]) == (2, None)
    assert found["5", "quip_difference"]["p_value"] == pytest.approx(2 / 2**5, abs=0.01)


def test_nothing_quoted_under_the_null_prompt_leaves_no_ratio() -> None:
    for n in (5, 9):
        found = compared(group([0.5] * n, [0.0] * n))
        assert found["g", "quip_ratio"]["undefined"] == "too few resamples with a value"
    assert found["g", "quip_ratio"]["undefined"] == "too few resamples with a value"
    assert found["g", "quip_difference"]["value_low"] == 0.5
    assert found["g", "score_difference"]["n_paired"] == 0


def test_equal_prompts_have_a_p_of_one_and_draws_depend_on_the_seed() -> None:
    same = np.linspace(0, 1, 30)
    assert compared(group(same, same))["g", "quip_difference"]["p_value"] == 1
    one, again, other = (compared(group(same, same[::-1]), seed=seed) for seed in (1, 1, 2))
    assert one == again != other
