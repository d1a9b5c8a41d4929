"""The origin of a report's numbers, and the warning about invented data."""

from __future__ import annotations

import datetime
from typing import Any

import duckdb

from longtail.warehouse.publication import publication_of

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
        f"{kind}: {', '.join(names)}" if None in found else kind
        for found in (worlds, models)
        for kind, names in found.items()
        if kind
    ]
    if not invented:
        return None
    title = ", ".join(invented)
    meaning = _WORLD_ONLY if not any(models) else _SOME_MODELS if None in models else _ALL_MODELS
    return {"title": f"{title[0].upper()}{title[1:]}.", "text": meaning}


def invented_models(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """The models whose answers are scripted or trained on an invented world."""
    return [name for kind, names in _kinds(connection, _MODELS).items() if kind for name in names]


def _kinds(connection: duckdb.DuckDBPyConnection, sql: str) -> dict[str | None, list[str]]:
    """Names by kind; kind None means real."""
    found: dict[str | None, list[str]] = {}
    for name, kind in connection.execute(sql).fetchall():
        found.setdefault(kind, []).append(name)
    return found


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
        "datasets": _lines(
            connection,
            "select dataset || ': ' || source || coalesce(', snapshot ' || snapshot, '') || ', ' || "
            "format('{:,}', n_questions) || ' questions, ' || format('{:,}', n_questions_with_popularity) || "
            "' with popularity' from marts.dim_datasets order by dataset",
        ),
        "models": _lines(
            connection,
            "select model || ': ' || path || coalesce(' @ ' || left(revision, 12), '') || coalesce(', ' || dtype, '') || "
            "coalesce(', ' || nullif(quantisation, 'none'), '') || coalesce(', ' || engine, '') || "
            "coalesce(', ' || format('{:,}', n_parameters) || ' parameters', '') "
            "from marts.dim_models order by n_parameters nulls last, model",
        ),
        "methods": _lines(
            connection, "select method || ': ' || description from marts.dim_methods order by method"
        ),
        "prompts": _lines(
            connection,
            "select prompt || ': ' || replace(template, chr(10), '⏎') || ', ' || shots || ' shots' "
            "from marts.dim_prompts order by prompt",
        ),
        "months of popularity": _months(connection),
        "seeds": _lines(
            connection,
            "select distinct seed::varchar from marts.fct_answers where seed is not null order by 1",
        ),
        "code of the answers": _lines(
            connection,
            "select distinct code_version from marts.fct_answers where code_version is not null order by 1",
        ),
        "runs of the answers": _lines(
            connection, "select distinct run_id from marts.fct_answers where run_id is not null order by 1"
        ),
        "rows by table": [f"{table}: {n:,}" for table, n in sorted(stamp.n_rows.items())],
    }


def _months(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """First and last month of the history, by measure, and the number of months in the questions' mean popularity."""
    return _lines(
        connection,
        "select measure || ': ' || coalesce(min(month) || ' to ' || max(month) || ' in the history', 'undated') "
        "from marts.fct_popularity_history group by measure order by measure",
    ) + _lines(
        connection,
        "select 'popularity of a question: mean of at most ' || max(n_popularity_months) || ' months' "
        "from marts.dim_questions having max(n_popularity_months) is not null",
    )


def _lines(connection: duckdb.DuckDBPyConnection, sql: str) -> list[str]:
    found = [str(value) for value in _column(connection, sql) if value is not None]
    more = [f"and {len(found) - _MOST} more"] if len(found) > _MOST else []
    return [*found[:_MOST], *more] or ["none"]


def _column(connection: duckdb.DuckDBPyConnection, sql: str) -> list[Any]:
    return [row[0] for row in connection.execute(sql).fetchall()]
