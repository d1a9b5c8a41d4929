"""A statistic: lake tables that Python computes from models of the warehouse's first pass."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from longtail.errors import LakeError
from longtail.storage.fingerprints import code_version, fingerprint
from longtail.storage.lake import WHOLE, Computed, Lake, Outcome
from longtail.study.study import Study
from longtail.tables import TABLES

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

    Tables that are partitioned by model have a partition for each model of the study, made from its rows of what is read
    and from all rows of queries without models. A partition whose rows, seed and code have not changed is left as it is.
    Errors: `LakeError` if the build is missing, in use, or without a model that is read.
    """
    by_model = bool(TABLES[statistic.tables[0]].partitioned_by)
    code = code_version(statistic.compute.__module__)
    with _open_build(study) as build:  # whose rows nobody changes meanwhile
        hashes = [_hashes(build, query, by_model) for query in statistic.queries]
        stamps = {
            partition: fingerprint(
                *(one[None] if None in one else one.get(partition) for one in hashes), study.seed, code
            )
            for partition in ([model.name for model in study.models] if by_model else [WHOLE])
        }
        stale = [
            one for one in stamps if not all(lake.current(t, stamps[one], one) for t in statistic.tables)
        ]
        read = [build.execute(query).to_arrow_table() for query in statistic.queries if stale]
    for table in statistic.tables:
        for gone in set(lake.partitions(table)) - stamps.keys():
            lake.discard(table, gone)
    if by_model:
        read = [t.filter(pc.field("model").isin(stale)) if "model" in t.column_names else t for t in read]
    computed = statistic.compute(read, study.seed, log) if stale else {}

    def rows_of(table: str, partition: str) -> Callable[[], Computed]:
        def rows() -> Computed:
            if partition not in stale:
                raise LakeError(f"{lake.path(table, partition)} was changed meanwhile; run again")
            return Computed([row for row in computed[table] if not by_model or row["model"] == partition])

        return rows

    return [
        lake.materialise(table, stamp, rows_of(table, partition), partition)
        for table in statistic.tables
        for partition, stamp in stamps.items()
    ]


def _hashes(
    build: duckdb.DuckDBPyConnection, query: str, by_model: bool
) -> dict[str | None, tuple[int, str | None]]:
    """How many rows the query finds, and the sum of their hashes: by model, or under None where it has no models.

    DuckDB's hash does not tell [1], [2, 3] from [1, 2], [3]: lists of a row must have equal lengths.
    """
    names = [name for name, *_ in build.execute(f"{query} limit 0").description or ()]
    part, grouped = ("model", "group by model") if by_model and "model" in names else ("null", "")
    found = build.execute(
        f"select {part}, count(*), sum(hash(found))::varchar from ({query}) as found {grouped}"  # noqa: S608
    ).fetchall()
    return {part: (n, hashed) for part, n, hashed in found}


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
