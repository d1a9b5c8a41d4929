"""The ready questions for analysts: each names its figure or table, runs on the published file, and finds something."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import duckdb
import pytest

from dagster_project.core.home import PROJECT_ROOT
from dagster_project.core.warehouse.publish import publish_warehouse
from dagster_project.sql import Shell, connect
from tests.warehouses import AWKWARD, UNANSWERED, copied_study

ANALYSES = sorted((PROJECT_ROOT / "dbt" / "analyses").glob("*.sql"))
TABLES = ("PopQA, Table 1", "PopQA, Table 3", "PopQA, Table 4", "PopQA-TP, Figures 1 to 3")
_REFERENCE = re.compile(r"\{\{ ref\('(\w+)'\) \}\}")


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> duckdb.DuckDBPyConnection:
    study = copied_study(AWKWARD, monkeypatch, tmp_path / "study")
    return connect(publish_warehouse(study, logging.getLogger()).path)


def rows_of(connection: duckdb.DuckDBPyConnection) -> dict[str, int]:
    """Rows by question; this lake is small, so that bins count from one row on and not from forty."""
    queries = {
        file.stem: _REFERENCE.sub(r"marts.\1", file.read_text(encoding="utf-8")).replace("n >= 40", "n >= 1")
        for file in ANALYSES
    }
    return {name: len(connection.execute(query).fetchall()) for name, query in queries.items()}


def test_every_question_says_where_it_is_asked_and_each_figure_has_one() -> None:
    assert len(ANALYSES) >= 20
    heads = {}
    for file in ANALYSES:
        text = file.read_text(encoding="utf-8")
        head = text[: re.search(r"^(?!--)", text, re.MULTILINE).start()]  # type: ignore[union-attr]
        assert re.match(r"-- PopQA(-TP)?, (Figure|Table|section|limitations)", head), file.name
        heads[file.stem] = " ".join(head.replace("--", " ").split())
    named = " ".join(heads.values())
    numbers = {int(n) for n in re.findall(r"\d+", " ".join(re.findall(r"Figures? ([\d, toand]+)", named)))}
    assert {1, *range(3, 13)} <= numbers
    assert all(table in named for table in TABLES)


def test_every_question_finds_something_in_the_published_file(published: duckdb.DuckDBPyConnection) -> None:
    rows = rows_of(published)
    assert {name for name, n in rows.items() if n == 0} == set()


def test_a_study_without_answers_leaves_valid_empty_tables(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    study = copied_study(UNANSWERED, monkeypatch, tmp_path / "study")
    with connect(publish_warehouse(study, logging.getLogger()).path) as connection:
        rows = rows_of(connection)
    assert rows["how_popular_the_subjects_are"] > 0
    assert rows["misled_by_a_passage"] == rows["what_each_method_gets_right"] == 0


def test_a_file_of_the_analyses_runs_in_make_sql_as_it_stands(
    published: duckdb.DuckDBPyConnection, capsys: pytest.CaptureFixture[str]
) -> None:
    query = (PROJECT_ROOT / "dbt" / "analyses" / "what_each_method_gets_right.sql").read_text(
        encoding="utf-8"
    )
    assert Shell(published, "csv").show(query)
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.startswith("dataset,prompt,model,n_parameters,method,n,accuracy")
    assert len(lines) == len(
        published.execute("select * from fct_accuracy where relation = 'all'").fetchall()
    )
