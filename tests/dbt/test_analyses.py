"""The ready questions for analysts: each names its figure or table, runs on the published file, and finds something."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pytest

from longtail import open_warehouse
from longtail.commands.sql import run_query, shell_command
from longtail.storage.home import PROJECT_ROOT
from tests.warehouses import UNANSWERED, published_study

ANALYSES = sorted((PROJECT_ROOT / "dbt" / "analyses").glob("*.sql"))
TABLES = ("PopQA, Table 1", "PopQA, Table 3", "PopQA, Table 4", "PopQA-TP, Figures 1 to 3")
AGGREGATED = {
    "certain_and_wrong": {"sample"},
    "how_popularity_moved": {"month"},
    "inconsistent_although_well_known": {"paraphrase_id"},
    "which_wordings_agree": {"question_id", "paraphrase_id"},
    "where_the_rules_of_correctness_disagree": {
        "is_correct", "is_correct_case_sensitive", "is_correct_normalized", "is_exact_match",
    },
    "whose_passage_changes_the_answer": {"question_id"},
}  # fmt: skip
"""Keys that a question sums or lists over, which is what it asks."""
STANDS_FOR = {
    ("accuracy_by_relative_popularity", "bin"): "z_low",
    ("recall_where_memory_and_passage_disagree", "parametric_correct"): "quadrant",
    ("recall_where_memory_and_passage_disagree", "retrieval_correct"): "quadrant",
    ("when_retrieval_stops_helping", "method"): "retrieval_method",
    ("what_an_accurate_answer_costs", "parametric_method"): "method",
    ("what_an_accurate_answer_costs", "retrieval_method"): "method",
}
"""Keys that a question shows under another name."""
OF_CLOZE_QUERIES = {"consistent_and_wrong", "which_patterns_stand_apart"}
"""Questions that this lake has no rows for; `test_pairs_of_patterns` asks them."""
_REFERENCE = re.compile(r"\{\{ ref\('(\w+)'\) \}\}")


def queries() -> dict[str, str]:
    """The questions as `make sql` asks them; this lake is small, so that bins count from one row on, not from forty."""
    return {
        file.stem: _REFERENCE.sub(r"\1", file.read_text(encoding="utf-8")).replace("n >= 40", "n >= 1")
        for file in ANALYSES
    }


def rows_of(connection: duckdb.DuckDBPyConnection) -> dict[str, int]:
    assert all(len(connection.extract_statements(query)) == 1 for query in queries().values())
    return {name: len(connection.execute(query).fetchall()) for name, query in queries().items()}


def test_every_question_says_where_it_is_asked_and_each_figure_has_one() -> None:
    assert len(ANALYSES) >= 20
    heads = {}
    for file in ANALYSES:
        text = file.read_text(encoding="utf-8")
        head = text[: re.search(r"^(?!--)", text, re.MULTILINE).start()]  # type: ignore[union-attr]
        where = r"-- (PopQA(-TP)?, (Figure|Table|section|limitations)|ParaRel|Atlas)"
        assert re.match(where, head), file.name
        heads[file.stem] = " ".join(head.replace("--", " ").split())
    named = " ".join(heads.values())
    numbers = {int(n) for n in re.findall(r"\d+", " ".join(re.findall(r"Figures? ([\d, toand]+)", named)))}
    assert {1, *range(3, 13)} <= numbers
    assert all(table in named for table in TABLES)


def test_every_question_finds_something_in_the_published_file(published: duckdb.DuckDBPyConnection) -> None:
    rows = rows_of(published)
    assert {name for name, n in rows.items() if n == 0} == OF_CLOZE_QUERIES


def test_no_question_drops_a_key_of_what_it_reads(published: duckdb.DuckDBPyConnection) -> None:
    """Two datasets, two prompts, four models: each row says of which it is, and no two rows say the same."""
    grains = dict(published.execute("select table_name, grain from catalogue").fetchall())
    for file in ANALYSES:
        name, query = file.stem, re.sub(r"\nlimit 100\s*$", "", queries()[file.stem])
        facts = {
            table for table in _REFERENCE.findall(file.read_text(encoding="utf-8")) if table[:4] == "fct_"
        }
        keys = {key for table in facts for key in grains[table].split(", ")} - AGGREGATED.get(name, set())
        found = published.execute(query)
        columns = [column[0] for column in found.description or ()]
        shown = {STANDS_FOR.get((name, key), key) for key in keys}
        dropped = {
            key for key in shown - {*columns} if not re.search(rf"\b{key} (= ['\d]|in \(\s*select)", query)
        }
        assert dropped == set(), name
        identity = [i for i, column in enumerate(columns) if column in shown | {"link", "passage_of"}]
        told = [tuple(row[i] for i in identity) for row in found.fetchall()]
        assert len(told) == len(set(told)), name
        assert told or name in OF_CLOZE_QUERIES


def test_who_moved_most_is_no_empty_month_and_no_handful_of_readers() -> None:
    views = {
        "Q_grown": [100] * 6 + [300] * 6,
        "Q_fallen": [400] * 6 + [100] * 6,
        "Q_steady": [100, 110] * 6,
        "Q_empty_month": [66] * 11 + [0],
        "Q_handful": [1] * 6 + [9] * 6,
        "Q_object": [10] * 6 + [900] * 6,
        "Q_short": [10, 10, 900, 900],
    }
    months = [f"2026-{month:02d}" for month in range(1, 13)]
    with duckdb.connect() as connection:
        connection.execute(
            "create table dim_entities as select unnest($ids) as entity_id, 'a name' as label, unnest($facts) as n_facts",
            {"ids": list(views), "facts": [int(entity != "Q_object") for entity in views]},
        )
        connection.execute(
            "create table fct_popularity_history (entity_id text, measure text, month text, popularity double)"
        )
        connection.executemany(
            "insert into fct_popularity_history values (?, 'page_views', ?, ?)",
            [(entity, month, n) for entity in views for month, n in zip(months, views[entity], strict=False)],
        )
        found = connection.execute(queries()["how_popularity_moved"]).df()
    assert list(found.entity_id) == ["Q_fallen", "Q_grown", "Q_empty_month", "Q_steady"]
    assert list(found.ratio) == [0.25, 3.0, 1.0, 1.0]
    assert found.loc[0, ["n_months", "first_month", "later_half_from", "last_month"]].to_list() == [
        12, "2026-01", "2026-07", "2026-12",
    ]  # fmt: skip


def test_a_study_without_answers_leaves_valid_empty_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    with open_warehouse(published_study(UNANSWERED, monkeypatch).home.published_warehouse) as connection:
        rows = rows_of(connection)
    assert rows["how_popular_the_subjects_are"] > 0
    assert rows["misled_by_a_passage"] == rows["what_each_method_gets_right"] == 0


def test_a_file_of_the_analyses_runs_in_make_sql_as_it_stands(
    file: Path, published: duckdb.DuckDBPyConnection, capfd: pytest.CaptureFixture[str]
) -> None:
    query = PROJECT_ROOT / "dbt" / "analyses" / "what_each_method_gets_right.sql"
    assert run_query(shell_command(file, "csv"), query.read_bytes()) == 0
    header, *lines = capfd.readouterr().out.splitlines()
    assert header.startswith("dataset,prompt,model,n_parameters,method,n,accuracy")
    assert len(lines) == len(
        published.execute("select * from fct_accuracy where relation = 'all'").fetchall()
    )
