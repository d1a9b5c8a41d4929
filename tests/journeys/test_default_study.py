"""The default study: the claims of README's picture, and every number in README, docs and captions, equal to those of its
warehouse, the code and dbt."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from longtail.storage.home import PROJECT_ROOT
from longtail.warehouse.publication import headline, render_headline
from tests.claims import CLAIMS
from tests.claims.form import Claim, text_of
from tests.claims.readme import DEFAULT_STUDY, signal_rows
from tests.claims.retrieval import table_of, tables_in_page
from tools.pages.paper_comparison import PLACE, chosen, ours_of, page, shown

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


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: f"{claim.place}: {claim.says[:40]}")
def test_the_numbers_equal_the_computed_ones(claim: Claim, marts: duckdb.DuckDBPyConnection) -> None:
    (stands,) = (found[0] for found in claim.pattern().finditer(text_of(claim.place)))
    assert stands == claim.rendered(marts), claim.place


def test_the_headline_in_the_docs_equals_the_terminals(finished_home: Path) -> None:
    printed = render_headline(headline(finished_home / "published/warehouse.duckdb"))
    indented = "\n".join(f"    {line}" for line in printed.splitlines())
    assert indented in (PROJECT_ROOT / "docs/default_study.md").read_text(encoding="utf-8"), (
        f"docs/default_study.md must show:\n{indented}"
    )


def test_the_table_of_signals_is_that_of_the_default_study(marts: duckdb.DuckDBPyConnection) -> None:
    rows = "\n".join(signal_rows(marts))
    assert rows in (PROJECT_ROOT / DEFAULT_STUDY).read_text(encoding="utf-8"), f"the page must show:\n{rows}"


def test_the_sandbox_s_cells_are_those_of_the_default_study(marts: duckdb.DuckDBPyConnection) -> None:
    found = {row[1:] for row in shown(page(chosen([ours_of(marts)])))}
    text = (PROJECT_ROOT / PLACE).read_text(encoding="utf-8")
    of_sandbox = {row[1:] for row in shown(text) if row[0].startswith("sandbox, ")}
    assert len(of_sandbox) > 50
    assert of_sandbox - found == set()


def test_the_sandbox_s_recalls_are_those_of_the_default_study(marts: duckdb.DuckDBPyConnection) -> None:
    rows = [row for row in tables_in_page()["sandbox"] if not row.startswith("| hybrid ")]
    assert rows == sorted(table_of(marts, "sandbox"), key=lambda row: row.split(" | ")[0])
