"""Words of the report: a label names one thing, captions follow the measure, the banner says what is invented."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from longtail.report.figures import FIGURES
from longtail.report.published import (
    FigureRows,
    banner,
    list_tables,
    read_dimensions,
    read_figure,
)
from longtail.report.report import payload
from tests.longtail.report.generated_marts import World, write_marts


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_marts(tmp_path_factory.mktemp("words") / "warehouse.duckdb", World())


@pytest.fixture
def marts(warehouse: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """The warehouse, as a test may change it: whatever it does is rolled back."""
    with duckdb.connect(str(warehouse)) as connection:
        connection.execute("begin")
        yield connection
        connection.execute("rollback")


def read(marts: duckdb.DuckDBPyConnection, key: str) -> FigureRows:
    figure = next(figure for figure in FIGURES if figure.key == key)
    return read_figure(marts, figure, list_tables(marts))


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.key)
def test_no_two_columns_of_a_table_have_one_name(figure: Any) -> None:
    labels = [column.label for column in figure.columns]
    assert len(labels) == len(set(labels)), labels


@pytest.mark.parametrize(
    ("measure", "word"),
    [
        ("page_views", "monthly page views"),
        ("sitelinks", "site links"),
        ("imported", "as the imported file gives it"),
    ],
)
def test_captions_axes_and_tooltips_follow_the_measure(
    measure: str, word: str, marts: duckdb.DuckDBPyConnection
) -> None:
    marts.execute("update marts.dim_questions set popularity_measure = ?", [measure])
    if measure != "page_views":
        marts.execute("delete from marts.fct_popularity_drift")  # it is of page views alone
    tables, dimensions = list_tables(marts), read_dimensions(marts)
    shown = payload(marts, [read_figure(marts, figure, tables) for figure in FIGURES], dimensions)
    captions = {figure["key"]: figure["shows"] for figure in shown["figures"] if not figure["missing"]}
    assert word in captions["scaling_by_level"]
    assert word in shown["dimensions"]["labels"]["popularity"]
    specs = [figure["spec"] for figure in shown["figures"] if not figure["missing"]]
    words = json.dumps([captions, specs, shown["dimensions"]["labels"]])
    assert "{popularity}" not in words
    assert ("views" in words) == (measure == "page_views")


def test_consistency_counts_the_questions_that_have_it(marts: duckdb.DuckDBPyConnection) -> None:
    marts.execute(
        "update marts.fct_semantic_consistency set n = 100, n_scons = 7, n_cert = 3, scons = 1, cert = 1, accuracy = 1"
    )
    shown = {(row["measure"], row["n"]) for row in read(marts, "consistency_by_relation").rows}
    assert shown == {("accuracy", 100), ("consistency", 7), ("certainty", 3)}
    points = read(marts, "consistency_against_accuracy")
    counts = {column.label: column.name for column in points.figure.columns if column.kind == "count"}
    assert {label: points.rows[0][name] for label, name in counts.items()} == {
        "n of accuracy": 100, "n of consistency": 7, "n of certainty": 3,
    }  # fmt: skip


def test_the_leaderboard_shows_a_ceiling_or_a_control_where_there_is_no_place(
    marts: duckdb.DuckDBPyConnection,
) -> None:
    marts.execute(
        "update marts.fct_leaderboard set is_condition = false, is_bound = retrieval_method = 'oracle'"
    )
    marts.execute("update marts.fct_leaderboard set rank = if(is_bound, null, 2)")
    rows = read(marts, "leaderboard").rows
    assert {(row["retrieval_method"], row["place"]) for row in rows} == {("oracle", "ceiling"), ("bm25", "2")}
    marts.execute("update marts.fct_leaderboard set is_condition = true where retrieval_method = 'bm25'")
    rows = read(marts, "leaderboard").rows
    assert {(row["retrieval_method"], row["place"]) for row in rows} == {
        ("oracle", "ceiling"),
        ("bm25", "control"),
    }
    assert {row["entries"] for row in rows} == {"methods", "adaptive pairs"}


BOTH = "These numbers show that the platform finds effects whose truth is known. They say nothing about real models."


@pytest.mark.parametrize(
    ("changes", "title", "text"),
    [
        ("", "Synthetic world, reference models.", BOTH),
        ("update dim_models set path = 'fake:passage'", "Synthetic world, scripted answers, no model.", BOTH),
        (
            "update dim_models set path = 'script.json', engine = 'fake 1'",
            "Synthetic world, scripted answers, no model.",
            BOTH,
        ),
        ("update dim_datasets set source = 'popqa'", "Reference models.", BOTH),
        (
            "update dim_datasets set source = 'popqa';"
            "update dim_models set path = null, engine = 'imported' where model = 'large'",
            "Reference models: small.",
            "Their numbers say nothing about real models.",
        ),
        (
            "update dim_models set path = 'EleutherAI/pythia-160m', engine = 'transformers 5'",
            "Synthetic world.",
            "Names and facts are invented: these numbers say nothing about what a model knows of the real world.",
        ),
    ],
)
def test_the_banner_names_what_is_invented(
    changes: str, title: str, text: str, marts: duckdb.DuckDBPyConnection
) -> None:
    marts.execute("set search_path = 'marts'")
    marts.execute(changes or "select 1")
    assert banner(marts) == {"title": title, "text": text}


def test_nothing_is_said_of_real_models_in_the_real_world(marts: duckdb.DuckDBPyConnection) -> None:
    marts.execute("update marts.dim_datasets set source = 'wikidata'")
    marts.execute("update marts.dim_models set path = 'EleutherAI/pythia-160m', engine = 'transformers 5'")
    assert banner(marts) is None


def test_the_figure_of_relations_has_both_correlations_with_their_own_intervals(
    marts: duckdb.DuckDBPyConnection,
) -> None:
    shown = {
        (*(row[name] for name in ("dataset", "prompt", "model", "method", "measure", "scope")),): [
            row[name] for name in ("n", "correlation", "ci_low", "ci_high", "undefined")
        ]
        for row in read(marts, "correlation_within_relations").rows
    }
    of_scope = {
        "over all answers": ("", "n", "no_interval"),
        "within relations": ("_within", "n_within", "no_interval_within"),
    }
    expected = {}
    for scope, (suffix, n, reason) in of_scope.items():
        for measure, name in (("point-biserial", "point_biserial"), ("Spearman", "spearman")):
            column = f"{name}{suffix}"
            found = marts.execute(
                f"select dataset, prompt, model, method, {n}, {column}, {column}_ci_low, {column}_ci_high, "
                f"{reason} from marts.fct_popularity_correlation where relation = 'all'"
            ).fetchall()
            expected |= {(*row[:4], measure, scope): list(row[4:]) for row in found}
    assert shown == expected
    assert len({tuple(values) for values in expected.values()}) > 4
