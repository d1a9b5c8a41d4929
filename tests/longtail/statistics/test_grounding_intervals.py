"""Grounding prompts against the null prompt: the bootstrap and the test agree with plain loops, scipy and statsmodels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from longtail.statistics.grounding_intervals import compare_prompts

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
