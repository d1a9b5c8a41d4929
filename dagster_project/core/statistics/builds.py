"""Shared by bootstraps: reading models of the first pass, a separate seed per key, and resamples of questions.

What belongs here: only these three. What does not: any statistic.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dagster_project.core.errors import LakeError
from dagster_project.core.study.study import Study


def read_build(study: Study, queries: Sequence[str]) -> tuple[pa.Table, ...]:
    """The results of `queries` on the study's build. Errors: `LakeError` if it is missing, in use or unfinished."""
    build = study.home.build_warehouse
    try:
        with duckdb.connect(str(build), read_only=True) as connection:
            return tuple(connection.execute(query).to_arrow_table() for query in queries)
    except duckdb.Error as error:
        reason = str(error).splitlines()[0]
        raise LakeError(
            f"{build} cannot be read ({reason}); build the warehouse's first pass first"
        ) from error


def seed_of(seed: int, key: Iterable[str]) -> int:
    """The seed of one key of a study: the same whatever other keys the study has."""
    return int(hashlib.sha256("|".join([str(seed), *key]).encode()).hexdigest()[:16], 16)


def draws(n: int, size: int, rng: np.random.Generator) -> npt.NDArray[Any]:
    """`size` resamples of `n` questions, size × n: how often each question is drawn."""
    drawn = rng.integers(0, n, (size, n)) + n * np.arange(size)[:, None]
    return np.bincount(drawn.ravel(), minlength=size * n).reshape(size, n).astype(np.uint8)
