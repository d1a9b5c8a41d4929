"""The list of tables by question, completion, and the digits of `longtail sql`."""

from __future__ import annotations

import io
from collections.abc import Iterator

import duckdb
import pytest

from dagster_project.core.storage.home import PROJECT_ROOT
from dagster_project.core.warehouse.layouts import write_box, write_csv
from dagster_project.sql_tables import QUESTIONS, Completion, listing

CATALOGUE = """
create schema marts; set search_path = 'marts';
create table catalogue as select * from (values
    ('fct_costs', 'cost', 1234, 'One row per (model, method; all = the mean): tokens and money.'),
    ('fct_accuracy', 'accuracy', 7, 'One row per model: the share of right answers.'),
    ('fct_prompts', 'prompts', null, 'The exact prompt.'),
    ('fct_new', 'new_topic', 1, 'One row.'),
    ('fct_empty', 'accuracy', 0, 'One row per model: nothing.'),
    ('fct_old', 'deprecated', 7, 'One row per model: renamed.')
) as t (table_name, topic, n_rows, description);
create table fct_accuracy as select 'm' as model, 0.5 as accuracy, 7 as n;
create table fct_costs as select 'm' as model, 3.0 as cost_usd;
"""


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as opened:
        opened.execute(CATALOGUE)
        yield opened


def test_tables_stand_below_the_question_that_they_answer(connection: duckdb.DuckDBPyConnection) -> None:
    assert list(listing(connection, None)) == [
        "How often is a model right?",
        "  fct_accuracy           7  the share of right answers.",
        "What do answers cost, in time and money?",
        "  fct_costs          1,234  tokens and money.",
        "What exactly was asked?",
        "  fct_prompts         view  The exact prompt.",
        "new_topic",
        "  fct_new                1  One row.",
        "Without rows in this study: fct_empty",
    ]
    assert list(listing(connection, 30))[1] == "  fct_accuracy           7  th"


def test_every_topic_has_a_question() -> None:
    topics = {folder.name for folder in (PROJECT_ROOT / "dbt/models/marts").iterdir() if folder.is_dir()}
    assert topics == set(QUESTIONS)


@pytest.mark.parametrize(
    ("word", "typed", "found"),
    [
        ("fct_", "select * from fct_", ["fct_accuracy", "fct_costs"]),
        ("fct_a", "\\d fct_a", ["fct_accuracy"]),
        ("mo", "\\e mo", []),
        ("a", "select a", ["accuracy", "all", "asc", "avg"]),
        ("c", "select c from fct_accuracy where c", ["catalogue", "count"]),  # cost_usd is of another table
        ("c", "select c from fct_costs where c", ["catalogue", "cost_usd", "count"]),
        ("a.m", "select\na.m from fct_accuracy as a where a.m", ["a.model"]),
        ("a.wh", "select * from fct_accuracy as a a.wh", []),
        ("fct_accuracy", "from fct_accuracy", ["fct_accuracy"]),
    ],
)
def test_a_word_is_completed_by_what_its_query_names(
    connection: duckdb.DuckDBPyConnection, word: str, typed: str, found: list[str]
) -> None:
    assert Completion(connection).matches(word, typed) == found


FRACTIONS = "1 / 3, 1e-12 / 3, 123456.789::double, 0::double, 'inf'::double, -0.00012345678::float, 5e-324"


@pytest.mark.parametrize("upright", [False, True])
def test_a_fraction_has_four_digits_and_a_file_has_all(
    connection: duckdb.DuckDBPyConnection, upright: bool
) -> None:
    query = f'select unnest([{FRACTIONS}]) as "a ""b""", 2 / 3 as c, 2 / 3 as c, 1.23456 as exact, 123456 as whole'
    shown, whole = io.StringIO(), io.StringIO()
    write_box(connection.sql(query), shown, None, upright)
    words = shown.getvalue().replace("│", " ").split()
    assert [one for one in words if "123" in one and one not in ("1.23456", "123456")] == [
        "123457.0",
        "-0.0001235",
    ]
    assert {"0.3333", "3.333e-13", "0.0", "inf", "5e-324", "1.23456", "123456"} <= set(words)
    assert words.count("0.6667") == 14
    assert 'a "b"' in shown.getvalue()
    write_csv(connection.sql(query), whole)
    assert (
        whole.getvalue().splitlines()[1]
        == "0.3333333333333333,0.6666666666666666,0.6666666666666666,1.23456,123456"
    )


def test_rows_keep_their_order_and_parameters(connection: duckdb.DuckDBPyConnection) -> None:
    shown = io.StringIO()
    query = "select i / 7 as x from range(5) as t (i) where i > $least order by hash(i)"
    write_box(connection.sql(query, params={"least": 1}), shown, None)
    ordered = connection.execute(query, {"least": 1}).fetchall()
    assert [float(one) for one in shown.getvalue().split() if one[:2] == "0."] == [
        round(x, 4) for (x,) in ordered
    ]
