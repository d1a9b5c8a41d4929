"""What statistics read of dbt's models, and what they keep of an earlier build."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest
import yaml

from longtail.statistics import (
    adaptive_gains,
    adaptive_signals,
    correlation_intervals,
    factual_consistency,
    paired_comparisons,
    prediction,
    signal_policies,
    signal_quality,
)
from longtail.statistics.results import (
    MADE_FROM,
    compute_parts,
    digest,
    in_parallel,
    last_build,
    read,
    read_groups,
)
from longtail.storage.lake_files import content_hash
from longtail.warehouse.build import DBT_PROJECT
from longtail.warehouse.publication import literal
from tests.in_process_dbt import invoke_dbt
from tests.warehouses import AWKWARD, built_study, copied_study, mart

QUERIES = {
    "adaptive_gains": adaptive_gains.QUERIES,
    "adaptive_signals": [signal_policies.ROWS, *adaptive_signals.QUERIES],
    "correlation_intervals": [correlation_intervals.QUERY],
    "factual_consistency": [*factual_consistency.QUERIES, factual_consistency.TUNED_QUERY],
    "paired_comparisons": [paired_comparisons.METHODS_QUERY, paired_comparisons.PROMPTS_QUERY],
    "prediction": prediction.QUERIES,
    "signal_quality": [signal_quality.QUERY_WITH_COUNTS],
}
SCHEMA = pa.schema([("name", pa.string()), ("number", pa.int64())])


@pytest.mark.parametrize("statistic", QUERIES)
def test_shuffled_rows_change_nothing_that_a_statistic_reads(
    statistic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal bit by bit: a float sum in another order would differ in its last digit."""
    build = built_study(AWKWARD, monkeypatch).home.build_warehouse
    first, second = (_read(str(build), statistic, seed, n_threads) for seed, n_threads in ((1, 1), (2, 4)))
    assert [content_hash(table) for table in first] == [content_hash(table) for table in second]


def _read(build: str, statistic: str, seed: int, n_threads: int) -> list[pa.Table]:
    settings = {"threads": n_threads, "preserve_insertion_order": False}
    with duckdb.connect(config=settings) as connection:
        connection.execute(f"attach {literal(build)} as build (read_only)")
        names = connection.execute(
            "select table_name from duckdb_tables() where schema_name = 'intermediate'"
        ).fetchall()
        models = {
            name: connection.sql(f"from build.intermediate.{name} as one order by hash(one, {seed})")
            for (name,) in names
            if any(name in query for query in QUERIES[statistic])
        }
        return read(connection, QUERIES[statistic], **models)


def test_groups_are_the_rows_of_the_query_in_its_order() -> None:
    query = "select range % 3 as model, -range as number, 'x' as text from range(10) order by number"
    with duckdb.connect() as connection:
        groups = list(read_groups(connection, query, ["model", "text"]))
    assert [group["number"].to_pylist() for group in groups] == [[-9, -6, -3, 0], [-7, -4, -1], [-8, -5, -2]]


def test_dbt_adds_fractions_in_one_order() -> None:
    """Several threads of one query would add them in another order each time."""
    profile = yaml.safe_load((DBT_PROJECT / "profiles.yml").read_text(encoding="utf-8"))
    assert profile["longtail"]["outputs"]["build"]["config_options"]["threads"] == 1


def test_parts_keep_their_order_whichever_ends_first(monkeypatch: pytest.MonkeyPatch) -> None:
    first_waits = threading.Event()

    def compute(part: int) -> int:
        if part == 0:
            assert first_waits.wait(10)
        first_waits.set()
        return part * part

    monkeypatch.setenv("LONGTAIL_THREADS", "2")
    assert list(in_parallel(compute, range(5))) == [0, 1, 4, 9, 16]


def test_only_parts_that_were_made_from_something_else_are_computed_again() -> None:
    computed: list[str] = []

    def compute(name: str) -> Iterator[dict[str, object]]:
        computed.append(name)
        return ({"name": name, "number": number} for number in range(2))

    def parts(**hashes: str) -> list[tuple[str, str]]:
        return [(hashed, name) for name, hashed in hashes.items()]

    first = compute_parts(compute, parts(a="1", b="2"), SCHEMA)
    assert computed == ["a", "b"]
    second = compute_parts(compute, parts(c="3", a="1", b="changed"), SCHEMA, first)
    assert computed == ["a", "b", "c", "b"]
    assert second["name"].to_pylist() == ["c", "c", "a", "a", "b", "b"]
    assert second.equals(compute_parts(compute, parts(c="3", a="1", b="changed"), SCHEMA))
    other = pa.schema([("name", pa.string()), ("number", pa.float64())])
    assert compute_parts(compute, parts(a="1"), other, first).num_rows == 2
    assert computed[-1] == "a", "other columns are computed again"
    assert compute_parts(compute, [], SCHEMA, first).num_rows == 0


def test_a_digest_sees_every_value_and_no_order_of_keys() -> None:
    values = [1, "1", 1.0, None, [1], [[1]], {"a": 1}, {"a": [1]}, np.ones(2), np.ones(2, np.float32)]
    assert len({digest(value) for value in values}) == len(values)
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    assert digest(np.arange(10_000)) != digest(np.append(np.arange(9_999), 0))
    assert digest(np.array(["a", None], object)) != digest(np.array(["a", "None"], object))
    assert digest(pa.table({"a": [1, 2]})) != digest(pa.table({"a": [2, 1]}))


def test_the_first_build_has_no_last_one() -> None:
    with duckdb.connect() as connection:
        assert last_build(connection, '"memory"."main"."one"') is None
        connection.execute("create table one as select 1 as number")
        assert last_build(connection, '"memory"."main"."one"') is None, "of a version without hashes"
        connection.execute(f"create or replace table one as select 1 as number, 'x' as {MADE_FROM}")
        found = last_build(connection, '"memory"."main"."one"')
        assert found is not None
        assert found.to_pylist() == [{"number": 1, MADE_FROM: "x"}]


def test_a_changed_model_costs_its_own_parts_and_gives_the_rows_of_a_build_from_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    study = copied_study(AWKWARD, monkeypatch, tmp_path / "study")
    before = mart(study, "int_signal_quality", "intermediate")
    with duckdb.connect(str(study.home.build_warehouse)) as build:
        build.execute(
            "update intermediate.int_signal_values set is_correct = not is_correct where model = 'small'"
        )
        build.execute("delete from intermediate.int_signal_values where model = 'perfect'")
    invoke_dbt(study, "run", "--select", "int_signal_quality")
    after = mart(study, "int_signal_quality", "intermediate")
    assert {*after[MADE_FROM]} & {*before[MADE_FROM]} == {*before[before.model == "large"][MADE_FROM]} | {
        *before[before.model == "memory_only"][MADE_FROM]
    }
    with duckdb.connect(str(study.home.build_warehouse)) as build:
        build.execute("drop table intermediate.int_signal_quality")
    invoke_dbt(study, "run", "--select", "int_signal_quality")
    assert mart(study, "int_signal_quality", "intermediate").equals(after)
