"""The report's numbers are the marts'; a figure without rows says why; pictures are drawn; the file is small."""

from __future__ import annotations

import json
import re
from pathlib import Path

import duckdb
import pytest

from longtail.report.figure import Dimensions, colours, columns_of, fit, present, resolve, spread
from longtail.report.figures import FIGURES
from longtail.report.page import columnar, embedded, render
from longtail.report.published import FigureRows, in_order, list_tables, read_dimensions, read_figure
from longtail.report.report import first_shown, picture, specification, write_report
from longtail.warehouse.publication import open_publication
from tests.longtail.report.generated_marts import World, contracts, write_marts

PNG = b"\x89PNG\r\n\x1a\n"
DATA = re.compile(r'<script type="application/json" id="longtail-data">(.*?)</script>', re.DOTALL)


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_marts(tmp_path_factory.mktemp("marts") / "warehouse.duckdb", World())


def payload_of(page: Path) -> dict:
    found = DATA.search(page.read_text(encoding="utf-8"))
    assert found
    return json.loads(found[1])


def rows_of(payload: dict, key: str) -> list[dict]:
    """The rows of a figure as the page carries them, decoded as data.js does."""
    data = next(figure["data"] for figure in payload["figures"] if figure["key"] == key)
    columns = [
        column
        if isinstance(column, list)
        else [None if code < 0 else column["words"][code] for code in column["codes"]]
        for column in (data["columns"][name] for name in data["names"])
    ]
    return [dict(zip(data["names"], row, strict=True)) for row in zip(*columns, strict=True)]


def test_every_query_fits_the_contracts_of_the_marts(warehouse: Path) -> None:
    known = contracts()
    with open_publication(warehouse) as connection:
        tables = list_tables(connection)
        for figure in FIGURES:
            if set(figure.tables) <= set(known):
                read = read_figure(connection, figure, tables)
                assert read.missing is None, f"{figure.key}: {read.missing}"
                assert read.rows
                assert {*figure.labels, *figure.hidden} <= set(read.names), figure.key
                labels = [column.label for column in read.columns]
                assert len(labels) == len(set(labels)), (figure.key, labels)


def test_numbers_in_the_page_are_those_of_the_marts(warehouse: Path, tmp_path: Path) -> None:
    files = write_report(warehouse, tmp_path / "report.html")
    payload = payload_of(files.path)
    with duckdb.connect(str(warehouse), read_only=True) as connection:
        accuracy = connection.execute(
            "select dataset, prompt, model, method, n, n_correct, accuracy, ci_low, ci_high "
            "from marts.fct_accuracy where relation = 'all'"
        ).fetchall()
        gains = connection.execute(
            "select dataset, prompt, model, retrieval_method, popularity_gain, popularity_gain_ci_low, "
            "popularity_gain_ci_high, accuracy_adaptive from marts.fct_adaptive_accuracy "
            "inner join marts.fct_verdicts using (dataset, prompt, model, parametric_method, retrieval_method) "
            "where search = 'exact' and threshold_scope = 'per_relation'"
        ).fetchall()
    shown = rows_of(payload, "headline")
    key = ("dataset", "prompt", "model", "method")
    numbers = (*key, "n", "n_correct", "accuracy", "ci_low", "ci_high")
    assert sorted(tuple(row[name] for name in numbers) for row in shown) == sorted(accuracy)
    adaptive = (*key, "gain", "gain_ci_low", "gain_ci_high", "accuracy_adaptive")
    found = {tuple(row[name] for name in adaptive) for row in shown if row["method"] != "closed_book"}
    assert found == set(gains)
    by_popularity = {
        tuple(
            row[name]
            for name in ("questions_of", *key[1:3], "retrieval_method", "gain", "gain_ci_low", "gain_ci_high")
        )
        for row in rows_of(payload, "adaptive_gain")
        if row["decided_by"] == "popularity"
    }
    assert by_popularity == {row[:-1] for row in gains if row[4] is not None}
    single = next(row for row in shown if row["accuracy"] is not None)
    name = "/".join(single[name] for name in key)
    assert files.numbers[f"accuracy/{name}"] == single["accuracy"]


