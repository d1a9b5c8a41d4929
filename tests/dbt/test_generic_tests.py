"""The generic tests as dbt compiled them find what is wrong in a mart, and name it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dagster_project.core.study.study import Study

WHERE = (
    "model = 'small' and method = 'bm25' and prompt = 'zero_shot' and dataset = 'popqa' and relation = 'all'"
)
"""One row of `fct_accuracy`."""


@pytest.fixture
def build(awkward: Study, tmp_path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A copy of the build, whose name is part of the compiled SQL, to break."""
    copy = shutil.copyfile(awkward.home.build_warehouse, tmp_path / awkward.home.build_warehouse.name)
    with duckdb.connect(str(copy)) as connection:
        yield connection


def found(build: duckdb.DuckDBPyConnection, study: Study, test: str, path: str) -> list[dict[str, Any]]:
    """The rows of the one test of that kind, which `path` of a model below `dbt/models/marts` declares."""
    compiled = study.home.build / "dbt/target/compiled/longtail/models/marts" / f"{path}.yml"
    (file,) = compiled.glob(f"{test}_fct_*.sql")
    return build.execute(file.read_text()).df().to_dict("records")


def test_what_lies_under_or_over_its_range_or_is_no_number_is_named(
    build: duckdb.DuckDBPyConnection, awkward: Study
) -> None:
    assert found(build, awkward, "in_ranges", "accuracy/fct_accuracy") == []
    build.execute(
        f"update marts.fct_accuracy set n = 0, accuracy = 1.5, accuracy_normalized = -0.25, mean_token_f1 = 'nan' "
        f"where {WHERE}"
    )
    build.execute(f"update marts.fct_accuracy set accuracy = 1.5 where not ({WHERE}) and method = 'genread'")
    (n_genread,) = build.execute(
        "select count(*) from marts.fct_accuracy where method = 'genread'"
    ).fetchone()
    rows = found(build, awkward, "in_ranges", "accuracy/fct_accuracy")
    assert {(row["column_name"], row["value"], row["n_rows"]) for row in rows} == {
        ("n", "0", 1),
        ("accuracy", "1.5", 1 + n_genread),
        ("accuracy_normalized", "-0.25", 1),
        ("mean_token_f1", "nan", 1),
    }
    assert len(rows) == 4


def test_nulls_and_what_lies_on_a_bound_are_in_range(
    build: duckdb.DuckDBPyConnection, awkward: Study
) -> None:
    path = "accuracy/fct_accuracy_by_relative_popularity"
    held = "bool_or(accuracy is null), bool_or(accuracy = 0), bool_or(accuracy = 1), bool_or(n = 0)"
    query = f"select {held} from marts.fct_accuracy_by_relative_popularity"
    assert build.execute(query).fetchone() == (True, True, True, True)
    assert found(build, awkward, "in_ranges", path) == []


def test_a_key_that_its_dimension_lacks_is_named_and_null_is_none(
    build: duckdb.DuckDBPyConnection, awkward: Study
) -> None:
    path = "adaptive/fct_adaptive_accuracy"
    assert found(build, awkward, "foreign_keys", path) == []
    build.execute("create table broken as from marts.fct_adaptive_accuracy")  # it has no constraints
    build.execute("drop table marts.fct_adaptive_accuracy")
    build.execute("create table marts.fct_adaptive_accuracy as from broken")
    build.execute("update marts.fct_adaptive_accuracy set dataset = null, retrieval_method = 'bm25 '")
    build.execute("update marts.fct_adaptive_accuracy set model = 'nobody' where model = 'small'")
    (n, n_small) = build.execute(
        "select count(*), count_if(model = 'nobody') from marts.fct_adaptive_accuracy"
    ).fetchone()
    rows = found(build, awkward, "foreign_keys", path)
    assert sorted(tuple(row.values()) for row in rows) == [
        ("model", "nobody", n_small), ("retrieval_method", "bm25 ", n)
    ]  # fmt: skip
    assert 0 < n_small < n


def test_columns_that_fall_are_named_with_their_values(
    build: duckdb.DuckDBPyConnection, awkward: Study
) -> None:
    path = "accuracy/fct_accuracy"
    assert found(build, awkward, "ordered", path) == []
    build.execute(
        f"update marts.fct_accuracy set ci_low = 0.5, accuracy = 0.75, ci_high = 0.25 where {WHERE}"
    )
    build.execute(f"update marts.fct_accuracy set ci_high = accuracy - 1e-14 where not ({WHERE})")  # rounding
    assert found(build, awkward, "ordered", path) == [
        {"low_column": "accuracy", "low": "0.75", "high_column": "ci_high", "high": "0.25", "n_rows": 1}
    ]


def test_an_expression_that_does_not_hold_is_given_with_the_row(
    build: duckdb.DuckDBPyConnection, awkward: Study
) -> None:
    path = "accuracy/fct_accuracy"
    assert found(build, awkward, "expressions_hold", path) == []
    build.execute(
        f"update marts.fct_accuracy set n = n_questions + 1, accuracy_case_sensitive = accuracy + 0.5 where {WHERE}"
    )
    rows = found(build, awkward, "expressions_hold", path)
    assert sorted(row["violated"] for row in rows) == [
        "accuracy_case_sensitive <= accuracy",
        "n <= n_questions",
    ]
    assert {(row["model"], row["method"], row["relation"]) for row in rows} == {("small", "bm25", "all")}


def test_a_key_held_twice_is_given_with_its_number_of_rows(
    build: duckdb.DuckDBPyConnection, awkward: Study
) -> None:
    path = "accuracy/fct_accuracy"
    assert found(build, awkward, "unique_key", path) == []
    build.execute(f"insert into marts.fct_accuracy from marts.fct_accuracy where {WHERE}")
    (row,) = found(build, awkward, "unique_key", path)
    assert (row["model"], row["relation"], row["n_rows"]) == ("small", "all", 2)
