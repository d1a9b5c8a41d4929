"""The test of a table as dbt compiled it names every rule that does not hold, its number of rows, and one of them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
import yaml

from longtail.study.study import Study
from longtail.warehouse.build import DBT_PROJECT

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


def broken(build: duckdb.DuckDBPyConnection, study: Study, path: str) -> dict[str, tuple[int, str]]:
    """By each broken rule of a mart (its path below `dbt/models/marts`) how many rows break it, and one of them."""
    compiled = study.home.build / "dbt/target/compiled/longtail/models/marts" / f"{path}.yml"
    (file,) = compiled.glob("table_is_valid_fct_*.sql")
    rows = build.execute(file.read_text()).fetchall()
    assert len({rule for rule, _, _ in rows}) == len(rows)
    return {rule: (n_rows, example) for rule, n_rows, example in rows}


def test_what_lies_under_or_over_its_range_or_is_no_number_is_named(
    build: duckdb.DuckDBPyConnection, awkward: Study
) -> None:
    assert broken(build, awkward, "accuracy/fct_accuracy") == {}
    build.execute(
        "update marts.fct_accuracy set n = 0, n_subjects = -1, accuracy_exact_match = 1.5, accuracy_normalized = -0.25, "
        f"mean_token_f1 = 'nan' where {WHERE}"
    )
    build.execute(
        f"update marts.fct_accuracy set accuracy_exact_match = 1.5 where not ({WHERE}) and method = 'genread'"
    )
    (n_genread,) = build.execute(
        "select count(*) from marts.fct_accuracy where method = 'genread'"
    ).fetchone()
    found = broken(build, awkward, "accuracy/fct_accuracy")
    assert {rule: n_rows for rule, (n_rows, _) in found.items()} == {
        "n >= 1": 1,
        "n_subjects >= 0": 1,
        "n_correct + n_declined <= n": 1,
        "accuracy_exact_match in [0, 1]": 1 + n_genread,
        "accuracy_normalized in [0, 1]": 1,
        "mean_token_f1 in [0, 1.000001]": 1,
    }
    assert found["mean_token_f1 in [0, 1.000001]"][1] == (
        "{'dataset': popqa, 'prompt': zero_shot, 'model': small, 'method': bm25, 'relation': all, 'mean_token_f1': nan}"
    )


def test_nulls_and_what_lies_on_a_bound_are_in_range(
    build: duckdb.DuckDBPyConnection, awkward: Study
) -> None:
    path = "accuracy/fct_accuracy_by_relative_popularity"
    held = "bool_or(accuracy is null), bool_or(accuracy = 0), bool_or(accuracy = 1), bool_or(n = 0)"
    query = f"select {held} from marts.fct_accuracy_by_relative_popularity"
    assert build.execute(query).fetchone() == (True, True, True, True)
    assert broken(build, awkward, path) == {}


def test_a_key_that_its_dimension_lacks_is_named_and_null_is_none(
    build: duckdb.DuckDBPyConnection, awkward: Study
) -> None:
    path = "adaptive/fct_adaptive_accuracy"
    assert broken(build, awkward, path) == {}
    build.execute("create table broken as from marts.fct_adaptive_accuracy")  # it has no constraints
    build.execute("drop table marts.fct_adaptive_accuracy")
    build.execute("create table marts.fct_adaptive_accuracy as from broken")
    build.execute("update marts.fct_adaptive_accuracy set dataset = null, retrieval_method = 'bm25 '")
    build.execute("update marts.fct_adaptive_accuracy set model = 'nobody' where model = 'small'")
    (n, n_small) = build.execute(
        "select count(*), count_if(model = 'nobody') from marts.fct_adaptive_accuracy"
    ).fetchone()
    found = broken(build, awkward, path)
    assert {rule: seen for rule, seen in found.items() if not rule.startswith("unique")} == {
        "model in dim_models": (n_small, "{'model': nobody}"),
        "retrieval_method in dim_methods.method": (n, "{'retrieval_method': 'bm25 '}"),
    }
    assert 0 < n_small < n


def test_columns_that_fall_are_named_with_their_values(
    build: duckdb.DuckDBPyConnection, awkward: Study
) -> None:
    build.execute(
        f"update marts.fct_accuracy set ci_low = 0.5, accuracy = 0.75, accuracy_case_sensitive = 0, ci_high = 0.25 "
        f"where {WHERE}"
    )
    build.execute(f"update marts.fct_accuracy set ci_high = accuracy - 1e-14 where not ({WHERE})")  # rounding
    found = broken(build, awkward, "accuracy/fct_accuracy")
    assert found.keys() == {"accuracy <= ci_high", "accuracy <= accuracy_attempted", "ci_low < ci_high"}
    n_rows, example = found["accuracy <= ci_high"]
    assert n_rows == 1
    assert "'model': small" in example
    assert example.endswith("'accuracy': 0.75, 'ci_high': 0.25}")


def test_intervals_without_width_and_p_values_of_zero_are_named_without_being_asked_for(
    build: duckdb.DuckDBPyConnection, awkward: Study
) -> None:
    path = "comparisons/fct_method_comparisons"
    assert broken(build, awkward, path) == {}
    build.execute(
        "update marts.fct_method_comparisons set p_value = 0, p_mcnemar = 0, p_holm = 1e-300, ci_high = ci_low + 1e-14"
    )
    (n, n_intervals) = build.execute(
        "select count(*), count(ci_low) from marts.fct_method_comparisons"
    ).fetchone()
    assert {rule: n_rows for rule, (n_rows, _) in broken(build, awkward, path).items()} == {
        "p_value > 0": n, "p_mcnemar > 0": n, "ci_low < ci_high": n_intervals
    }  # fmt: skip
    assert 0 < n_intervals <= n


def test_an_expression_that_does_not_hold_is_given_with_the_row(
    build: duckdb.DuckDBPyConnection, awkward: Study
) -> None:
    build.execute(
        f"update marts.fct_accuracy set n = n_questions + 1, accuracy = 0.5, accuracy_case_sensitive = 0.75, "
        f"ci_low = 0.5, ci_high = 0.75 where {WHERE}"
    )
    row = "{'dataset': popqa, 'prompt': zero_shot, 'model': small, 'method': bm25, 'relation': all}"
    assert broken(build, awkward, "accuracy/fct_accuracy") == {
        "n <= n_questions": (1, row),
        "accuracy_case_sensitive <= accuracy": (1, row),
    }


def test_a_key_held_twice_is_given_with_its_number_of_rows(
    build: duckdb.DuckDBPyConnection, awkward: Study
) -> None:
    build.execute(f"insert into marts.fct_accuracy from marts.fct_accuracy where {WHERE}")
    assert broken(build, awkward, "accuracy/fct_accuracy") == {
        "unique (dataset, prompt, model, method, relation)": (
            2, "{'dataset': popqa, 'prompt': zero_shot, 'model': small, 'method': bm25, 'relation': all}"
        )
    }  # fmt: skip


def test_every_published_or_staged_table_has_one_test_with_its_name_and_a_key() -> None:
    named, keys = set(), {}
    for file in DBT_PROJECT.glob("models/**/*.yml"):
        described = yaml.load(file.read_text(encoding="utf-8"), yaml.CSafeLoader)
        for model in described.get("models", ()):
            tests = [test["table_is_valid"] for test in model.get("data_tests", ())]
            named |= {
                test["name"].removesuffix("_key") == f"table_is_valid_{model['name']}" for test in tests
            }
            keys[model["name"]] = [test["arguments"]["key"] for test in tests if "key" in test["arguments"]]
    assert named == {True}
    without = {name for name, found in keys.items() if len(found) != 1 and not name.startswith("int_")}
    assert without == {
        "stg_study__popularity_windows", "stg_audit__quarantine", "stg_retrieval__excluded_pages"
    }  # fmt: skip
