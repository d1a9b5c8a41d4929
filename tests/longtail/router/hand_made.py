"""Published marts of a few questions, written by hand, and routers made from them.

Model `m` knows the capitals and the popular composers. Retriever `bm25` helps for the others; `dense` nearly always.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb

from longtail.router import Router, load_router
from longtail.router.decisions import FORMAT, VERSION, seal
from longtail.router.publish import Marts, documents, read_marts

BM25, DENSE = "d.p.m.closed_book.bm25", "d.p.m.closed_book.dense"
QUESTIONS: Sequence[tuple[str, str | None, float | None, bool, bool, bool]] = (
    # id, relation, popularity; right without retrieval, with bm25, with dense
    ("q1", "composer", 1.0, False, True, True),
    ("q2", "composer", 2.0, False, True, True),
    ("q3", "composer", 4.0, True, False, True),
    ("q4", "composer", 8.0, True, True, True),
    ("q5", "capital", 3.0, True, False, False),
    ("q6", "capital", 6.0, True, False, True),
    ("q7", None, 1.5, False, True, True),
    ("q8", "composer", None, False, False, True),
)
THRESHOLDS = (
    ("bm25", "all", "below", 3.0),
    ("bm25", "composer", "below", 4.0),
    ("bm25", "capital", "never", 3.0),
    ("dense", "all", "always", float("inf")),
    ("dense", "composer", "always", float("inf")),
    ("dense", "capital", "never", 3.0),
    ("oracle", "all", "below", 4.0),
)
GAINS = (
    # retriever, scope, held-out accuracy, gain, its interval, why there is none
    ("bm25", "per_relation", 0.9, 0.10, 0.01, 0.20, None),
    ("bm25", "all", 0.85, 0.05, 0.0, 0.10, None),
    ("dense", "per_relation", 0.8, 0.0, None, None, "fewer than 20 subjects decide it"),
    ("dense", "all", 0.8, -0.01, -0.1, 0.08, None),
    ("oracle", "per_relation", 1.0, 0.5, 0.4, 0.6, None),
    ("oracle", "all", 1.0, 0.5, 0.4, 0.6, None),
)
ENTITIES = (
    ("Q1", "Paris", ["City of Light", "Lutetia"], "capital of France", 9.5),
    ("Q2", "Paris", [], "son of Priam", 2.0),
    ("Q3", "Paris Hilton", ["Paris"], None, None),
    ("Q4", "Straße", ["STRASSE  one"], None, 0.0),
)

SIGNALS = (
    # signal, scope, held-out accuracy, tokens; its gains are 5, 3 and 2 points, each a point more or less
    ("popularity_relation", "all", 0.93, 0.0),
    ("all", "all", 0.95, 900.0),
    ("consistency", "per_relation", 0.94, 900.0),
)
RULES = (
    # signal, relation, predictor_names, means, deviations, coefficients, threshold
    (
        "all",
        "all",
        ["popularity", "consistency", "certainty"],
        [0.0, 0.5, 0.5],
        [1.0, 0.25, 1.0],
        [0.0, 0.0, 1.0, 0.0],
        0.5,
    ),
    (
        "all",
        "composer",
        ["popularity", "consistency", "certainty"],
        [0.0, 0.5, 0.5],
        [1.0, 0.25, 1.0],
        [0.5, -1.0, 1.0, 2.0],
        0.5,
    ),
    (
        "all",
        "capital",
        ["popularity", "consistency", "certainty"],
        [0.0, 0.5, 0.5],
        [1.0, 0.25, 1.0],
        [0.0, 0.0, 0.0, 0.0],
        float("inf"),
    ),
)


PROMISES = (
    # coverage step, promised risk, threshold, answered questions, wrong ones
    (3, 0.5, None, 60, 20),
    (2, 0.125, 0.5, 40, 1),
    (1, 0.125, 0.75, 20, 0),
)


def write_marts(path: Path, invocation_id: str = "run-1", predicts: bool = False) -> None:
    """The marts that routers read, in a new file. `predicts`: predicted signals are surely better for bm25."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with duckdb.connect(str(path)) as connection:
        connection.execute("create schema marts; use marts")
        _dimensions(connection, invocation_id)
        key = "'d' as dataset, 'p' as prompt, 'm' as model, 'closed_book' as parametric_method"
        _table(
            connection,
            "given_thresholds",
            "retrieval_method, relation, decision, threshold_popularity",
            THRESHOLDS,
        )
        connection.execute(
            f"create table fct_adaptive_thresholds as select {key}, *, 'exact' as search from given_thresholds "
            f"union all select {key}, * replace ('never' as decision), 'binned10' from given_thresholds"
        )
        interval = "gain_ci_low, gain_ci_high, gain_ci_undefined"
        columns = f"retrieval_method, threshold_scope, accuracy_adaptive, gain, {interval}"
        _table(connection, "given_gains", columns, GAINS)
        connection.execute(
            f"create table fct_adaptive_accuracy as select {key}, *, 7 as n_questions, 1 as n_missing_popularity, "
            "100 as n_splits, 0.8::double as accuracy_always, 0.7::double as accuracy_never, "
            "0.8::double as accuracy_fixed, 0.4::double as share_retrieved, "
            "unnest(['exact', 'binned10']) as search from given_gains"
        )
        _table(
            connection,
            "given_questions",
            "question_id, relation, subject_popularity, closed_book, bm25, dense",
            QUESTIONS,
        )
        connection.execute(
            "create table fct_answers as select 'd' as dataset, 'p' as prompt, 'm' as model, * "
            "from (unpivot given_questions on closed_book, bm25, dense into name method value is_correct)"
        )
        _signals(connection, key, predicts)
        _promises(connection)
        _table(connection, "dim_entities", "entity_id, label, aliases, description, popularity", ENTITIES)