def test_a_table_that_is_missing_or_empty_is_said(tmp_path: Path) -> None:
    path = write_marts(tmp_path / "warehouse.duckdb", World(empty=frozenset({"fct_retrieval_quadrants"})))
    with duckdb.connect(str(path)) as connection:
        connection.execute("drop table marts.fct_passage_effects")
        connection.execute("alter table marts.fct_costs drop column cost_usd_per_1000")
    files = write_report(path, tmp_path / "report.html", tmp_path / "figures")
    assert (
        files.missing["retrieval_quadrants"]
        == "Not shown: table fct_retrieval_quadrants of this study has no rows."
    )
    assert (
        files.missing["misled_by_a_passage"] == "Not shown: this warehouse has no table fct_passage_effects."
    )
    assert "does not fit" in files.missing["tokens"]
    assert "cost_usd_per_1000" in files.missing["tokens"]
    assert "retrieval_quadrants" not in files.pictures
    missing = {
        figure["key"]: figure["missing"] for figure in payload_of(files.path)["figures"] if figure["missing"]
    }
    assert missing == files.missing


def test_every_chart_is_drawn_as_a_picture(warehouse: Path, tmp_path: Path) -> None:
    folder = tmp_path / "published" / "figures"
    folder.mkdir(parents=True)
    (folder / "of_an_older_report.png").write_bytes(b"")
    files = write_report(warehouse, tmp_path / "published" / "report.html", folder)
    charts = {figure.key for figure in FIGURES if figure.kind == "chart"} - set(files.missing)
    assert set(files.pictures) == charts
    assert {path.name for path in folder.iterdir()} == {f"{key}.png" for key in files.pictures}
    for path in files.pictures.values():
        assert path.read_bytes().startswith(PNG)
        assert path.stat().st_size > 3_000, path.name  # axes without a point have fewer
    assert {figure.mart for figure in FIGURES if figure.key in files.pictures} <= set(contracts())


def test_pairs_with_another_parametric_method_are_not_drawn_over_one_another(tmp_path: Path) -> None:
    world = World(
        methods=["closed_book", "bm25", "genread"],
        keys={"parametric_method": ["closed_book", "genread"], "retrieval_method": ["bm25"]},
    )
    path = write_marts(tmp_path / "warehouse.duckdb", world)
    with duckdb.connect(str(path)) as connection:
        connection.execute("update marts.dim_methods set is_parametric = method <> 'bm25'")
    with open_publication(path) as connection:
        tables, dimensions = list_tables(connection), read_dimensions(connection)
        read = {figure.key: read_figure(connection, figure, tables) for figure in FIGURES}
    paired = {key: one for key, one in read.items() if "parametric_method" in one.names}
    assert len(paired) >= 10
    for key, one in paired.items():
        assert {row["parametric_method"] for row in one.rows} == {"closed_book", "genread"}, key
        if one.figure.kind != "table":
            shown = first_shown(one, dimensions)
            assert {row["parametric_method"] for row in shown} == {"closed_book"}, key
    guesses = [(row["relation"], row["guess"]) for row in first_shown(read["guessing_baselines"], dimensions)]
    assert len(guesses) == len(set(guesses))


def test_labels_that_look_like_colours_stay_labels(tmp_path: Path) -> None:
    """A picture has the light theme's colours for the page's variables; `var(--gone)` names none of them."""
    labels = ["var(--ink)", "var(--gone)"]
    path = write_marts(tmp_path / "warehouse.duckdb", World(models=labels, relations=labels))
    with open_publication(path) as connection:
        tables, dimensions = list_tables(connection), read_dimensions(connection)
        read = [read_figure(connection, figure, tables) for figure in FIGURES if figure.spec]
    for one in read:
        rows = first_shown(one, dimensions)
        drawn = specification(one.figure.spec, rows, dimensions, 900)
        shown = drawn.pop("data")["values"]
        assert [{name: row[name] for name in one.names} for row in shown] == rows, one.figure.key
        written = set(re.findall(r"var\(--[a-z0-9-]+\)", json.dumps(drawn)))
        assert written <= set(labels), one.figure.key
    figure = next(one for one in read if one.figure.key == "accuracy_by_relation")
    assert picture(figure, dimensions).startswith(PNG)


