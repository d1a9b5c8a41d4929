"""The default study's headline from the published warehouse: the claims of README's picture."""

from __future__ import annotations

import duckdb
import pytest

pytestmark = [pytest.mark.journey, pytest.mark.xdist_group("default_study")]

MODELS = ["reference_s", "reference_m", "reference_l"]


def by_model(marts: duckdb.DuckDBPyConnection, query: str) -> list[float]:
    """The query's value (columns model, value) for S, M and L."""
    values = dict(marts.sql(query).fetchall())
    return [values[model] for model in MODELS]


def test_every_question_is_answered(marts: duckdb.DuckDBPyConnection) -> None:
    rows = marts.sql("select method, model, count(*) from fct_answers group by all").fetchall()
    assert {(method, n) for method, _, n in rows if method != "oracle"} == {
        ("closed_book", 2240), ("bm25", 2240), ("dense", 2240)
    }  # fmt: skip
    assert len(rows) == 16


def test_larger_models_remember_more(marts: duckdb.DuckDBPyConnection) -> None:
    accuracy = by_model(
        marts, "select model, accuracy from fct_accuracy where relation = 'all' and method = 'closed_book'"
    )
    assert accuracy == sorted(accuracy)
    assert accuracy[0] + 0.1 < accuracy[1] < accuracy[2] - 0.1


def test_memory_follows_popularity(marts: duckdb.DuckDBPyConnection) -> None:
    query = (
        "select model, pearson_binned from fct_popularity_correlation "
        "where relation = 'all' and method = 'closed_book'"
    )
    assert min(by_model(marts, query)) > 0.8


def test_the_right_passage_rescues_the_tail(marts: duckdb.DuckDBPyConnection) -> None:
    query = """
        with ranked as (
            select *, ntile(3) over (partition by model, method order by subject_popularity, question_id) as third
            from fct_answers where subject_popularity is not null and method in ('closed_book', 'oracle')
        )
        select model, avg(is_correct::int) filter (method = 'oracle')
            - avg(is_correct::int) filter (method = 'closed_book')
        from ranked where third = 1 group by model
    """
    assert by_model(marts, query)[2] > 0.4


def test_retrieval_hurts_at_the_top(marts: duckdb.DuckDBPyConnection) -> None:
    query = """
        select model, avg(is_correct::int) filter (method = 'closed_book')
            - avg(is_correct::int) filter (method = 'bm25')
        from fct_answers where subject_popularity >= 100000 group by model
    """
    assert min(by_model(marts, query)) > 0.1


def test_adaptive_retrieval_beats_always_and_never(marts: duckdb.DuckDBPyConnection) -> None:
    pair = "search = 'exact' and threshold_scope = 'per_relation' and retrieval_method = 'bm25'"
    gains = by_model(marts, f"select model, gain from fct_adaptive_accuracy where {pair}")
    lows = by_model(marts, f"select model, gain_ci_low from fct_adaptive_accuracy where {pair}")
    assert min(gains[1:]) > 0.02
    assert min(lows) > 0


def test_no_row_was_put_aside(marts: duckdb.DuckDBPyConnection) -> None:
    assert marts.sql("select coalesce(sum(n), 0) from fct_quarantine").fetchone() == (0,)


def test_every_published_column_is_explained(marts: duckdb.DuckDBPyConnection) -> None:
    bare = marts.sql(
        "select table_name, column_name from duckdb_columns() where schema_name = 'marts' and comment is null"
    ).fetchall()
    assert bare == []