def _signals(connection: duckdb.DuckDBPyConnection, key: str, predicts: bool) -> None:
    gains = {"gain": 0.05, "gain_over_popularity_all": 0.03, "gain_over_popularity_per_relation": 0.02}
    intervals = ", ".join(
        f"{gain}::double as {name}, {gain - 0.01}::double as {name}_ci_low, {gain + 0.01}::double as {name}_ci_high"
        for name, gain in gains.items()
    )
    _table(connection, "given_signals", "signal, threshold_scope, accuracy, signal_tokens_per_1000", SIGNALS)
    connection.execute(
        f"create table fct_adaptive_signals as select {key}, 'bm25' as retrieval_method, *, {intervals}, "
        "7 as n_compared, 100 as n_splits, 0.8::double as accuracy_always, 0.7::double as accuracy_never, "
        "0.8::double as accuracy_fixed, 0.4::double as share_retrieved, 4.0::double as signal_device_seconds_per_1000, "
        "null::double as signal_cost_usd_per_1000, 90.0::double as signal_latency_ms, "
        f"{predicts} as is_surely_better from given_signals"
    )
    columns = "signal, relation, predictor_names, predictor_means, predictor_deviations, rule_coefficients"
    _table(connection, "given_rules", f"{columns}, threshold_probability", RULES)
    connection.execute(
        f"create table fct_adaptive_signal_rules as select {key}, 'bm25' as retrieval_method, *, "
        "'all' as threshold_scope, 'asked' as signal_prompt, 7 as n_questions, 3 as n_below, 3 as n_below_with, "
        "1 as n_below_without, 4 as n_above, 1 as n_above_with, 4 as n_above_without from given_rules"
    )


def _promises(connection: duckdb.DuckDBPyConnection) -> None:
    """As `PROMISES`, for bm25; and thresholds on popularity, which are the same for all methods with a passage."""
    columns = "coverage_step, promised_risk, threshold, n_answered, n_wrong"
    _table(connection, "given_promises", columns, PROMISES)
    connection.execute(
        "create table fct_risk_coverage as select 'd' as dataset, 'p' as prompt, 'm' as model, 'closed_book' as method, "
        "'bm25' as fallback_method, 'confidence' as signal, * from given_promises union all select 'd', 'p', 'm', "
        "'closed_book', null, 'popularity', coverage_step, promised_risk, 4.0, n_answered, n_wrong from given_promises "
        "where coverage_step = 1 union all select 'd', 'p', 'm', 'closed_book', null, 'confidence', coverage_step, 0.01, "
        "0.0, n_answered, n_wrong from given_promises"
    )


def _dimensions(connection: duckdb.DuckDBPyConnection, invocation_id: str) -> None:
    methods = [
        ("closed_book", True, False),
        ("bm25", False, False),
        ("dense", False, False),
        ("oracle", False, True),
    ]
    _table(connection, "dim_methods", "method, is_parametric, is_bound", methods)
    model = [("m", "family", "abc", "float32", "none", "transformers")]
    _table(connection, "dim_models", "model, family, revision, dtype, quantisation, engine", model)
    connection.execute(
        "create table dim_datasets as select 'd' as dataset, 'sandbox' as source, '2026-10' as snapshot, "
        "'page_views' as measure, 12 as n_months, '2025-11' as first_month, '2026-10' as last_month, "
        "'resolve' as redirects"
    )
    connection.execute(
        "create table publication as "
        "select 's' as study, '' as description, timestamp '2026-11-01 12:00:00' as published_at, "
        f"'{invocation_id}' as dbt_invocation_id, '' as dbt_version, '' as duckdb_version, 'c' as code_version, "
        "map {'publication': 1} as n_rows"
    )


def _table(
    connection: duckdb.DuckDBPyConnection, name: str, columns: str, rows: Sequence[tuple[Any, ...]]
) -> None:
    marks = ", ".join(["(" + ", ".join("?" * len(rows[0])) + ")"] * len(rows))
    values = [value for row in rows for value in row]
    connection.execute(f"create table {name} as select * from (values {marks}) as rows ({columns})", values)


def marts_of(folder: Path, predicts: bool = False) -> Marts:
    """The rows of the hand-made marts."""
    write_marts(folder / "published.duckdb", predicts=predicts)
    with duckdb.connect(str(folder / "published.duckdb")) as connection:
        return read_marts(connection)


def routers_of(marts: Marts, folder: Path) -> dict[str, Router]:
    """The routers of some marts, written and read again."""
    folder.mkdir(exist_ok=True)
    for name, fields in documents(marts, {"study": "s"}):
        (folder / f"{name}.json").write_bytes(seal(FORMAT, VERSION, fields, indent=1))
    return {path.stem: load_router(path) for path in sorted(folder.glob("*.json"))}
