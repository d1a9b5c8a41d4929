"""A statistic: lake tables that Python computes from models of the warehouse's first pass.

What belongs here: the record, and how its tables are computed again when something they depend on has changed. What
does not: the statistics themselves (one module each, listed in `registry`).
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa

from dagster_project.core.errors import LakeError
from dagster_project.core.storage.fingerprints import code_version, fingerprint
from dagster_project.core.storage.lake import Computed, Lake, Outcome
from dagster_project.core.storage.lake_rows import content_hash
from dagster_project.core.study.study import Study

Rows = list[dict[str, Any]]
Compute = Callable[[Sequence[pa.Table], int, logging.Logger], Mapping[str, Rows]]
"""From the results of the queries, the study's seed and a log: the rows of each table."""


@dataclass(frozen=True)
class Statistic:
    """Lake tables that are computed together. `models`: the dbt models that `queries` read."""

    name: str
    tables: tuple[str, ...]
    models: tuple[str, ...]
    queries: tuple[str, ...]
    compute: Compute


def materialise(statistic: Statistic, study: Study, lake: Lake, log: logging.Logger) -> list[Outcome]:
    """Compute the statistic's tables from the first pass of the build, which must be finished.

    A table whose inputs, seed and code have not changed is left as it is. The inputs are what the build has recorded
    for the models (`warehouse.reuse`), so that a build in which nothing changed is not read. Without a record of all
    models they are the content of what is read. Errors: `LakeError` if the build is missing, in use, or without a model
    that is read.
    """
    with _open_build(study) as build:
        inputs = _recorded(build, statistic.models) or [
            content_hash(table) for table in _read(build, statistic)
        ]
    hashed = fingerprint(*inputs, study.seed, code_version(statistic.compute.__module__))

    @functools.cache
    def computed() -> Mapping[str, Rows]:
        with _open_build(study) as build:
            read = _read(build, statistic)
        return statistic.compute(read, study.seed, log)

    def rows_of(table: str) -> Callable[[], Computed]:
        return lambda: Computed(computed()[table])

    return [lake.materialise(table, hashed, rows_of(table)) for table in statistic.tables]


@contextmanager
def _open_build(study: Study) -> Iterator[duckdb.DuckDBPyConnection]:
    build = study.home.build_warehouse
    try:
        with duckdb.connect(str(build), read_only=True) as connection:
            yield connection
    except duckdb.Error as error:
        reason = str(error).splitlines()[0]
        raise LakeError(
            f"{build} cannot be read ({reason}); build the warehouse's first pass first"
        ) from error


def _read(build: duckdb.DuckDBPyConnection, statistic: Statistic) -> tuple[pa.Table, ...]:
    return tuple(build.execute(query).to_arrow_table() for query in statistic.queries)


def _recorded(build: duckdb.DuckDBPyConnection, models: Sequence[str]) -> list[Any] | None:
    """What each of the models was made from at its last good build; None if that is not known of all of them."""
    query = "select unique_id, inputs from audit.inputs where split_part(unique_id, '.', 3) in ? order by all"
    try:
        found = build.execute(query, [tuple(models)]).fetchall()
    except duckdb.CatalogException:  # dbt was run by hand
        return None
    return found if len(found) == len(models) else None
