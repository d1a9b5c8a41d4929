"""Shared by bootstraps: a separate seed per key, and resamples of questions.

What belongs here: only these two. What does not: any statistic.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt


def seed_of(seed: int, key: Iterable[str]) -> int:
    """The seed of one key of a study: the same whatever other keys the study has."""
    return int(hashlib.sha256("|".join([str(seed), *key]).encode()).hexdigest()[:16], 16)


def draws(n: int, size: int, rng: np.random.Generator) -> npt.NDArray[Any]:
    """`size` resamples of `n` questions, size × n: how often each question is drawn."""
    drawn = rng.integers(0, n, (size, n)) + n * np.arange(size)[:, None]
    return np.bincount(drawn.ravel(), minlength=size * n).reshape(size, n).astype(np.uint8)
