"""The story of the report: a sentence on what to do, chapters that open, an address that keeps what is picked, files."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import duckdb
import pytest

from longtail.report.report import write_report
from tests.longtail.report.browser import again, element, settle, show, shown
from tests.longtail.report.generated_marts import World, write_marts

pytestmark = pytest.mark.xdist_group("report_browser")

METHODS = ["closed_book", "bm25", "oracle"]
PAIR = {"parametric_method": ["closed_book"], "retrieval_method": ["bm25", "oracle"]}
FLAGS = """
    update marts.dim_datasets set popularity_name = null;
    update marts.dim_methods set is_parametric = method = 'closed_book', is_bound = method = 'oracle',
        is_condition = false, kind = if(method = 'closed_book', 'memory', 'retrieval');
    update marts.fct_verdicts set verdict = 'gains nothing', popularity_gain = -0.01, popularity_gain_ci_low = -0.02,
        popularity_gain_ci_high = 0.01, popularity_policy = 'popularity_per_relation',
        best_signal_verdict = 'gains nothing';
    update marts.fct_verdicts set verdict = 'gains', popularity_gain = 0.5, popularity_gain_ci_low = 0.4,
        popularity_gain_ci_high = 0.6
    where retrieval_method = 'oracle';
"""
"""An upper bound gains most; the report does not rank it."""
WORLD = World(
    ["d"], ["p1", "p2"], ["a", "b", "c"], METHODS, ["r"], keys=PAIR, empty=frozenset({"fct_retrieval_recall"})
)
THRESHOLD = """
    update marts.fct_adaptive_thresholds set decision = 'below', threshold_popularity = 4899;
    update marts.fct_verdicts set verdict = 'gains', popularity_gain = 0.0588, popularity_gain_ci_low = 0.0471,
        popularity_gain_ci_high = 0.0712, popularity_policy = 'popularity'
    where retrieval_method = 'bm25' and model = 'b';
    update marts.fct_policies set policy = 'popularity', n = 1234 where retrieval_method = 'bm25' and model = 'b';
"""
BY_RELATION = """
    update marts.fct_verdicts set popularity_policy = 'popularity_per_relation';
    update marts.fct_adaptive_thresholds set threshold_popularity = if(relation = 'all', 4899, 312);
"""
REAL = """
    update marts.dim_models set path = 'org/a' where model = 'a';
    update marts.fct_verdicts set verdict = 'gains', popularity_gain = 0.02, popularity_gain_ci_low = 0.01,
        popularity_gain_ci_high = 0.03, popularity_policy = 'popularity'
    where retrieval_method = 'bm25' and model = 'a';
"""
ALWAYS = """
    update marts.fct_method_comparisons set difference = -0.3, ci_low = -0.35, ci_high = -0.25, n = 99;
