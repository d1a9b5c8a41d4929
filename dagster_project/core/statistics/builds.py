"""Shared by bootstraps: reading models of the first pass, and a separate seed per key.

What belongs here: only these two. What does not: any statistic.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import duckdb
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
