"""How sure a model was of an answer, from the probabilities of the answer's tokens: SPEC §11.

Means and their exponential are computed by dbt.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Confidence:
    """At temperature 1, whatever the sampling; the end token and what is cut off left out.

    `confidence_tokens` is at least 1. Logarithms are natural. `first_margin` is the probability of the likeliest first
    token minus that of the second; `mean_entropy` is in nats, over the whole vocabulary. None: not known.
    """

    confidence_tokens: int
    sum_log_probability: float
    least_probability: float | None = None
    first_probability: float | None = None
    first_margin: float | None = None
    mean_entropy: float | None = None


def confidence_of(
    log_probabilities: Sequence[float], first_margin: float | None = None, mean_entropy: float | None = None
) -> Confidence | None:
    """The confidence of an answer of these tokens, to seven digits; None without tokens."""
    if not log_probabilities:
        return None
    logs = [min(0.0, one) for one in log_probabilities]
    return Confidence(
        len(logs),
        _rounded(math.fsum(logs)),
        _rounded(math.exp(min(logs))),
        _rounded(math.exp(logs[0])),
        None if first_margin is None else _rounded(first_margin),
        None if mean_entropy is None else _rounded(mean_entropy),
    )


def _rounded(number: float) -> float:
    return float(f"{number:.7g}")