"""


@pytest.fixture(scope="module")
def marts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_marts(tmp_path_factory.mktemp("marts") / "warehouse.duckdb", WORLD)


def written(marts: Path, folder: Path, sql: str) -> Path:
    warehouse = shutil.copyfile(marts, folder / "warehouse.duckdb")
    with duckdb.connect(str(warehouse)) as connection:
        connection.execute(FLAGS + sql)
    return write_report(warehouse, folder / "report.html").path


@pytest.fixture(scope="module")
def report(marts: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(marts, tmp_path_factory.mktemp("story"), THRESHOLD)


@pytest.mark.parametrize(
    ("sql", "finding", "means"),
    [
        (
            THRESHOLD,
            "b: below about 4,900 monthly page views of the subject, look it up: +5.9 points [4.7, 7.1]",
            "Held-out accuracy with one threshold, fitted by exact search, over the better of always and never reading a "
            "passage (bm25), with the 95 % interval; n = 1,234.",
        ),
        (
            THRESHOLD + BY_RELATION,
            "b: look up what is below the threshold of its relation (about 310 monthly page views of the subject): "
            "+5.9 points [4.7, 7.1]",
            "Held-out accuracy with a threshold for each relation, fitted by exact search, over the better of always",
        ),
        (
            THRESHOLD + REAL,
            "a: below about 4,900 monthly page views of the subject, look it up: +2.0 points [1.0, 3.0]",
            "Other models: b: below about 4,900, look it up: +5.9 points [4.7, 7.1]",
        ),
        (
            ALWAYS,
            "a: look everything up: +30.0 points [25.0, 35.0]",
            "with a passage (bm25) minus accuracy from memory, with the 95 % interval; n = 99.",
        ),
    ],
    ids=["threshold", "by relation", "a real model leads", "always"],
)
def test_a_sentence_says_what_to_do(
    driver: Any, marts: Path, tmp_path: Path, sql: str, finding: str, means: str
) -> None:
    show(driver, written(marts, tmp_path, sql), settles=False, opens="")
    assert element(driver, ".finding").text == finding
    assert means in element(driver, ".means").text


def test_chapters_with_results_are_open_and_the_others_are_drawn_when_they_open(
    driver: Any, report: Path
) -> None:
    show(driver, report, opens=None)
    folded = "return [...document.querySelectorAll('.chapter:not([open])')].map((c) => c.parentElement.id)"
    assert driver.execute_script(folded) == ["costs", "questions", "audit", "provenance"]
    first = "return document.querySelector('main figure').id"
    assert driver.execute_script(first) == "accuracy_by_popularity"
    drawn = "return [...document.querySelectorAll(arguments[0])].filter((c) => c.querySelector('svg')).length"
    assert driver.execute_script(drawn, "section > .card.of-chart") >= 4
    assert driver.execute_script(drawn, ".chapter:not([open]) .of-chart") == 0
    again(driver)
    driver.execute_script("document.querySelector('.contents a[href=\"#costs\"]').click()")
    settle(driver)
    assert element(driver, "#latency svg")
    still_folded = ["questions", "audit", "provenance"]
    assert driver.execute_script(folded) == still_folded
    driver.execute_cdp_cmd("Page.printToPDF", {})
    charts = driver.execute_script("return document.querySelectorAll('.chapter .of-chart').length")
    assert driver.execute_script(drawn, ".chapter .of-chart") == charts > 10
    assert driver.execute_script(folded) == still_folded


def test_a_study_without_a_figure_of_its_overview_opens_its_chapters(
    driver: Any, marts: Path, tmp_path: Path
) -> None:
    gone = "delete from marts.fct_accuracy_by_popularity; delete from marts.fct_popularity_correlation"
    without = written(marts, tmp_path, gone)
    show(driver, without, settles=False, opens=None)
    for box in driver.find_elements("css selector", ".chapter:not(#provenance *)"):
        assert box.get_attribute("open")


def test_figures_that_a_study_does_not_have_are_one_folded_line(driver: Any, report: Path) -> None:
    show(driver, report, opens="", settles=False)
    line = element(driver, "details.absent")
    assert line.text == "Figures that this study does not have (4)"  # three are for several data sets
    assert "has no rows" in element(driver, "li#retrieval_recall").get_attribute("textContent")
    driver.get("about:blank")
    show(driver, report, target="retrieval_recall", opens="", settles=False)
    assert element(driver, "li#retrieval_recall").is_displayed()


def test_the_address_keeps_what_is_picked(driver: Any, report: Path) -> None:
    from selenium.webdriver.support.ui import Select

    show(driver, report, opens="")
    again(driver)
    Select(element(driver, "#pick-prompt")).select_by_value("p2")
    settle(driver)
    element(driver, ".bar details.pick summary").click()
    again(driver)
    shown(driver, ".bar input[value='a']").click()
    settle(driver)
    Select(element(driver, "#misled_by_a_passage-model")).select_by_value("c")
    address = driver.execute_script("return location.search")
    assert address == "?prompt=p2&model=b&model=c&misled_by_a_passage.model=c"
    driver.get("about:blank")
    show(driver, report, query=address[1:], target="adaptive_gain", opens="")
    assert element(driver, "#pick-prompt").get_attribute("value") == "p2"
    assert element(driver, ".bar details.pick summary").text.split() == ["Models:", "2", "of", "3"]
    assert element(driver, "#misled_by_a_passage-model").get_attribute("value") == "c"
    axes = driver.execute_script(
        "return [...document.querySelectorAll('#adaptive_gain .role-axis-label text')].map((t) => t.textContent)"
    )
    assert {axis.split(",")[0] for axis in axes if "," in axis} == {"b", "c"}
    show(driver, report, query="model=gone&prompt=gone", opens="", settles=False)
    assert element(driver, ".bar details.pick summary").text.split() == ["Models:", "all", "3"]
    assert element(driver, "#pick-prompt").get_attribute("value") == "p1"


def test_the_contents_mark_where_the_reader_is(driver: Any, report: Path) -> None:
    show(driver, report, opens="")
    driver.execute_script("document.querySelector('#thresholds').scrollIntoView()")
    here = shown(driver, ".contents a[href='#thresholds'][aria-current=location]")
    assert here.text == "Below which popularity to retrieve"
    marked = "return document.querySelectorAll('.contents [aria-current=location]').length"
    assert driver.execute_script(marked) == 1


def test_saved_charts_say_what_they_show(driver: Any, report: Path) -> None:
    show(driver, report, opens="")
    driver.execute_script(
        "window.saved = []; const kept = URL.createObjectURL;"
        "URL.createObjectURL = (blob) => { saved.push(blob); return kept(blob); };"
        "HTMLAnchorElement.prototype.click = function () { this.dataset.saved = this.download; };"
    )
    driver.execute_script(
        "for (const b of document.querySelectorAll('#adaptive_gain .behind button'))"
        "  if (/PNG|SVG/.test(b.textContent)) b.click()"
    )
    read = """
        const done = arguments[0];
        const wait = async () => {
            if (saved.length < 2) return setTimeout(wait, 50);
            const svg = saved.find((blob) => blob.type === "image/svg+xml"), png = saved.find((blob) => blob !== svg);
            const root = new DOMParser().parseFromString(await svg.text(), svg.type).documentElement;
            const size = (await createImageBitmap(png)).width;
            done([root.textContent, (await svg.text()).includes("var("), size / root.getAttribute("width")]);
        };
        wait();
    """
    text, is_unpainted, scale = driver.execute_async_script(read)
    for words in (
        "What deciding when to retrieve gains",
        "a, b, c",
        "generated, published 20",
        "closed_book",
    ):
        assert words in text
    assert (is_unpainted, scale) == (False, 2)


ELSEWHERE = """
    update marts.fct_verdicts set verdict = 'gains', popularity_gain = 0.0512, popularity_gain_ci_low = 0.03837,
        popularity_gain_ci_high = 0.06396
    where retrieval_method = 'bm25' and model = 'b';
    update marts.fct_verdicts set best_signal_auroc = 0.8, popularity_auroc = 0.7;
    update marts.fct_verdicts set verdict = 'not known: no passages', popularity_gain = null where dataset = 'd';
    delete from marts.fct_retrieval_quadrants where dataset = 'd';
    delete from marts.fct_latency;
    delete from marts.fct_costs where dataset = 'd';
