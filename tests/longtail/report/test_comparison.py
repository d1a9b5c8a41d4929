"""Two warehouses side by side: rows by hand, signs that flip, nothing shared, hostile labels, files that do not fit."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow.parquet as pq
import pytest

from longtail.commands import compare as command
from longtail.report.comparison import compare, write_comparison
from longtail.statistics.paired_comparisons import difference_interval
from longtail.statistics.resampling import seed_of
from tests.longtail.report.browser import show
from tests.longtail.report.generated_marts import write_marts
from tests.longtail.report.test_report_browser import HOSTILE, MARKUP
from tests.longtail.report.test_report_figures import payload_of, rows_of

pytestmark = pytest.mark.xdist_group("report_browser")

Rows = Sequence[Mapping[str, Any]]
Make = Callable[..., Path]
KEY = {"dataset": "d", "prompt": "p", "model": "m", "method": "closed_book"}
PAIR = {
    "dataset": "d",
    "prompt": "p",
    "model": "m",
    "parametric_method": "closed_book",
    "retrieval_method": "bm25",
}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_marts(tmp_path_factory.mktemp("compared") / "warehouse.duckdb", HOSTILE)


@pytest.fixture
def make(base: Path, tmp_path: Path) -> Make:
    """A copy of the warehouse in which the named tables have exactly these rows, and then statements are run."""

    def made(name: str, *statements: str, **tables: Rows) -> Path:
        path = tmp_path / name
        shutil.copyfile(base, path)
        with duckdb.connect(str(path)) as connection:
            connection.execute("begin")
            for table, rows in tables.items():
                connection.execute(f"delete from marts.{table}")
                for row in rows:
                    values = ", ".join(f"? as {column}" for column in row)
                    connection.execute(
                        f"insert into marts.{table} by name select {values}", list(row.values())
                    )
            connection.execute("commit")
            for statement in statements:
                connection.execute(statement)
        return path

    return made


def answered(right: str, **key: Any) -> Rows:
    """One answer a question: `1` is right, `0` is wrong, and `-` has no answer."""
    return [
        {**KEY, **key, "question_id": f"q{at}", "question": f"{at}?", "is_correct": mark == "1"}
        for at, mark in enumerate(right)
        if mark != "-"
    ]


def test_accuracies_are_compared_on_the_questions_that_both_answered(make: Make) -> None:
    a = make("a", fct_answers=[*answered("11000111-"), *answered("1", model="only a")])
    b = make("b", fct_answers=[*answered("0110111-1"), *answered("1", method="only b")])
    [row] = compare(a, b)[2]["accuracy"].to_pylist()
    assert row == {
        **KEY, "n_shared": 7, "n_only_a": 1, "n_only_b": 1, "accuracy_a": 4 / 7, "accuracy_b": 5 / 7, "n_now_right": 2,
        "n_now_wrong": 1, "difference": 1 / 7, "difference_ci_low": None, "difference_ci_high": None,
    }  # fmt: skip


def test_from_twenty_subjects_on_a_change_has_the_interval_of_the_marts(make: Make) -> None:
    a = make("a", fct_answers=answered("1" * 10 + "0" * 30))
    b = make("b", fct_answers=answered("0" * 5 + "1" * 20 + "0" * 15))
    [row] = compare(a, b)[2]["accuracy"].to_pylist()
    kinds = np.array([[-1, 1, 5], [0, 1, 20], [1, 1, 15]])
    low, high, reason = difference_interval(kinds, seed_of(0, KEY.values()))
    assert reason is None
    assert (row["difference_ci_low"], row["difference_ci_high"]) == (low, high)
    assert 0 < low < row["difference"] < high


def fitted(*found: tuple[str, str, float]) -> Rows:
    """Thresholds of search exact by relation, decision and number; the first one also of another search."""
    given = [("exact", one) for one in found] + [("binned10", found[0])]
    return [
        {
            **PAIR,
            "search": search,
            "relation": relation,
            "n": 9,
            "decision": decision,
            "threshold_popularity": at,
        }
        for search, (relation, decision, at) in given
    ]


def test_a_threshold_moves_by_its_number_or_its_decision(make: Make) -> None:
    first = (
        ("r", "below", 7),
        ("all", "below", 5),
        ("s", "never", 1),
        ("t", "always", float("inf")),
        ("u", "below", 3),
    )
    second = (("r", "below", 7), ("all", "below", 6), ("s", "never", 2), ("t", "never", 1), ("v", "below", 3))
    a, b = (
        make("a", fct_adaptive_thresholds=fitted(*first)),
        make("b", fct_adaptive_thresholds=fitted(*second)),
    )
    rows = compare(a, b)[2]["thresholds"].to_pylist()
    names = ("relation", "threshold_popularity_a", "threshold_popularity_b", "is_moved")
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("all", 5, 6, True), ("t", None, None, True), ("r", 7, 7, False), ("s", None, None, False)
    ]  # fmt: skip
    assert [rows[1][f"decision_{side}"] for side in "ab"] == ["always", "never"]


def asked(*views: float | None, dataset: str = "d", measure: str = "page_views", **more: Any) -> Rows:
    return [
        {"dataset": dataset, "question_id": f"q{at}", "subject": f"s{at}", "question": "?", "gold_answers": ["x", "y"],
         "subject_popularity": one, "popularity_measure": measure, **more} for at, one in enumerate(views)
    ]  # fmt: skip


def test_popularity_drifts_by_hand(make: Make) -> None:
    """B / A is 4, 2 (not more than double), 0.4, and nothing for 0. Ranks: 3.5 3.5 2 1 and 4 3 1.5 1.5."""
    a = make(
        "a", dim_questions=[*asked(10, 10, 5, 0, 4, None), *asked(2, dataset="f"), *asked(1, dataset="e")]
    )
    b = make("b", dim_questions=[*asked(40, 20, 2, 2, None, 4), *asked(5, dataset="f", measure="sitelinks")])
    rows = compare(a, b)[2]
    found, other = rows["popularity"].to_pylist()
    assert found.pop("rank_correlation") == pytest.approx(4 / 4.5)
    assert found == {
        "dataset": "d", "n_shared": 6, "n_reworded": 0, "n_other_gold_answers": 0, "n_with_popularity": 4,
        "median_ratio": 2.0, "n_more_than_doubled": 2, "n_less_than_halved": 1,
    }  # fmt: skip
    assert (other["dataset"], other["n_shared"], other["n_with_popularity"], other["median_ratio"]) == (
        "f",
        1,
        0,
        None,
    )
    moved = [(row["subject"], row["ratio"]) for row in rows["movers"].to_pylist()]
    assert moved == [("s0", 41 / 11), ("s3", 3.0), ("s2", 0.5), ("s1", 21 / 11)]


def test_the_twenty_largest_movers_of_a_dataset_are_named(make: Make) -> None:
    a, b = make("a", dim_questions=asked(*[1] * 30)), make("b", dim_questions=asked(*range(1, 31)))
    assert [row["subject"] for row in compare(a, b)[2]["movers"].to_pylist()] == [
        f"s{at}" for at in range(29, 9, -1)
    ]


def test_settings_that_differ_and_what_one_side_alone_has(make: Make) -> None:
    names = ("mine", "kept")
    models = [{"model": name, "path": "p", "revision": "1", "n_parameters": 5} for name in names]
    a = make("a", dim_models=models, fct_answers=[{**answered("1")[0], "seed": 3}], dim_questions=asked(1))
    b = make(
        "b",
        "update marts.dim_models set revision = '2'",
        "update marts.publication set code_version = 'later'",
        "alter table marts.dim_models drop column rambles",  # a column that is null everywhere, and of one version alone
        dim_models=[*models[1:], {**models[0], "model": "yours"}],
        fct_answers=[{**answered("1", model="n")[0], "seed": 4}],
        dim_questions=asked(1, question="Who?", gold_answers=["y", "x"]),
    )
    rows = compare(a, b)[2]
    assert [tuple(row.values()) for row in rows["settings"].to_pylist()] == [
        ("model", "mine", "published", "yes", None),
        ("model", "yours", "published", None, "yes"),
        ("answers of", "d, p, m, closed_book", "published", "yes", None),
        ("answers of", "d, p, n, closed_book", "published", None, "yes"),
        ("model", "kept", "revision", "1", "2"),
        ("study", MARKUP, "code", "c", "later"),
        ("study", MARKUP, "seeds", "3", "4"),
    ]
    [questions] = rows["popularity"].to_pylist()
    assert (questions["n_reworded"], questions["n_other_gold_answers"]) == (1, 0)


def test_nothing_differs_from_itself(make: Make, tmp_path: Path) -> None:
    a = make("a")
    rows = compare(a, a)[2]
    assert [topic for topic, table in rows.items() if not len(table)] == ["movers", "settings"]
    assert {row["difference"] for row in rows["accuracy"].to_pylist()} == {0}
    missing = {figure["key"]: figure["missing"] for figure in written(a, a, tmp_path)["figures"]}
    assert {key: why for key, why in missing.items() if why} == {
        "movers": "No subject changed its popularity.", "settings": "A and B have the same settings."
    }  # fmt: skip


def written(a: Path, b: Path, folder: Path) -> dict[str, Any]:
    """What the page of a comparison carries."""
    write_comparison(a, b, folder)
    return payload_of(folder / "compare.html")


def test_what_is_not_shared_is_said_by_name(make: Make, tmp_path: Path) -> None:
    other = [
        f"update marts.{table} set dataset = 'other'"
        for table in ("dim_datasets", "dim_questions", "fct_answers")
    ]
    a, b = (
        make("a"),
        make(
            "b",
            *other,
            "delete from marts.fct_adaptive_thresholds",
            "delete from marts.fct_adaptive_accuracy",
        ),
    )
    page = written(a, b, tmp_path)
    said = "A and B share no dataset: A has d, B has other."
    assert {figure["key"]: figure["missing"] for figure in page["figures"]} == {
        **dict.fromkeys(("accuracy", "thresholds", "gains", "popularity", "movers"), said), "settings": None,
    }  # fmt: skip
    assert page["findings"][:3] == [said] * 3
    assert "Settings that differ: 0. " in page["findings"][3]
    models = make(
        "c",
        "update marts.dim_models set model = 'x ' || model",
        "update marts.fct_answers set model = 'x ' || model",
    )
    assert written(a, models, tmp_path)["findings"][0].startswith("A and B share no model: A has plain, ")


def test_the_page_opens_with_a_dataset_that_both_have(make: Make, tmp_path: Path) -> None:
    datasets = {name: [{"dataset": one, "position_in_study": at} for at, one in enumerate(names)]
                for name, names in {"a": ("x", "d"), "b": ("y", "d")}.items()}  # fmt: skip
    page = written(*(make(name, dim_datasets=rows) for name, rows in datasets.items()), tmp_path)
    assert page["start"]["dataset"] == "d"
    assert page["dimensions"]["order"]["dataset"] == ["d", "x", "y"]


def test_labels_stay_text_on_the_page(make: Make, tmp_path: Path, driver: Any) -> None:
    a = make("a")
    b = make("b", "update marts.fct_answers set is_correct = not is_correct where question_id = 'q1'",
             "update marts.dim_questions set subject_popularity = subject_popularity * 3 + 1",
             "update marts.dim_relations set template = '<img src=x onerror=window.pwned=4>'")  # fmt: skip
    write_comparison(a, b, tmp_path)
    show(driver, tmp_path / "compare.html")
    assert driver.get_log("browser") == []
    assert driver.execute_script(
        "return [window.pwned, document.querySelectorAll('img, b, iframe').length]"
    ) == [None, 0]
    text = driver.execute_script("return document.body.textContent")
    for label in (
        f"{MARKUP} (A) and {MARKUP} (B)",
        "<img src=x onerror=window.pwned=4>",
        "<svg onload",
        "are now right, ",
    ):
        assert label in text, label
    assert (
        driver.execute_script("return document.querySelectorAll('figure svg .mark-symbol path').length") > 0
    )
    assert driver.execute_script("return document.querySelectorAll('.finding').length") == 1


def test_the_queries_of_the_page_read_the_table_beside_it(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    b = make(
        "b",
        "update marts.dim_questions set subject_popularity = 7",
        "update marts.dim_models set revision = 'new'",
    )
    page = written(make("a"), b, tmp_path)
    monkeypatch.chdir(tmp_path)
    assert len(page["figures"]) == len(set(pq.read_table("compare.parquet")["topic"].to_pylist())) == 6
    for figure in page["figures"]:
        found = duckdb.sql(figure["sql"])
        assert len(found) == len(rows_of(page, figure["key"])) > 0
        assert set(figure["data"]["names"]) <= set(found.columns)
        assert {column["name"] for column in figure["columns"]} <= set(figure["data"]["names"])
        assert {name for column in figure["columns"] for name in column["interval"] or ()} <= set(
            found.columns
        )


def test_five_lines_are_printed_with_the_paths(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "home"
    (home / "mine/published/versions").mkdir(parents=True)
    one = make("home/mine/published/warehouse.duckdb", "update marts.dim_questions set dataset = 'a\x9b2J\n'")
    other = shutil.copyfile(one, home / "mine/published/versions/1.duckdb")
    for place in (home / "mine", home / "mine/published"):
        assert command.warehouse_of(str(place)) == one
    assert command.main(str(home / "mine"), str(other), str(tmp_path / "out")) == 0
    said = capsys.readouterr().out
    assert said.count("\n") == 5
    assert "\na\\x9b2J\\x0a: " in said
    assert f"page: {tmp_path}/out/compare.html; table: {tmp_path}/out/compare.parquet" in said
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["compare.html", "compare.parquet"]
    for places, missing in ((("", str(one)), "A"), ((str(one), ""), "B")):
        assert command.main(*places) == 1
        assert capsys.readouterr().err.startswith(f"error: {missing} is missing: name a home")
    assert command.main(str(home), str(other)) == 1
    assert (
        capsys.readouterr().err
        == f"error: {home}: nothing is published there; it has the homes {home}/mine\n"
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "nothing is published there; name a home"),
        (b"text", "is not a valid DuckDB database file"),
        ("drop table marts.fct_adaptive_accuracy", "Table with name fct_adaptive_accuracy does not exist"),
        ("alter table marts.fct_answers drop column prompt", '"prompt" not found'),
    ],
)
def test_a_file_that_cannot_be_compared_is_one_line(
    content: bytes | str | None,
    said: str,
    make: Make,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "b" if not isinstance(content, str) else make("b", content)
    if isinstance(content, bytes):
        path.write_bytes(content)
    assert command.main(str(make("a")), str(path), str(tmp_path / "out")) == 1
    *_, last = capsys.readouterr().err.splitlines()
    assert last.startswith(f"error: {path}")
    assert said in last
    assert not (tmp_path / "out").exists()
