"""The catalogue lists every published table, and what it says of each is so."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import duckdb
import pytest

from dagster_project.core.home import PROJECT_ROOT
from dagster_project.core.tables import TABLES
from dagster_project.core.warehouse.publish import publish_warehouse
from dagster_project.sql import connect
from tests.warehouses import AWKWARD, copied_study


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> duckdb.DuckDBPyConnection:
    study = copied_study(AWKWARD, monkeypatch, tmp_path / "study")
    return connect(publish_warehouse(study, logging.getLogger()).path)


def test_every_table_and_view_is_listed_with_all_that_is_asked_of_it(
    published: duckdb.DuckDBPyConnection,
) -> None:
    listed = published.execute(
        "select table_name, kind, n_columns, n_rows, lake_tables, grain, source, example_query from catalogue"
    ).fetchall()
    held = published.execute(
        "select table_name, if(table_type = 'VIEW', 'view', 'table'), count(*) "
        "from information_schema.tables join information_schema.columns using (table_schema, table_name) "
        "where table_schema = 'marts' group by all"
    ).fetchall()
    models = {file.stem for file in (PROJECT_ROOT / "dbt" / "models" / "marts").rglob("*.yml")}
    assert sorted(row[:3] for row in listed) == sorted(held)
    assert {row[0] for row in listed} == {*models, "publication"}
    for name, kind, _, n_rows, lake_tables, *texts in listed:
        assert all(text and text.strip() for text in texts), name
        assert set(lake_tables) <= set(TABLES), name
        if kind == "view":
            assert n_rows is None, name
        else:
            assert (n_rows,) == published.execute(f'select count(*) from "{name}"').fetchone(), name


def test_the_grain_is_a_key_of_its_table(published: duckdb.DuckDBPyConnection) -> None:
    for name, grain in published.execute("select table_name, grain from catalogue").fetchall():
        if name == "publication":
            continue
        columns = [column.strip() for column in grain.split(",")]
        assert all(re.fullmatch(r"[a-z_0-9]+", column) for column in columns), (name, grain)
        doubled = published.execute(
            f'select 1 from "{name}" group by {", ".join(columns)} having count(*) > 1 limit 1'
        ).fetchall()
        assert doubled == [], (name, grain)


def test_every_example_runs_on_the_locked_down_published_file(published: duckdb.DuckDBPyConnection) -> None:
    for name, query in published.execute("select table_name, example_query from catalogue").fetchall():
        assert name in query, name
        published.execute(query).fetchall()
        assert len(published.execute(query).description) > 0


def test_every_column_says_what_it_is(published: duckdb.DuckDBPyConnection) -> None:
    silent = published.execute(
        "select table_name, column_name from duckdb_columns() where schema_name = 'marts' "
        "and length(trim(coalesce(comment, ''))) < 3"
    ).fetchall()
    assert silent == []


def test_lineage_reaches_the_lake_through_what_stands_between(published: duckdb.DuckDBPyConnection) -> None:
    lineage = dict(published.execute("select table_name, lake_tables from catalogue").fetchall())
    assert lineage["dim_methods"] == ["methods"]
    assert {"answers", "questions", "page_views", "retrieved_passages"} <= set(
        lineage["fct_accuracy_by_popularity"]
    )
    assert "adaptive_gains" in lineage["fct_adaptive_accuracy"]
    assert "adaptive_gains" not in lineage["fct_accuracy"]
