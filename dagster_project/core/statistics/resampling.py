"""Shared by bootstraps: a separate seed per key, resamples of questions, ratios of sums, percentiles, and threads."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from dagster_project.core.progress import Progress
from dagster_project.core.threads import thread_count

Values = npt.NDArray[Any]
Part = TypeVar("Part")
Found = TypeVar("Found")


def in_parallel(
    compute: Callable[[Part], Found], parts: Sequence[Part], log: logging.Logger, what: str
) -> Iterator[Found]:
    """What `compute` finds for each part, in their order, several parts at a time; `what` names them in the progress.

    Each part runs on one thread: a product of matrices would be too small for more, and rounds alike on any machine.
    """
    from threadpoolctl import threadpool_limits

    with (
        Progress(log, what, len(parts)) as progress,
        threadpool_limits(1),
        ThreadPoolExecutor(thread_count()) as pool,
    ):
        for found in pool.map(compute, parts):
            progress.add(1)
            yield found


def seed_of(seed: int, key: Iterable[str]) -> int:
    """The seed of one key of a study: the same whatever other keys the study has."""
    return int(hashlib.sha256("|".join([str(seed), *key]).encode()).hexdigest()[:16], 16)


LEAST_DEFINED = 0.95
"""Below this share of resamples with a value there is no interval: the others would be no fair selection."""
_IN_CACHE = 20_000
"""Draws that are counted at once: few enough for the processor's cache."""
_LEAST_SUBJECTS = 5
"""With fewer, their variance says too little."""


def draws(n: int, size: int, rng: np.random.Generator) -> Values:
    """`size` resamples of `n` questions, size × n: how often each question is drawn."""
    found = np.empty((size, n), dtype=np.uint8)
    for rows in np.split(found, range(0, size, max(1, _IN_CACHE // n))[1:]):
        drawn = rng.integers(0, n, rows.shape) + n * np.arange(len(rows))[:, None]
        rows[:] = np.bincount(drawn.ravel(), minlength=rows.size).reshape(rows.shape)
    return found


def resampled_ratios(numerators: Values, denominators: Values, seed: int, n_resamples: int) -> Values:
    """The ratio of sums in each resample of questions, resamples × measures; nan where the sum below the line is 0.

    `numerators` and `denominators`: questions × measures.
    """
    weights = draws(len(numerators), n_resamples, np.random.default_rng(seed)).astype(float)
    above, below = weights @ numerators, weights @ denominators
    return np.divide(above, below, out=np.full_like(above, np.nan), where=below > 0)


def design_effect(correct: Values, subject: Values) -> float:
    """By how much the dependence of answers on one subject multiplies the variance of their rate (SPEC §12), at least 1.

    `correct` (n): 0 or 1; `subject` (n): what each answer is about. Under 5 subjects, or with one outcome, the answers of
    a subject count as if they were all alike.
    """
    _, number = np.unique(subject, return_inverse=True)
    right, asked = np.bincount(number, correct), np.bincount(number)
    n, rate, k = len(correct), correct.mean(), len(asked)
    if k < _LEAST_SUBJECTS or rate in (0, 1):
        return float((asked**2).sum() / n)
    variance = k / (k - 1) * ((right - rate * asked) ** 2).sum() / n**2
    return float(max(1.0, variance / (rate * (1 - rate) / n)))


def percentiles(values: Values) -> tuple[float, float] | None:
    """2.5th and 97.5th percentile of the resamples, nan left out; None where too few have a value."""
    defined = values[~np.isnan(values)]
    if len(defined) < LEAST_DEFINED * len(values):
        return None
    low, high = np.quantile(defined, [0.025, 0.975])
    return float(low), float(high)
