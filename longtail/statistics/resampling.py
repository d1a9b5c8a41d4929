"""Shared by tests and bootstraps: a separate seed per key, resamples of subjects, sign flips, and minima."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[Any]


def seed_of(seed: int, key: Iterable[str]) -> int:
    """The seed of one key of a study: the same whatever other keys the study has."""
    return int(hashlib.sha256("|".join([str(seed), *key]).encode()).hexdigest()[:16], 16)


LEAST_DEFINED = 0.95
"""Below this share of resamples with a value there is no interval: the others would be no fair selection."""
LEAST_SUBJECTS = 20
LEAST_OF_OUTCOME = 10
"""With fewer subjects, or fewer answers of the rarer outcome, an interval does not hold what it promises (SPEC §12)."""
LEAST_P = sys.float_info.min
"""A p value that is smaller, or underflows to 0, is published as this number."""
N_SIGNS = 10_000
_MOST_FLIPPED = 13
"""Subjects up to which all changes of signs are tried, 2 to the power of this number."""
_CHUNK = 4_000_000
"""Signs that are drawn at once."""
ROUNDING = 1e-12
_IN_CACHE = 20_000
"""Draws that are counted at once: few enough for the processor's cache."""


def draws(n: int, size: int, rng: np.random.Generator) -> Values:
    """`size` resamples of `n` subjects, size × n: how often each subject is drawn."""
    counts = np.empty((size, n), dtype=np.uint8)
    for rows in np.split(counts, range(0, size, max(1, _IN_CACHE // n))[1:]):
        drawn = rng.integers(0, n, rows.shape) + n * np.arange(len(rows))[:, None]
        rows[:] = np.bincount(drawn.ravel(), minlength=rows.size).reshape(rows.shape)
    return counts


def resample_ratios(numerators: Values, denominators: Values, seed: int, n_resamples: int) -> Values:
    """The ratio of sums in each resample of subjects, resamples × measures; nan where the sum below the line is 0.

    `numerators` and `denominators`: subjects × measures.
    """
    weights = draws(len(numerators), n_resamples, np.random.default_rng(seed)).astype(float)
    above, below = weights @ numerators, weights @ denominators
    return np.divide(above, below, out=np.full_like(above, np.nan), where=below > 0)


def sums_by_subject(values: Values, subject: Values) -> Values:
    """The sum of the rows of each subject: n × measures to subjects × measures, subjects (n) in ascending order."""
    order = np.argsort(subject, kind="stable")
    ordered = subject[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    return np.asarray(np.add.reduceat(values[order], starts, axis=0))


def sign_flip_p(
    sums: Values, seed: int, counts: Values | None = None, stretch: Values | float = 1.0
) -> Values:
    """Two-sided p of each column's sum, if the names of both sides were exchanged at random for each subject.

    `sums`: differences summed by subject, subjects × measures; with `counts`, each row stands for so many subjects. All
    columns share the signs of a subject. Without a difference p is 1. Where up to 13 subjects differ, all changes of
    signs are tried; else `N_SIGNS` are drawn, and the observed signs count as one more, so that p is never 0. `stretch`
    (measures): how much wider the sums spread than changes of signs make them.
    """
    counts = np.ones(len(sums), dtype=int) if counts is None else counts
    # Rounding errors, which depend on the machine, decide neither who differs nor which sums are as large.
    sums = np.where(np.abs(sums) > ROUNDING, sums, 0.0)
    observed = np.abs(counts @ sums) * (1 - 1e-9) / stretch
    differs = (sums != 0).any(axis=1)
    sums, counts = sums[differs], counts[differs]
    rng, n_as_large = np.random.default_rng(seed), np.ones(sums.shape[1])
    at_once = max(1, _CHUNK // max(1, len(sums)))
    for start in range(0, N_SIGNS, at_once):
        size = min(at_once, N_SIGNS - start), len(sums)
        is_single = (counts == 1).all()  # as one bit is drawn faster
        drawn = rng.integers(0, 2, size, np.int8) if is_single else rng.binomial(counts, 0.5, size)
        signs = 2.0 * drawn - counts
        n_as_large += (np.abs(signs @ sums) >= observed).sum(axis=0)
    p_values = n_as_large / (N_SIGNS + 1)
    for column in np.flatnonzero(counts @ (sums != 0) <= _MOST_FLIPPED):
        values = np.repeat(sums[:, column], counts * (sums[:, column] != 0))
        bits = np.arange(2 ** len(values))[:, None] >> np.arange(len(values)) & 1
        p_values[column] = (np.abs((2 * bits - 1) @ values) >= observed[column]).mean()
    return np.asarray(p_values)


def n_deciding(deviations: Values) -> Values:
    """How many subjects decide a value: so many with equal deviations would vary it as much (its kurtosis, turned round).

    `deviations` (subjects × measures): of a ratio, the sum above the line minus the ratio times the sum below it.
    """
    fourths = (deviations**4).sum(axis=0)
    return np.asarray((deviations**2).sum(axis=0) ** 2 / np.where(fourths > 0, fourths, 1.0))


def percentiles(values: Values, n: float = np.inf) -> tuple[float, float] | None:
    """2.5th and 97.5th percentile of the resamples, nan left out; None where too few have a value.

    `n`: how many subjects decide the value. Resamples of few vary too little, so the percentiles lie further out (the
    expanded percentile interval of Hesterberg 2015, doi 10.1080/00031305.2015.1089789): 0.9th and 99.1st for 10.
    """
    from scipy.special import ndtr, stdtrit

    defined = values[~np.isnan(values)]
    if len(defined) < LEAST_DEFINED * len(values):
        return None
    n = max(n, 2)
    tail = 0.025 if np.isinf(n) else float(ndtr(np.sqrt(n / (n - 1)) * stdtrit(n - 1, 0.025)))
    low, high = np.quantile(defined, [tail, 1 - tail])
    return float(low), float(high)


def reason_against(n_subjects: int, n_right: float | None = None, n_wrong: float | None = None) -> str | None:
    """Why so many subjects, right answers and wrong ones allow no interval; None if they do, or where neither counts."""
    if n_subjects < LEAST_SUBJECTS:
        return "one subject" if n_subjects == 1 else f"fewer than {LEAST_SUBJECTS} subjects"
    for n, outcome in ((n_right, "right"), (n_wrong, "wrong")):
        if n is not None and n < LEAST_OF_OUTCOME:
            return f"fewer than {LEAST_OF_OUTCOME} {outcome} answers"
    return None


def interval(
    values: Values, reason: str | None = None, n: float = np.inf
) -> tuple[float | None, float | None, str | None]:
    """The ends of `percentiles` and None; or None twice and the reason, which is `reason` if there is one."""
    if not reason:
        low, high = percentiles(values, n) or (None, None)
        if low is None or high is None:
            reason = "too few resamples have a value"
        elif high - low > ROUNDING:
            return low, high, None
        else:
            reason = "all resamples are equal"
    return None, None, reason
