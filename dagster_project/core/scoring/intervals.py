"""The interval of a share, for numbers that are told before the warehouse is built."""

from __future__ import annotations

import math

Z = 1.959963984540054
"""The normal quantile of a two-sided 95 % interval."""


def wilson(n_right: int, n: int) -> tuple[float, float]:
    """Wilson's 95 % interval of `n_right` of `n`, each bound within [0, 1] (SPEC §6). `n` is above 0."""
    centre = n_right + Z * Z / 2
    spread = Z * math.sqrt(n_right * (n - n_right) / n + Z * Z / 4)
    low, high = ((centre + side * spread) / (n + Z * Z) for side in (-1, 1))
    return max(0.0, low), min(1.0, high)