def test_json_in_the_page_holds_no_markup() -> None:
    text = embedded({"a": "</script><img src=x onerror=alert(1)>", "b": "<!--", "c": "a & b \u2028 \x00"})
    assert not set("<>&\u2028\x00") & set(text)
    assert json.loads(text)["c"] == "a & b \u2028 \x00"


def test_slots_of_the_template_are_not_looked_for_in_what_was_put_in() -> None:
    page = render({"study": "{script}{policy}", "figures": []})
    assert page.count("{script}{policy}") == 1
    assert page.count("Content-Security-Policy") == 1


def test_the_policy_allows_this_files_scripts_and_nothing_else() -> None:
    page = render({})
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)
    assert policy
    rules = dict(rule.split(" ", 1) for rule in policy[1].split("; "))
    assert rules["default-src"] == "'none'"
    assert len(re.findall(r"'sha256-[^']+'", rules["script-src"])) == 2
    assert "unsafe" not in policy[1]
    assert "http" not in policy[1]
    assert not re.search(r"\son\w+=", page.split("<script")[0])


def test_columns_come_back_as_they_were() -> None:
    rows = tuple(
        {"a": value, "b": number} for value, number in [("x", 1.5), (None, None), ("x", 2.0), ("y", 0.1)]
    )
    read = FigureRows(FIGURES[0], (), ("a", "b"), rows)
    payload = {"figures": [{"key": "k", "data": json.loads(json.dumps(columnar(read)))}]}
    assert rows_of(payload, "k") == list(rows)


def test_placeholders_follow_the_order_of_the_study() -> None:
    dimensions = Dimensions({"model": ["small", "large"]}, {"popularity": "views"})
    rows = [
        {"model_a": "large", "z": 2},
        {"model_a": "new", "z": 1},
        {"model_a": "small", "z": 2},
        {"model_a": None, "z": 2},
    ]
    assert present(rows, "model_a", dimensions) == ["small", "large", "new"]
    spec = {"x": {"$present": "z"}, "y": [{"$all": "model"}, {"$label": "popularity"}]}
    assert resolve(spec, rows, dimensions) == {"x": [2, 1], "y": [["small", "large"], "views"]}


def test_rows_have_the_order_of_the_study_as_far_as_dimensions_lead() -> None:
    order = {"dataset": ["d"], "model": ["small", "large"], "method": ["b", "a"]}
    rows = [{"dataset": "d", "model": model, "level": level, "method": method}
            for model in ("large", "new", "small") for level in (2, 1) for method in ("a", "b")]  # fmt: skip
    shown = in_order(FigureRows(FIGURES[0], (), tuple(rows[0]), tuple(rows)), Dimensions(order, {})).rows
    assert [row["model"] for row in shown] == ["small"] * 4 + ["large"] * 4 + ["new"] * 4
    assert [(row["level"], row["method"]) for row in shown[:4]] == [(2, "a"), (2, "b"), (1, "a"), (1, "b")]


def test_ordered_colours_reach_from_the_first_to_the_last() -> None:
    steps = list("abcdefgh")
    assert spread(steps, 1) == ["a"]
    assert spread(steps, 3) == ["a", "d", "h"]
    assert spread(steps, 8) == steps
    assert spread(steps, 10) == sorted(spread(steps, 10))


def test_a_legend_has_room_for_its_longest_entry() -> None:
    meta = {"single": {"height": 100, "rows": None, "step": 20}}
    names = ["popularity_per_relation", "b", "c", "d", "e", "f"]
    spec = {"usermeta": meta, "encoding": {"color": {"type": "nominal", "scale": {"domain": names}}}}
    for width in (300, 700, 1150):
        legend = fit(spec, [{}], width)["config"]["legend"]
        assert legend["labelLimit"] >= 7 * len(names[0])
        assert legend["columns"] * (legend["labelLimit"] + 46) <= width - 84
    assert fit(spec, [{}], 1150)["config"]["legend"]["columns"] == 5


def test_panels_fit_their_width() -> None:
    meta = {"panels": {"by": "m", "least": 200, "ratio": 0.5, "rows": None, "step": 20}}
    rows = [{"m": n} for n in range(10)]
    for width in (300, 400, 700, 960, 1400):
        sized = fit({"usermeta": meta, "facet": {"header": {}}, "spec": {}}, rows, width)
        columns, panel = sized["columns"], sized["spec"]["width"]
        assert 1 <= columns <= 10
        assert columns * -(-10 // columns) - 10 <= -(
            -10 // columns
        )  # as few empty places as that many rows leave
        assert columns * panel + 22 * (columns - 1) + 84 <= width
        assert panel >= 200
        assert sized["spec"]["height"] == panel // 2