"""


@pytest.fixture(scope="module")
def of_two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a study of two data sets, of which the first has no passages."""
    folder = tmp_path_factory.mktemp("two")
    world = World(["d", "e"], ["p"], ["a", "b"], METHODS, ["r"], keys=PAIR)
    return written(write_marts(folder / "two.duckdb", world), folder, ELSEWHERE)


def test_a_study_of_several_data_sets_opens_with_all_verdicts(driver: Any, of_two: Path) -> None:
    show(driver, of_two, opens="")
    assert element(driver, ".finding").text == (
        "Retrieving below a threshold of popularity gains for 1 and gains nothing for 1 of 2 pairs of a model and a data "
        "set."
    )
    means = element(driver, ".means").text
    assert "better than popularity does for 4 of 4 (AUROC 0.80 to 0.80 against 0.70 to 0.70)" in means
    assert "For the other 2 pairs it is not known; the table says why." in means
    first = "return [...document.querySelectorAll('main figure')].slice(0, 2).map((f) => f.id)"
    assert driver.execute_script(first) == ["verdicts", "all_accuracies"]
    rows = "return [...document.querySelectorAll('#verdicts tbody tr')].map((r) => r.textContent)"
    assert [("e" in row[:1], "not known: no passages" in row) for row in driver.execute_script(rows)] == [
        *[(True, False)] * 4,
        *[(False, True)] * 4,
    ]
    assert any("gains +5.1 +3.8 to +6.4" in row for row in driver.execute_script(rows))


def test_figures_without_rows_of_a_selection_fold_into_a_line(driver: Any, of_two: Path) -> None:
    from selenium.webdriver.support.ui import Select

    show(driver, of_two, opens="")
    picker = Select(element(driver, "#pick-dataset"))
    assert picker.first_selected_option.text == "e"
    quadrants = element(driver, "#retrieval_quadrants")
    assert quadrants.is_displayed()
    picker.select_by_value("d")
    assert not quadrants.is_displayed()
    assert element(driver, "#effects > .empty").text == (
        "Nothing to draw: Right or wrong, without and with a passage"
    )
    assert not element(driver, "#costs details").get_attribute("open")
    driver.get("about:blank")
    show(driver, of_two, query="dataset=d", target="retrieval_quadrants", opens="", settles=False)
    assert element(driver, "#effects h2").is_displayed()
