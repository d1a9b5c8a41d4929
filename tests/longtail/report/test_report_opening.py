"""What a reader sees first: the main curve, its cards, tables of ten rows; and what the main curve's points say."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from longtail.report.report import write_report
from tests.longtail.report.browser import element, show
from tests.longtail.report.generated_marts import World, write_marts

pytestmark = pytest.mark.xdist_group("report_browser")

METHODS = ["closed_book", "bm25", "oracle"]
PAIR = {"parametric_method": ["closed_book"], "retrieval_method": ["bm25", "oracle"]}
FLAGS = """
    update marts.dim_methods set is_parametric = method = 'closed_book', is_bound = method = 'oracle',
        is_condition = false, kind = if(method = 'closed_book', 'memory', 'retrieval');
    update marts.fct_verdicts set verdict = 'gains nothing', popularity_gain = -0.01, popularity_gain_ci_low = -0.02,
        popularity_gain_ci_high = 0.01, popularity_policy = 'popularity_per_relation',
        best_signal_verdict = 'gains nothing';
    update marts.fct_verdicts set verdict = 'gains', popularity_gain = 0.5, popularity_gain_ci_low = 0.4,
        popularity_gain_ci_high = 0.6
    where retrieval_method = 'oracle';
    update marts.fct_verdicts set popularity_gain = 0.9, popularity_gain_ci_low = null, popularity_gain_ci_high = null
    where retrieval_method = 'bm25' and model = 'a';
    update marts.fct_policies set policy = 'popularity_per_relation', share_retrieved = 0.5;
"""
PAYS = """
    update marts.fct_verdicts set verdict = 'gains', popularity_gain = 0.0512, popularity_gain_ci_low = 0.03837,
        popularity_gain_ci_high = 0.06396
    where retrieval_method = 'bm25' and model = 'b';
    update marts.fct_policies set share_retrieved = 0.576 where retrieval_method = 'bm25' and model = 'b';
    update marts.fct_adaptive_accuracy set gain = 0.0605, gain_ci_low = 0.04837, gain_ci_high = 0.07296
    where retrieval_method = 'bm25' and model = 'b' and search = 'binned10' and threshold_scope = 'all';
"""

Opened = Callable[..., Any]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A report of three models and three methods, gains as `sql` says beside `FLAGS`."""
    made: dict[str, Path] = {}

    def make(sql: str) -> Path:
        if sql not in made:
            folder = tmp_path_factory.mktemp("opening")
            relations = [f"relation {n}" for n in range(17)]
            world = World(["d"], ["p"], ["a", "b", "c"], METHODS, relations, keys=PAIR)
            warehouse = write_marts(folder / "warehouse.duckdb", world)
            with duckdb.connect(str(warehouse)) as connection:
                connection.execute(FLAGS + sql)
            made[sql] = write_report(warehouse, folder / "report.html").path
        return made[sql]

    return make


@pytest.fixture
def opened(driver: Any, report: Callable[[str], Path]) -> Opened:
    def at(sql: str, opens: str = "") -> Any:
        show(driver, report(sql), opens=opens)
        return driver

    return at


def top(page: Any, selector: str) -> float:
    return float(
        page.execute_script(
            "return document.querySelector(arguments[0]).getBoundingClientRect().top + scrollY", selector
        )
    )


def cards(page: Any) -> dict[str, tuple[str, str]]:
    read = (
        "return [...document.querySelectorAll('.tile')]"
        ".map((t) => ['dt', 'strong', 'dd span'].map((s) => t.querySelector(s).textContent))"
    )
    return {name: (value, text) for name, value, text in page.execute_script(read)}


def test_the_report_opens_with_the_main_curve(opened: Opened) -> None:
    page = opened(PAYS, "#headline, #leaderboard")
    first = page.execute_script("return document.querySelector('main figure').id")
    assert first == "accuracy_by_popularity"
    assert top(page, "#accuracy_by_popularity svg .mark-line") < 700
    for later in (".tiles", "#headline", "#leaderboard"):
        assert top(page, later) > top(page, "#accuracy_by_popularity")


def test_long_tables_show_ten_rows_and_open_on_demand(opened: Opened) -> None:
    page = opened(PAYS, "*")
    rows = "return [...document.querySelectorAll('figure.of-table')].map((f) => f.querySelectorAll('tbody tr').length)"
    assert max(page.execute_script(rows)) <= 12
    button = element(page, "#popularity_quantiles .content button.plain")
    count = "return document.querySelectorAll('#popularity_quantiles tbody tr').length"
    assert (page.execute_script(count), button.text) == (10, "Show all 18 rows")
    button.click()
    assert (page.execute_script(count), button.text) == (18, "Show 10 rows")
    button.click()
    assert page.execute_script(count) == 10


def test_sentence_card_table_and_figure_have_one_gain(opened: Opened) -> None:
    """That of the verdicts: another search may gain more, and an upper bound gains much more."""
    page = opened(PAYS, "#headline")
    shown = cards(page)
    value, text = shown["Largest gain by popularity"]
    assert value == "+5.1 points"
    assert text.startswith(
        "b, closed_book or bm25 (a threshold for each relation), over the better of always and never;"
    )
    assert "95 % interval +3.8 to +6.4; largest of 3 pairs" in text
    assert shown["Retrieval is used for"] == (
        "57.6 %",
        "of the questions with popularity; memory answers the rest",
    )
    assert all("oracle" not in text for _, text in shown.values())
    assert element(page, ".finding a").text == "+5.1 points [3.8, 6.4]"
    assert element(page, ".finding a").get_attribute("href").endswith("#adaptive_gain")
    rows = "return [...document.querySelectorAll('#headline tr')].map((r) => r.textContent)"
    assert any("+0.051 +0.038 to +0.064" in row for row in page.execute_script(rows))
    element(page, "#adaptive_gain .behind summary").click()
    assert "+0.051" in element(page, "#adaptive_gain .behind").text


def test_a_card_says_that_there_is_no_gain(opened: Opened) -> None:
    """A gain without an interval does not count, however large, and neither does the gain of a bound."""
    shown = cards(opened(""))
    assert shown["Deciding by popularity"] == (
        "no gain",
        "none of 3 pairs has a gain with a 95 % interval above zero",
    )
    assert not {"Largest gain by popularity", "Retrieval is used for"} & set(shown)


def test_a_point_of_the_main_curve_says_both_ends_of_its_bin_and_interval(opened: Opened) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    page = opened(PAYS)
    page.execute_script("document.querySelector('#accuracy_by_popularity').scrollIntoView({block: 'center'})")
    for mark in page.find_elements("css selector", "#accuracy_by_popularity .mark-symbol path")[:5]:
        ActionChains(page).move_to_element(mark).perform()
        hint = "return [...document.querySelectorAll('.hint d' + arguments[0])].map((e) => e.textContent)"
        names, values = page.execute_script(hint, "t"), page.execute_script(hint, "d")
        if names:
            break
    assert names == ["model", "method", "popularity from", "popularity to", "n", "right", "accuracy"]
    assert re.fullmatch(r"0\.\d{3} \(0\.\d{3} to 0\.\d{3}\)", values[-1])
