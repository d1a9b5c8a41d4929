"""A statistic reads the same rows in the same order, however the warehouse happens to hold them."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb
import pyarrow as pa
import pytest
import yaml
from longtail.statistics.registry import STATISTICS
from longtail.statistics.statistic import Statistic

from longtail.storage.lake_rows import content_hash
from longtail.warehouse.build import DBT_PROJECT
from longtail.warehouse.comments import literal
from tests.warehouses import AWKWARD, built_study


@pytest.mark.parametrize("statistic", STATISTICS, ids=lambda one: one.name)
def test_shuffled_rows_change_nothing_that_a_statistic_reads(
    statistic: Statistic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal bit by bit: a float sum in another order would differ in its last digit."""
    build = built_study(AWKWARD, monkeypatch).home.build_warehouse
    first, second = (_read(str(build), statistic, seed, n_threads) for seed, n_threads in ((1, 1), (2, 4)))
    assert [content_hash(table) for table in first] == [content_hash(table) for table in second]


def _read(build: str, statistic: Statistic, seed: int, n_threads: int) -> Sequence[pa.Table]:
    settings = {"threads": n_threads, "preserve_insertion_order": False}
    with duckdb.connect(config=settings) as connection:
        connection.execute(f"attach {literal(build)} as build (read_only)")
        connection.execute("create schema intermediate")
        for model in statistic.models:
            connection.execute(
                f"create table intermediate.{model} as from build.intermediate.{model} as one "
                f"order by hash(one, {seed})"
            )
        return [connection.execute(query).to_arrow_table() for query in statistic.queries]


def test_dbt_adds_fractions_in_one_order() -> None:
    """Several threads of one query would add them in another order each time."""
    profile = yaml.safe_load((DBT_PROJECT / "profiles.yml").read_text(encoding="utf-8"))
    assert profile["longtail"]["outputs"]["build"]["config_options"]["threads"] == 1
