"""dbt's declaration of the lake and the lake's own columns do not drift apart."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
import yaml

from dagster_project.core.home import PROJECT_ROOT
from dagster_project.core.lake import Lake
from dagster_project.core.tables import TABLES
from dagster_project.core.warehouse.sources import SOURCES_FILE, duckdb_type, sources_yaml


def test_the_file_is_what_tables_say() -> None:
    assert SOURCES_FILE.read_text(encoding="utf-8") == sources_yaml(), (
        "run `python -m dagster_project.core.warehouse.sources`"
    )


def test_every_table_maps_to_its_asset_and_lists_its_columns() -> None:
    (source,) = yaml.safe_load(SOURCES_FILE.read_text(encoding="utf-8"))["sources"]
    declared = {table["name"]: table for table in source["tables"]}
    assert source["name"] == "lake"
    assert set(declared) == set(TABLES)
    for name, table in declared.items():
        assert table["config"]["meta"]["dagster"]["asset_key"] == ["lake", name]
        assert [column["name"] for column in table["columns"]] == TABLES[name].schema.names


@pytest.mark.parametrize("name", sorted(TABLES))
def test_declared_types_are_those_that_duckdb_reads(name: str, tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.ensure_schemas()
    read = duckdb.sql(f"describe from read_parquet('{tmp_path}/{name}/*.parquet')").fetchall()
    declared = [(column.name, duckdb_type(column.type)) for column in TABLES[name].columns]
    assert [(row[0], row[1].lower()) for row in read] == declared


def test_nothing_is_declared_that_no_build_looks_at() -> None:
    # dbt build does not ask for freshness; a test of it does (dbt/tests/assert_page_views_reach_the_window.sql).
    assert "freshness" not in sources_yaml()
    assert (PROJECT_ROOT / "dbt" / "tests" / "assert_page_views_reach_the_window.sql").exists()
