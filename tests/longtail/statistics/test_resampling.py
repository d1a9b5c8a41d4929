"""Resamples of subjects, their percentiles, sign flips against scipy, and the minima of an interval."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from longtail.statistics.resampling import (
    draws,
    interval,
    percentiles,
    reason_against,
    seed_of,
    sign_flip_p,
    sums_by_subject,
)


@pytest.mark.parametrize(
    ("n_defined", "ends"), [(1_000, (24.975, 974.025)), (950, (23.725, 925.275)), (949, None), (0, None)]
)
def test_percentiles_are_those_of_a_95_percent_interval(
    n_defined: int, ends: tuple[float, float] | None
) -> None:
    values = np.arange(1_000.0)[::-1].copy()
    values[: 1_000 - n_defined] = np.nan
    assert percentiles(values) == (ends and pytest.approx(ends))


def test_percentiles_lie_further_out_where_few_subjects_decide() -> None:
    """Student's quantile of 9 degrees is 2.2622, times the root of 10/9: 2.3845 standard errors, as of .855 %."""
    values = np.arange(10_001.0)
    assert percentiles(values, 10) == pytest.approx((85.5, 9_914.5), abs=0.1)
    assert percentiles(values, 1e9) == pytest.approx((250, 9_750), abs=0.1)


@pytest.mark.parametrize(
    ("values", "reason", "found"),
    [
        (np.arange(1_001.0), None, (25.0, 975.0, None)),
        (np.arange(1_001.0), "one subject", (None, None, "one subject")),
        (np.ones(1_000) + np.arange(1_000) * 1e-16, None, (None, None, "all resamples are equal")),
        (np.full(1_000, np.nan), None, (None, None, "too few resamples have a value")),
    ],
)
def test_an_interval_has_a_width_or_a_reason(
    values: np.ndarray, reason: str | None, found: tuple[float | None, float | None, str | None]
) -> None:
    assert interval(values, reason) == found


@pytest.mark.parametrize(
    ("counts", "reason"),
    [
        ((20, 10, 10), None),
        ((20,), None),
        ((19, 50, 50), "fewer than 20 subjects"),
        ((1,), "one subject"),
        ((60, 9, 51), "fewer than 10 right answers"),
        ((60, 51, 9.5), "fewer than 10 wrong answers"),
    ],
)
def test_minima_have_their_reasons(counts: tuple[int, ...], reason: str | None) -> None:
    assert reason_against(*counts) == reason


@pytest.mark.parametrize("n_subjects", [9, 13, 14, 60])
def test_sign_flips_are_scipys_permutation_test(n_subjects: int) -> None:
    """Exact for up to 13 subjects that differ, near it for more; rows without a difference change nothing."""
    rng = np.random.default_rng(5)
    sums = np.stack([rng.integers(-3, 5, n_subjects), rng.normal(0.3, 1, n_subjects)], axis=1)
    padded = np.concatenate([sums, np.zeros((30, 2))])
    found = sign_flip_p(padded, seed=1)
    for column, p in zip(sums.T, found, strict=True):
        n = np.inf if n_subjects < 15 else 50_000
        exact = stats.permutation_test((column,), np.sum, permutation_type="samples", n_resamples=n).pvalue
        is_exact = (column != 0).sum() <= 13
        assert p == pytest.approx(exact, abs=1e-12 if is_exact else 0.02)
    kinds, counts = np.unique(sums[:, :1], return_counts=True)
    assert sign_flip_p(kinds[:, None], 1, counts) == pytest.approx(found[:1], abs=0.02)


def test_p_is_one_without_a_difference_and_never_zero() -> None:
    assert sign_flip_p(np.zeros((40, 1)), seed=1) == [1]
    assert sign_flip_p(np.ones((60, 1)), seed=1) == [1 / 10_001]
    assert sign_flip_p(np.array([[1.0]]), 1, np.array([5_000])) == [1 / 10_001]
    assert sign_flip_p(np.ones((3, 1)), seed=1) == [2 / 2**3]


def test_rounding_errors_change_no_p_value() -> None:
    rng = np.random.default_rng(0)
    differences = rng.integers(-1, 2, (60, 3)) * np.array([1.0, 0.5, 0])
    noisy = differences + rng.uniform(-1e-15, 1e-15, differences.shape)
    found = sign_flip_p(differences, seed=1)
    assert found.tolist() == sign_flip_p(noisy, seed=1).tolist()
    assert found[2] == 1


def test_wider_sums_are_less_of_a_surprise() -> None:
    """Of the 2^12 sums of twelve ones, those of at least 12 / 2 have nine or more of one sign: 2 · 299."""
    assert sign_flip_p(np.ones((12, 1)), seed=1, stretch=np.array([2.0])) == [2 * 299 / 2**12]


def test_sums_by_subject_are_those_of_a_loop() -> None:
    subject, values = np.array([2, 0, 2, 1, 0]), np.arange(10.0).reshape(5, 2)
    assert sums_by_subject(values, subject).tolist() == [[10, 12], [6, 7], [4, 6]]


def test_a_resample_draws_as_many_subjects_as_there_are() -> None:
    found = draws(7, 2_000, np.random.default_rng(0))
    assert found.shape == (2_000, 7)
    assert (found.sum(axis=1) == 7).all()
    np.testing.assert_allclose(found.mean(axis=0), 1, atol=0.1)


def test_each_key_has_a_seed_of_its_own() -> None:
    seeds = {seed_of(0, ["a", "b"]), seed_of(1, ["a", "b"]), seed_of(0, ["a"]), seed_of(0, ["ab"])}
    assert len(seeds) == 4
    assert seed_of(0, ["a", "b"]) == seed_of(0, iter(["a", "b"]))
    assert max(seeds) < 2**64
