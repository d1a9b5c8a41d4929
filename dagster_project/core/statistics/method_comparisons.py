"""Is one side really better? Paired comparisons of methods and of models, on the questions that both answered.

A question is right on both sides, on one of them, or on neither. The difference of accuracies depends only on these
numbers. So a draw of n questions with replacement can be a draw of these numbers from a multinomial distribution. It
has the same distribution as drawing question by question, and takes a thousandth of the time.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from dagster_project.core.progress import Progress
from dagster_project.core.statistics.resampling import seed_of
from dagster_project.core.statistics.statistic import Statistic

N_RESAMPLES = 10_000
_KEY = ("dataset", "prompt", "comparison", "model_a", "method_a", "model_b", "method_b")
_COUNTS = ("n", "n_a_only", "n_b_only")
_QUERY = (
    f"select {', '.join((*_KEY, *_COUNTS))} from intermediate.int_method_comparisons where n > 0 order by all"  # noqa: S608
)


def compare_methods(
    tables: Sequence[pa.Table], seed: int, log: logging.Logger
) -> dict[str, list[dict[str, Any]]]:
    """The rows of lake table method_comparisons. `tables`: the counts of each pair."""
    return {"method_comparisons": list(_compared(tables[0].to_pylist(), seed, log))}


def _compared(rows: list[dict[str, Any]], seed: int, log: logging.Logger) -> Iterator[dict[str, Any]]:
    progress = Progress(log, "bootstrap: pairs of methods or models compared", len(rows))
    for row in rows:
        counts = {name: row[name] for name in _COUNTS}
        n, a_only, b_only = counts.values()
        drawn_from = seed_of(seed, (row[name] for name in _KEY))
        low, high = bootstrap_difference(n, a_only, b_only, drawn_from)
        yield {
            **{name: row[name] for name in _KEY}, **counts, "p_value": mcnemar_exact(a_only, b_only),
            "n_resamples": N_RESAMPLES, "difference_low": low, "difference_high": high,
        }  # fmt: skip
        progress.add(1)
    progress.done()


def mcnemar_exact(a_only: int, b_only: int) -> float:
    """Two-sided p of McNemar's exact test: how likely `a_only` + `b_only` fair coins split at least as unevenly.

    It is twice the lower tail of the binomial distribution, at most 1, and 1 without discordant questions. The sum
    starts at the greatest term and is a multiple of it, so that neither thousands of questions nor tiny p lose digits.
    """
    n, fewer = a_only + b_only, min(a_only, b_only)
    log_term = math.lgamma(n + 1) - math.lgamma(fewer + 1) - math.lgamma(n - fewer + 1) - n * math.log(2)
    below = np.arange(fewer, 0, -1, dtype=float)
    ratios = np.cumprod(below / (n - below + 1))
    return min(1.0, 2 * math.exp(log_term) * (1 + math.fsum(ratios.tolist())))


def bootstrap_difference(
    n: int, a_only: int, b_only: int, seed: int, n_resamples: int = N_RESAMPLES
) -> tuple[float, float]:
    """2.5th and 97.5th percentile of accuracy_a minus accuracy_b over resamples of `n` questions."""
    shares = np.array([a_only, b_only, n - a_only - b_only]) / n
    drawn = np.random.default_rng(seed).multinomial(n, shares, size=n_resamples)
    low, high = np.quantile((drawn[:, 0] - drawn[:, 1]) / n, [0.025, 0.975])
    return float(low), float(high)


METHOD_COMPARISONS = Statistic(
    "method_comparisons",
    tables=("method_comparisons",),
    models=("int_method_comparisons",),
    queries=(_QUERY,),
    compute=compare_methods,
)
