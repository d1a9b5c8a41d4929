"""The interval of a share over whole subjects (SPEC §12), as the marts have it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Z = 1.959963984540054
"""The normal quantile of a two-sided 95 % interval."""
_STUDENT = (
    12.706204736174694, 4.302652729749462, 3.1824463052837078, 2.7764451051977934, 2.5705818356363146, 2.4469118511449786,
    2.364624251592784, 2.306004135204166, 2.262157162798205, 2.228138851986274, 2.200985160091639, 2.1788128296672284,
    2.1603686564627913, 2.144786687917804, 2.131449545559776, 2.1199052992212546, 2.1098155778333156, 2.1009220402410382,
    2.0930240544083087, 2.085963447265864,
)  # fmt: skip
"""Student's quantiles of 1 to 20 degrees of freedom. Machines that only generate answers have no scipy."""
_EXPANSION = (
    (Z**3 + Z) / 4,
    (5 * Z**5 + 16 * Z**3 + 3 * Z) / 96,
    (3 * Z**7 + 19 * Z**5 + 17 * Z**3 - 15 * Z) / 384,
    (79 * Z**9 + 776 * Z**7 + 1482 * Z**5 - 1920 * Z**3 - 945 * Z) / 92160,
)
_LEAST_SUBJECTS = 5
"""With fewer, their variance says too little."""


def wilson(n_right: float, n: float, quantile: float = Z) -> tuple[float, float]:
    """Wilson's 95 % interval of `n_right` of `n`, each bound within [0, 1] (SPEC §6). `n` is above 0."""
    squared = quantile * quantile
    centre = n_right + squared / 2
    spread = quantile * math.sqrt(n_right * (n - n_right) / n + squared / 4)
    low, high = ((centre + side * spread) / (n + squared) for side in (-1, 1))
    return max(0.0, low), min(1.0, high)


def student_quantile(degrees: int) -> float:
    """The 97.5 % quantile of Student's t, off by at most 2e-7, as in the marts (Abramowitz and Stegun, 26.7.5)."""
    if degrees <= len(_STUDENT):
        return _STUDENT[degrees - 1]
    return Z + sum(term / degrees**power for power, term in enumerate(_EXPANSION, start=1))


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
    n_subjects = len(np.unique(subject))
    if n_subjects < 2:
        return None
    n = len(correct) / design_effect(correct, subject)
    return wilson(float(np.mean(correct)) * n, n, student_quantile(n_subjects - 1))
