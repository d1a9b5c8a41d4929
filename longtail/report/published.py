"""Reads a published warehouse for the report: rows of figures, the order of the study, the origin of the numbers.

The report reads only the published file, never the lake or the build.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

import duckdb

from longtail.report.figure import ROLES, Column, Dimensions, Figure, columns_of
from longtail.warehouse.publication import publication_of

_POPULARITY = {  # of a subject, and as a threshold
    "page_views": ("monthly page views of the subject", "threshold: monthly views"),
    "sitelinks": ("site links of the subject", "threshold: site links"),
    "imported": ("popularity, as the imported file gives it", "threshold of popularity"),
}
_NO_MEASURE = ("popularity of the subject", "threshold of popularity")
_WITHOUT_POPULARITY = """select models || ' on ' || string_agg(dataset, ' and ' order by dataset)
from (
    select dataset, string_agg(distinct model, ' and ' order by model) as models
    from marts.fct_accuracy inner join marts.dim_datasets using (dataset)
    where n_questions_with_popularity = 0
    group by dataset
)
group by models
order by models"""
_WITHOUT_SIZE = "select model from marts.dim_models where n_parameters is null order by model"
_WHOLE_NUMBERS = ("BOOLEAN", "TINYINT", "INTEGER", "BIGINT")
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f]")


@dataclass(frozen=True)
class FigureRows:
    """A figure with its rows: `columns` of its table, and `names` of all columns of the query, in its order.

    `missing` is the reason why there are none.
    """

    figure: Figure
    columns: tuple[Column, ...]
    names: tuple[str, ...]
    rows: tuple[dict[str, Any], ...]
    missing: str | None = None


def read_figure(connection: duckdb.DuckDBPyConnection, figure: Figure, tables: frozenset[str]) -> FigureRows:
    """The rows of one figure. If a table is absent, its mart is empty, or the query no longer fits, `missing` says so."""
    absent = [name for name in figure.tables if name not in tables]
    if absent:
        return FigureRows(
            figure, (), (), (), f"Not shown: this warehouse has no table {' nor '.join(absent)}."
        )
    if not connection.execute(f"from marts.{figure.mart} limit 1").fetchone():
        return FigureRows(figure, (), (), (), f"Not shown: table {figure.mart} of this study has no rows.")
    try:
        names, types, rows = select(connection, figure.sql)
    except (duckdb.BinderException, duckdb.CatalogException) as error:
        reason = str(error).splitlines()[0].split(": ", 1)[-1]
        return FigureRows(figure, (), (), (), f"Not shown: its query does not fit this warehouse ({reason}).")
    why = None if rows else "Not shown: no row of this study meets the conditions of its query."
    return FigureRows(figure, columns_of(names, types, figure.labels, figure.hidden), names, rows, why)


def in_order(read: FigureRows, dimensions: Dimensions) -> FigureRows:
    """The rows in the order of the study (models by size), as far as a dimension is in the leading columns."""
    leading = list(takewhile(lambda name: name in ROLES, read.names))
    places = [{value: at for at, value in enumerate(dimensions.order[ROLES[name]])} for name in leading]
    key = lambda row: [at.get(row[name], len(at)) for name, at in zip(leading, places, strict=True)]  # noqa: E731
    return replace(read, rows=tuple(sorted(read.rows, key=key)))


def select(
    connection: duckdb.DuckDBPyConnection, sql: str, bound: Mapping[str, Any] | None = None
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[dict[str, Any], ...]]:
    """Names and types of columns, and rows of a query, ready for JSON. Undefined and infinite values become
    text or None.
    """
    types, columns = select_columns(connection, sql, bound)
    rows = zip(*columns.values(), strict=True)
    return tuple(columns), types, tuple(dict(zip(columns, row, strict=True)) for row in rows)


def select_columns(
    connection: duckdb.DuckDBPyConnection, sql: str, bound: Mapping[str, Any] | None = None
) -> tuple[tuple[str, ...], dict[str, list[Any]]]:
    """Types and values of the columns of a query, ready for JSON as those of `select`."""
    cursor = connection.execute(sql, bound)
    names, types = (tuple(str(column[at]) for column in cursor.description or ()) for at in (0, 1))
    values = list(zip(*cursor.fetchall(), strict=True)) or [()] * len(names)
    columns = zip(names, types, values, strict=True)
    return types, {name: _column(kind, column) for name, kind, column in columns}


def _column(kind: str, values: Sequence[Any]) -> list[Any]:
    """The values as `_plain` gives them; a loop over all of them only where their type asks for it."""
    if kind in _WHOLE_NUMBERS or (kind == "DOUBLE" and math.isfinite(sum(filter(None, values)))):
        return list(values)
    if kind == "VARCHAR":
        plain = {value: _plain(value) for value in set(values)}
        return [plain[value] for value in values]
    return [_plain(value) for value in values]


def list_tables(connection: duckdb.DuckDBPyConnection) -> frozenset[str]:
    """Names of the tables and views of schema `marts`."""
    rows = connection.execute(
        "select table_name from information_schema.tables where table_schema = 'marts'"
    ).fetchall()
    return frozenset(name for (name,) in rows)


def read_dimensions(connection: duckdb.DuckDBPyConnection) -> Dimensions:
    """Datasets, prompts, grounding prompts and methods in the order of the study, models by size, and its word for
    popularity.
    """

    def column(sql: str) -> Sequence[str]:
        return [legible(value) for (value,) in connection.execute(sql).fetchall()]

    def say_left_out(reason: str, sql: str) -> str:
        names = column(sql)
        return f"Left out, because {reason}: {', '.join(names)}. " if names else ""

    named = "select dataset, popularity_name from marts.dim_datasets where popularity_name is not null"
    views = "select distinct popularity_measure from marts.dim_questions where popularity_measure is not null"
    measures = column(views)
    popularity, threshold = _POPULARITY.get(measures[0], _NO_MEASURE) if len(measures) == 1 else _NO_MEASURE
    return Dimensions(
        order={
            "dataset": column("select dataset from marts.dim_datasets order by position_in_study"),
            "prompt": column("select prompt from marts.dim_prompts order by position_in_study"),
            "model": column("select model from marts.dim_models order by n_parameters nulls last, model"),
            "grounding_prompt": column(
                "select grounding_prompt from marts.dim_grounding_prompts order by position_in_study"
            ),
            "method": column("select method from marts.dim_methods order by not is_parametric, method"),
            "relation": ["all", *column("select relation from marts.dim_relations order by relation")],
        },
        labels={
            "popularity": popularity,
            "threshold": threshold,
            "without_popularity": say_left_out("their subjects have no popularity", _WITHOUT_POPULARITY),
            "without_size": say_left_out("their size is not known", _WITHOUT_SIZE),
        },
        named={legible(dataset): legible(name) for dataset, name in connection.execute(named).fetchall()},
    )


def legible(text: str) -> str:
    """A label that is safe in charts: control characters become visible, and reserved names of JavaScript change.

    Vega groups by keys of plain objects, and `__proto__` cannot be such a key.
    """
    return "__proto__\u200b" if text == "__proto__" else _CONTROLS.sub("\ufffd", text)


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return legible(value)
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, float):
        return None if math.isnan(value) else value if math.isfinite(value) else ("∞" if value > 0 else "−∞")
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return legible(str(value))


_MOST = 12
_WORLDS = """select dataset, case when source = 'sandbox' then 'synthetic world' end
from marts.dim_datasets
order by dataset"""
_MODELS = """select model,
    case
        when path like 'sandbox:%' then 'reference models'
        when path like 'fake:%' or engine like 'fake%' then 'scripted answers, no model'
    end
