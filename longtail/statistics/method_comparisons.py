"""Is one side really better? Paired comparisons of methods and of models, on the questions that both answered.

Questions on one subject depend on each other, so whole subjects change sign in the test and are drawn in the bootstrap.
All that a subject adds is its number of questions and by how many of them one side is better. So subjects are counted by
these two numbers, and a draw of subjects is a draw of these counts from a multinomial distribution. It has the same
distribution as drawing subject by subject, and takes a thousandth of the time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from longtail.statistics.resampling import (
    LEAST_P,
    Values,
    interval,
    n_deciding,
    reason_against,
    seed_of,
    sign_flip_p,
)

N_RESAMPLES = 10_000
_KEY = ("dataset", "prompt", "comparison", "model_a", "method_a", "model_b", "method_b")
_COUNTS = ("n", "n_subjects", "n_a_only", "n_b_only")
SCHEMA = pa.schema([
    *((name, pa.string()) for name in _KEY),
    *((name, pa.int64()) for name in _COUNTS),
    *((name, pa.float64()) for name in ("p_value", "p_mcnemar")),
    ("n_resamples", pa.int32()),
    *((name, pa.float64()) for name in ("difference_low", "difference_high")),
    ("no_interval", pa.string()),
])  # fmt: skip
QUERY = (
    f"select {', '.join((*_KEY, *_COUNTS))}, subjects "  # noqa: S608
    "from int_method_comparisons where n > 0 order by all"
)


def compare_methods(pairs: pa.Table, seed: int) -> pa.Table:
    """The rows of int_method_tests. `pairs`: the counts of each pair, as `QUERY` reads them."""
    return pa.Table.from_pylist(list(_compare(pairs.to_pylist(), seed)), schema=SCHEMA)


def _compare(rows: list[dict[str, Any]], seed: int) -> Iterator[dict[str, Any]]:
    for row in rows:
        seed_of_pair = seed_of(seed, (row[name] for name in _KEY))
        kinds = kinds_of_subjects(row["subjects"])
        low, high, reason = difference_interval(kinds, seed_of_pair)
        by_difference = np.unique(kinds[:, 0], return_inverse=True)
        n_subjects = np.bincount(by_difference[1], kinds[:, 2]).astype(int)
        (p_value,) = sign_flip_p(by_difference[0][:, None].astype(float), seed_of_pair, n_subjects)
        yield {
            **{name: row[name] for name in (*_KEY, *_COUNTS)}, "p_value": float(p_value),
            "p_mcnemar": mcnemar_exact(row["n_a_only"], row["n_b_only"]), "n_resamples": N_RESAMPLES,
            "difference_low": low, "difference_high": high, "no_interval": reason,
        }  # fmt: skip


def mcnemar_exact(a_only: int, b_only: int) -> float:
    """Two-sided p of McNemar's exact test: how likely `a_only` + `b_only` fair coins split at least as unevenly.

    It is twice the lower tail of the binomial distribution, at most 1, and 1 without discordant questions. The sum
    starts at the greatest term and is a multiple of it, so that neither thousands of questions nor tiny p lose digits.
    It takes questions as independent, and is at least `LEAST_P`.
    """
    n, fewer = a_only + b_only, min(a_only, b_only)
    log_term = math.lgamma(n + 1) - math.lgamma(fewer + 1) - math.lgamma(n - fewer + 1) - n * math.log(2)
    below = np.arange(fewer, 0, -1, dtype=float)
    ratios = np.cumprod(below / (n - below + 1))
    return min(1.0, max(LEAST_P, 2 * math.exp(log_term) * (1 + math.fsum(ratios.tolist()))))


def kinds_of_subjects(rows: Sequence[Mapping[str, int]]) -> Values:
    """Kinds × 3: by how many of a subject's questions the first side is better, how many they are, how many subjects."""
    return np.array([[row[name] for name in ("difference", "n_questions", "n_subjects")] for row in rows])


def difference_interval(
    kinds: Values, seed: int, n_resamples: int = N_RESAMPLES
) -> tuple[float | None, float | None, str | None]:
    """2.5th and 97.5th percentile of accuracy_a minus accuracy_b over resamples of subjects, or why there are none."""
    difference, n, n_subjects = kinds.T
    k = n_subjects.sum()
    drawn = np.random.default_rng(seed).multinomial(k, n_subjects / k, size=n_resamples)
    deviations = difference - n * (n_subjects @ difference) / (n_subjects @ n)
    decide = n_deciding(np.repeat(deviations, n_subjects))
    return interval(drawn @ difference / (drawn @ n), reason_against(int(k)), float(decide))
