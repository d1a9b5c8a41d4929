"""How a statistic becomes a dbt model: what it reads of other models, and which rows of its last build it keeps.

A statistic computes each of its parts (a group of answers, a pair of methods) by itself. Its table names in column
`made_from` what each row was computed from, so a new model of a study costs its own parts alone.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from longtail.storage.fingerprints import code_version
from longtail.storage.lake_files import content_hash
from longtail.threads import map_in_order, thread_count

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

MADE_FROM = "made_from"
Row = Mapping[str, Any]
Part = TypeVar("Part")
Result = TypeVar("Result")


def read(session: DuckDBPyConnection, queries: Iterable[str], **models: DuckDBPyRelation) -> list[pa.Table]:
    """The results of queries that call dbt's models by their names."""
    for name, relation in models.items():
        session.execute(f"create or replace temp view {name} as {relation.sql_query()}")
    return [session.execute(query).to_arrow_table() for query in queries]


def read_groups(session: DuckDBPyConnection, query: str, columns: Sequence[str]) -> Iterator[pa.Table]:
    """The rows of a query for each value of `columns`, one group after another in their order, each when it is asked for.

    A study of many models has more rows than fit in memory. The query may name the models that `read` was called with.
    """
    listed, condition = ", ".join(columns), " and ".join(f"{name} = ?" for name in columns)
    groups = session.execute(f"select distinct {listed} from ({query}) order by all").fetchall()  # noqa: S608
    for group in groups:
        yield session.execute(f"from ({query}) where {condition}", group).to_arrow_table()


def study_seed() -> int:
    """The seed of the study that dbt builds."""
    return int(os.environ.get("LONGTAIL_SEED", "0"))


def last_build(session: DuckDBPyConnection, this: object) -> pa.Table | None:
    """The table that a dbt model (`dbt.this`) had after its last build; None before the first."""
    name = str(this).replace('"', "")
    (known,) = session.execute(
        "select count(*) from duckdb_columns() where column_name = ? "
        "and database_name || '.' || schema_name || '.' || table_name = ?",
        [MADE_FROM, name],
    ).fetchall()[0]
    return session.execute(f"from {this}").to_arrow_table() if known else None


def in_parallel(compute: Callable[[Part], Result], parts: Iterable[Part]) -> Iterator[Result]:
    """What `compute` returns for each part, in their order, several parts at a time; the next parts are made meanwhile.

    Each part runs on one thread: a product of matrices would be too small for more, and rounds alike on any machine.
    """
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        yield from map_in_order(compute, parts, thread_count())


def compute_parts(
    compute: Callable[[Part], Iterable[Row]],
    parts: Iterable[tuple[str, Part]],
    schema: pa.Schema,
    last: pa.Table | None = None,
) -> pa.Table:
    """The rows of all parts, in their order: `schema`, and `MADE_FROM`.

    `parts`: each with a hash of what it is computed from (`digest`). Rows of `last` (the table of an earlier build) that
    were computed from the same, by the same code, are taken from there.
    """
    code = code_version(compute.__module__)
    schema = schema.append(pa.field(MADE_FROM, pa.string()))
    if last is None or {*last.column_names} != {*schema.names}:
        last = schema.empty_table()
    last = last.select(schema.names).cast(schema)
    known = {*pc.unique(last[MADE_FROM]).to_pylist()}
    names: list[str] = []

    def new() -> Iterator[tuple[str, Part]]:
        for hashed, part in parts:
            names.append(digest(code, schema.to_string(), hashed))
            if names[-1] not in known:
                yield names[-1], part

    def table(named_part: tuple[str, Part]) -> pa.Table:
        name, part = named_part
        return pa.Table.from_pylist([{**row, MADE_FROM: name} for row in compute(part)], schema=schema)

    computed = list(in_parallel(table, new()))
    named = pa.array(names, pa.string())
    together = pa.concat_tables([last.filter(pc.is_in(last[MADE_FROM], named)), *computed])
    order = np.argsort(pc.index_in(together[MADE_FROM], named).to_numpy(), kind="stable")
    return together.take(pa.array(order))


def digest(*values: object) -> str:
    """A hash of values: texts, numbers, arrays, Arrow tables, and lists and mappings of them."""
    hashed = hashlib.sha256()
    for value in values:
        hashed.update(_bytes(value))
    return hashed.hexdigest()[:32]


def _bytes(value: object) -> bytes:
    if isinstance(value, pa.Table):
        return content_hash(value).encode()
    if isinstance(value, np.ndarray) and value.dtype != object:
        return repr((value.dtype.str, value.shape)).encode() + np.ascontiguousarray(value).tobytes()
    if isinstance(value, Mapping):
        return digest(*((key, value[key]) for key in sorted(value))).encode()
    if isinstance(value, list | tuple):
        return digest(len(value), *value).encode()
    return repr(value.tolist() if isinstance(value, np.ndarray) else value).encode()