from marts.dim_models
order by n_parameters nulls last, model"""
_ALL_MODELS = (
    "These numbers show that the platform finds effects whose truth is known. "
    "They say nothing about real models."
)
_SOME_MODELS = "Their numbers say nothing about real models."
_WORLD_ONLY = (
    "Names and facts are invented: these numbers say nothing about what a model knows of the real world."
)


def study(connection: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """Name and description of the study, and when it was published."""
    stamp = publication_of(connection)
    published = f"{stamp.published_at.astimezone(datetime.UTC):%Y-%m-%d %H:%M} UTC"
    return {"name": stamp.study, "description": stamp.description, "published": published}


def banner(connection: duckdb.DuckDBPyConnection) -> dict[str, str] | None:
    """The warning that questions or answers are invented; None if both are real.

    If only some are invented, the warning names them and says nothing about the others.
    """
    worlds = _kinds(connection, _WORLDS)
    models = _kinds(connection, _MODELS)
    invented = [
        f"{kind}: {', '.join(names)}" if None in kinds else kind
        for kinds in (worlds, models)
        for kind, names in kinds.items()
        if kind
    ]
    if not invented:
        return None
    title = ", ".join(invented)
    meaning = _WORLD_ONLY if not any(models) else _SOME_MODELS if None in models else _ALL_MODELS
    return {"title": f"{title[0].upper()}{title[1:]}.", "text": meaning}


def list_fictional_models(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """The models whose answers are scripted or trained on an invented world."""
    return [name for kind, names in _kinds(connection, _MODELS).items() if kind for name in names]


def _kinds(connection: duckdb.DuckDBPyConnection, sql: str) -> dict[str | None, list[str]]:
    """Names by kind; kind None means real."""
    names_by_kind: dict[str | None, list[str]] = {}
    for name, kind in connection.execute(sql).fetchall():
        names_by_kind.setdefault(kind, []).append(name)
    return names_by_kind


_ORIGINS = {
    "datasets": """select format('{}: {}, {:,} questions, {:,} with popularity', dataset,
    concat_ws(', snapshot ', source, snapshot), n_questions, n_questions_with_popularity)
