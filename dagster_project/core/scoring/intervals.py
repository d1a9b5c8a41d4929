"""The interval of a share over whole subjects (SPEC §12), as the marts have it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Z = 1.959963984540054
"""The normal quantile of a two-sided 95 % interval."""
_LEAST_SUBJECTS = 5
"""With fewer, their variance says too little."""


def wilson(n_right: float, n: float, quantile: float = Z) -> tuple[float, float]:
    """Wilson's 95 % interval of `n_right` of `n`, each bound within [0, 1] (SPEC §6). `n` is above 0."""
    squared = quantile * quantile
    centre = n_right + squared / 2
    spread = quantile * math.sqrt(n_right * (n - n_right) / n + squared / 4)
    low, high = ((centre + side * spread) / (n + squared) for side in (-1, 1))
    return max(0.0, low), min(1.0, high)


def design_effect(correct: Any, subject: Any) -> float:
    """By how much the dependence of answers on one subject multiplies the variance of their rate (SPEC §12), at least 1.

    `correct` (n): 0 or 1; `subject` (n): what each answer is about. Under 5 subjects, or with one outcome, the answers of
    a subject count as if they were all alike.
    """
    _, number = np.unique(subject, return_inverse=True)
    right, asked = np.bincount(number, correct), np.bincount(number)
    n, rate, k = len(correct), np.mean(correct), len(asked)
    if k < _LEAST_SUBJECTS or rate in (0, 1):
        return float((asked**2).sum() / n)
    variance = k / (k - 1) * ((right - rate * asked) ** 2).sum() / n**2
    return float(max(1.0, variance / (rate * (1 - rate) / n)))


def share_interval(correct: Any, subject: Any) -> tuple[float, float] | None:
    """Wilson's interval of the share of right answers, over whole subjects; None for a single subject.

    Arguments as of `design_effect`. Student's quantile is that of one degree of freedom less than there are subjects.
    """
    from scipy.special import stdtrit

    n_subjects = len(np.unique(subject))
    if n_subjects < 2:
        return None
    n = len(correct) / design_effect(correct, subject)
    return wilson(float(np.mean(correct)) * n, n, float(stdtrit(n_subjects - 1, 0.975)))