def test_a_row_has_room_for_what_stands_in_it() -> None:
    meta = {"panels": {"by": "m", "least": 200, "ratio": 0.5, "rows": "r", "lanes": "l", "step": 22}}
    for n_lanes, step in ((1, 22), (2, 27), (5, 54)):
        rows = [{"m": "m", "r": r, "l": lane} for r in range(3) for lane in range(n_lanes)]
        sized = fit({"usermeta": meta, "facet": {"header": {}}, "spec": {}}, rows, 700)
        assert sized["spec"]["height"] == 3 * step


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_have_contrast(theme: str) -> None:
    shown = colours(theme)
    verdicts = [("series-2", 4.5), ("series-3", 4.5)]  # "wrong" and "right" are also words in these colours
    for name, least in (("ink", 7), ("muted", 4.5), ("accent", 4.5), *verdicts):
        for ground in ("page", "surface", "raised"):
            assert contrast(shown[name], shown[ground]) >= least, (name, ground)
    assert contrast(shown["warn"], shown["warn-page"]) >= 4.5
    for name in (name for name in shown if name.startswith(("series-", "step-"))):
        assert contrast(shown[name], shown["surface"]) >= 3, name


def contrast(one: str, other: str) -> float:
    """WCAG 2.2's contrast ratio of two colours."""

    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_a_page_starts_with_the_data_set_that_most_figures_have(tmp_path: Path) -> None:
    path = write_marts(tmp_path / "warehouse.duckdb", World())
    assert payload_of(write_report(path, tmp_path / "report.html").path)["start"]["dataset"] == "d1"
    with duckdb.connect(str(path)) as connection:
        for table in ("fct_retrieval_quadrants", "fct_adaptive_thresholds"):
            connection.execute(f"delete from marts.{table} where dataset = 'd1'")
    assert payload_of(write_report(path, tmp_path / "report.html").path)["start"]["dataset"] == "d2"


def test_axes_name_what_the_popularity_of_a_data_set_counts(tmp_path: Path) -> None:
    path = write_marts(tmp_path / "warehouse.duckdb", World())
    with duckdb.connect(str(path)) as connection:
        connection.execute("update marts.dim_datasets set popularity_name = null")
        connection.execute(
            "update marts.dim_datasets set popularity_name = 'site links' where dataset = 'd2'"
        )
    with open_publication(path) as connection:
        dimensions = read_dimensions(connection)
    spec = [{"$label": "popularity"}, {"$label": "threshold"}]
    views = ["monthly page views of the subject", "threshold: monthly views"]
    assert resolve(spec, [{"dataset": "d1"}], dimensions) == views
    assert resolve(spec, [{"dataset": "d2"}], dimensions) == ["site links", "threshold: site links"]
    assert resolve(spec, [{"z": 1}], dimensions) == views


def test_the_columns_of_a_table_follow_from_its_query() -> None:
    sql = """select 'm' as model, 7 as n, true as is_best, 0.5::double as accuracy, 0.4::double as ci_low,
    0.6::double as ci_high, 1::double as bin_low, 2::double as bin_high, 'gains' as verdict, 0.0 as gain_ci_low,
    0.1 as gain_ci_high, 3 as popularity, 'x' as secret, 0.1::double as p_value"""
    cursor = duckdb.sql(sql)
    types = [str(column) for column in cursor.types]
    columns = columns_of(cursor.columns, types, {"verdict": "deciding"}, ("secret",))
    assert [(column.name, column.label, column.kind, column.interval) for column in columns] == [
        ("model", "model", "text", None),
        ("n", "n", "count", None),
        ("is_best", "kept", "flag", None),
        ("accuracy", "accuracy", "share", ("ci_low", "ci_high")),
        ("bin_low", "popularity from", "number", None),
        ("bin_high", "popularity to", "number", None),
        ("verdict", "deciding", "points", ("gain_ci_low", "gain_ci_high")),
        ("p_value", "p", "p", None),
    ]