from marts.dim_datasets order by dataset""",
    "models": """select model || ': ' || concat_ws(', ', concat_ws(' @ ', path, left(revision, 12)), dtype,
    nullif(quantisation, 'none'), engine, format('{:,}', n_parameters) || ' parameters')
from marts.dim_models order by n_parameters nulls last, model""",
    "methods": "select method || ': ' || description from marts.dim_methods order by method",
    "prompts": """select prompt || ': ' || replace(template, chr(10), '⏎') || ', ' || shots || ' shots'
from marts.dim_prompts order by prompt""",
    "months of popularity": """select
    measure || ': ' || coalesce(min(month) || ' to ' || max(month) || ' in the history', 'undated')
from marts.fct_popularity_history group by measure
union all
select 'popularity of a question: mean of at most ' || max(n_popularity_months) || ' months'
from marts.dim_questions having max(n_popularity_months) is not null
order by 1""",
    "seeds": "select distinct seed::varchar from marts.fct_answers order by 1",
    "code of the answers": "select distinct code_version from marts.fct_answers order by 1",
    "runs of the answers": "select distinct run_id from marts.fct_answers order by 1",
}


def provenance(connection: duckdb.DuckDBPyConnection, now: datetime.datetime) -> dict[str, Any]:
    """Name and value, or values, of everything that determines the numbers, in the order of the page."""
    stamp = publication_of(connection)
    return {
        "study": stamp.study,
        "description": stamp.description,
        "published": f"{stamp.published_at.astimezone(datetime.UTC):%Y-%m-%d %H:%M:%S} UTC",
        "dbt invocation": stamp.invocation_id,
        "dbt": stamp.dbt_version,
        "DuckDB": stamp.duckdb_version,
        "code version": stamp.code_version,
        "report written": f"{now:%Y-%m-%d %H:%M:%S} UTC",
        **{name: _lines(connection, sql) for name, sql in _ORIGINS.items()},
        "rows by table": [f"{table}: {n:,}" for table, n in sorted(stamp.n_rows.items())],
    }


def _lines(connection: duckdb.DuckDBPyConnection, sql: str) -> list[str]:
    lines = [str(value) for (value,) in connection.execute(sql).fetchall() if value is not None]
    more = [f"and {len(lines) - _MOST} more"] if len(lines) > _MOST else []
    return [*lines[:_MOST], *more] or ["none"]
