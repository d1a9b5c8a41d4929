"""Words of the report: a label names one thing, captions follow the measure, the banner says what is invented."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
import vl_convert

from longtail.report.figures import FIGURES
from longtail.report.published import FigureRows, banner, list_tables, read_dimensions, read_figure
from longtail.report.report import payload, specification
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
    counts = {column.label: column.name for column in points.columns if column.kind == "count"}
    assert {label: points.rows[0][name] for label, name in counts.items()} == {
        "n of accuracy": 100, "n of consistency": 7, "n of certainty": 3,
    }  # fmt: skip


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
        (*(row[name] for name in ("questions_of", "prompt", "model", "method", "measure", "scope")),): [
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


def test_systems_without_popularity_or_size_are_left_out_and_named(marts: duckdb.DuckDBPyConnection) -> None:
    keys = ("accuracy_across_datasets", "accuracy_by_size")
    assert not any("Left out" in caption for caption in captions(marts, *keys))
    marts.execute("update marts.dim_datasets set n_questions_with_popularity = if(dataset = 'd2', 0, 5)")
    marts.execute("update marts.dim_models set n_parameters = null where model = 'large'")
    across, by_size = captions(marts, *keys)
    popularity = "Left out, because their subjects have no popularity: large and small on d2. "
    size = "Left out, because their size is not known: large. "
    assert (popularity in across, size in across) == (True, False)
    assert size + popularity in by_size
    assert {row["model"] for row in read(marts, "accuracy_by_size").rows} == {"small"}


def captions(marts: duckdb.DuckDBPyConnection, *keys: str) -> list[str]:
    shown = payload(marts, [read(marts, key) for key in keys], read_dimensions(marts))
    return [figure["shows"] for figure in shown["figures"]]


def test_tenths_with_few_answers_are_drawn_as_quarters(marts: duckdb.DuckDBPyConnection) -> None:
    marts.execute(
        "update marts.fct_accuracy_by_popularity_quantile set n = 39"
        " where binning = 'deciles' and bin = 4 and (dataset, model) = ('d1', 'small')"
    )
    rows = read(marts, "accuracy_across_datasets").rows
    parts = {(row["questions_of"], row["model"]): row["binning"] for row in rows if row["method"] == "bm25"}
    assert parts == {
        ("d1", "small"): "quarters", ("d1", "large"): "deciles", ("d2", "small"): "deciles", ("d2", "large"): "deciles",
    }  # fmt: skip
    assert {row["system"] for row in rows} == {f"{model}\n{name}" for name, model in parts}


def test_signals_and_gains_of_all_data_sets_are_those_of_the_verdicts(
    marts: duckdb.DuckDBPyConnection,
) -> None:
    marts.execute("update marts.fct_verdicts set popularity_auroc = 0.7, best_signal_auroc = 0.8")
    marts.execute("update marts.fct_verdicts set popularity_gain = -0.01, best_signal_gain = null")
    keys = [(model, name) for model in ("large", "small") for name in ("d1", "d2")]
    aurocs = [(row["system"], row["signal"], row["auroc"]) for row in read(marts, "all_aurocs").rows]
    wanted = [
        (f"{model}\n{name}", *signal)
        for model, name in keys
        for signal in (("popularity", 0.7), ("best signal", 0.8))
        for _ in ("p1", "p2")
    ]
    assert sorted(aurocs) == sorted(wanted)
    gains = {(row["system"], row["decided_by"], row["gain"]) for row in read(marts, "adaptive_gain").rows}
    assert gains == {
        (f"{model}, {method}\n{name}", "popularity", -0.01)
        for model, name in keys
        for method in ("bm25", "oracle")
    }


def test_one_data_set_needs_no_figure_of_all(marts: duckdb.DuckDBPyConnection) -> None:
    for table in (
        "fct_accuracy",
        "fct_accuracy_by_popularity_quantile",
        "fct_verdicts",
        "fct_popularity_correlation",
    ):
        marts.execute(f"delete from marts.{table} where dataset = 'd2'")
    for key in ("accuracy_across_datasets", "all_aurocs"):
        assert (
            read(marts, key).missing == "Not shown: no row of this study meets the conditions of its query."
        )
    assert {row["system"] for row in read(marts, "correlation_within_relations").rows} == {"small", "large"}


def test_retrieval_is_said_to_hurt_only_where_the_mart_says_so(marts: duckdb.DuckDBPyConnection) -> None:
    """All differences are below zero; one interval is too."""
    marts.execute(
        "update marts.fct_retrieval_effect_by_popularity set difference = -0.1, ci_low = null, effect = null"
    )
    marts.execute(
        "update marts.fct_retrieval_effect_by_popularity set ci_low = -0.2, ci_high = -0.05, effect = 'hurts'"
        " where binning = 'deciles' and relation = 'all' and bin = 9 and model = 'small' and dataset = 'd1'"
        " and prompt = 'p1' and retrieval_method = 'bm25'"
    )
    found = read(marts, "retrieval_effect_by_popularity")
    assert found.figure.spec
    rows = [row for row in found.rows if row["prompt"] == "p1"]
    drawn = specification(found.figure.spec, rows, read_dimensions(marts), 900)
    assert vl_convert.vegalite_to_svg(drawn).count(">hurts<") == 1


def test_the_error_of_a_rule_has_the_rule_s_own_name(marts: duckdb.DuckDBPyConnection) -> None:
    marts.execute("update marts.fct_rule_agreement set difference = if(dataset = 'd2', -0.9, 0.1)")
    marts.execute(
        "update marts.fct_rule_agreement set difference = -0.2 where rule = 'is_exact_match' and dataset = 'd1'"
    )
    rows = read(marts, "rules_beside_verdicts").rows
    assert rows[0]["questions_of"] == "d2"
    errors = {(row["rule"], row["difference"]) for row in rows if row["questions_of"] == "d1"}
    assert errors == {("popqa", 0.1), ("exact match", -0.2)}
