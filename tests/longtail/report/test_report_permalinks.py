"""A link to a figure or section (report.html#latency) in a real browser: its heading is at the top once all is drawn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from longtail.report.figures import FIGURES, SECTIONS
from longtail.report.report import write_report
from tests.longtail.report.browser import element, settle, show
from tests.longtail.report.generated_marts import World, write_marts

pytestmark = pytest.mark.xdist_group("report_browser")

SMALL = World(
    ["d"], ["p"], ["a", "b"], ["closed_book", "bm25"], ["r"], empty=frozenset({"fct_retrieval_recall"})
)
TARGETS = {section.key for section in SECTIONS} | {figure.key for figure in FIGURES} | {"provenance"}
"""Every permalink."""
WIDE, NARROW = 1400, 400
PLACE = """
    const target = document.getElementById(location.hash.slice(1));
    const heading = target.querySelector(":scope > h2:not(.unseen), :scope > .head h3") || target;
    const bar = document.querySelector(".bar"), style = getComputedStyle(bar);
    const covered = style.position === "sticky" && style.display !== "none" ? bar.offsetHeight : 0;
    const atEnd = scrollY + innerHeight >= document.documentElement.scrollHeight - 1;
    return [heading.getBoundingClientRect().top - covered, atEnd];
"""
PAUSE = """
    const idle = requestIdleCallback, waiting = [];
    window.requestIdleCallback = (then) => waiting.push(then);
    window.goOn = () => { window.requestIdleCallback = idle; waiting.forEach((then) => idle(then)); };
"""
"""The page draws only what is near the screen until a test calls `goOn`, as on a slow machine."""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a small warehouse, which lies beside it."""
    warehouse = write_marts(tmp_path_factory.mktemp("permalinks") / "warehouse.duckdb", SMALL)
    return write_report(warehouse, warehouse.with_name("report.html")).path


def open_at(driver: Any, page: Path, target: str, width: int = WIDE, medium: str = "") -> None:
    """Open the page anew at a target, with the browser's smooth scrolling, as most readers have it."""
    driver.get("about:blank")
    show(driver, page, width, medium=medium, motion="no-preference", target=target, opens="")


def is_at_its_top(driver: Any) -> bool:
    from selenium.common.exceptions import TimeoutException
    from selenium.webdriver.support.ui import WebDriverWait

    def found(_: Any) -> bool:
        top, at_end = driver.execute_script(PLACE)
        return bool(0 <= top <= (800 if at_end else 60))

    try:  # a scroll that the browser itself began may still be on its way
        return bool(WebDriverWait(driver, 5, poll_frequency=0.1).until(found))
    except TimeoutException:
        return False


@pytest.mark.parametrize(
    ("target", "width", "medium"),
    [
        ("adaptive_thresholds", WIDE, ""),
        ("adaptive_thresholds", NARROW, ""),
        ("cost", 560, ""),  # the bar has two lines
        ("audit", WIDE, "print"),
    ],
)
def test_a_permalink_stays_while_charts_are_drawn_above_it(
    driver: Any, report: Path, target: str, width: int, medium: str
) -> None:
    open_at(driver, report, target, width, medium)
    assert is_at_its_top(driver), driver.execute_script(PLACE)


def test_a_figure_that_cannot_be_drawn_is_told_and_the_others_are_drawn(
    driver: Any, report: Path, tmp_path: Path
) -> None:
    first, second, *rest = (figure for figure in SECTIONS[1].figures + SECTIONS[2].figures if figure.spec)
    assert first.spec is not None
    no_chart = replace(first, spec={**first.spec, "spec": {}, "facet": {"header": {}}, "layer": 7})
    no_text = replace(second, cards="quotes", spec=None, sql="select 1 as span_starts from marts.dim_models")
    figures = [no_chart, no_text, *rest]
    broken_report = write_report(
        report.with_name("warehouse.duckdb"), tmp_path / "report.html", figures=figures
    )
    open_at(driver, broken_report.path, rest[-1].key)
    assert is_at_its_top(driver), driver.execute_script(PLACE)
    for broken in (no_chart, no_text):
        assert "could not be drawn" in element(driver, f"#{broken.key}").text
    assert element(driver, f"#{rest[-1].key} svg")
    assert driver.get_log("browser") != []


@pytest.fixture
def paused(driver: Any, report: Path) -> Iterator[Any]:
    """The browser at #audit, before the figures above it are drawn."""
    added = driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": PAUSE})
    driver.get("about:blank")
    show(driver, report, WIDE, motion="no-preference", target="audit", settles=False)
    assert is_at_its_top(driver), driver.execute_script(PLACE)
    yield driver
    driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)


def test_a_reader_who_scrolls_meanwhile_is_not_pulled_back(paused: Any) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    ActionChains(paused).scroll_by_amount(0, -400).perform()
    paused.execute_script("goOn()")
    settle(paused)
    top, _ = paused.execute_script(PLACE)
    assert 200 < top < 600


def test_a_link_that_is_followed_meanwhile_holds_as_well(paused: Any) -> None:
    paused.execute_script("document.querySelector('.contents a[href=\"#costs\"]').click(); goOn()")
    settle(paused)
    assert paused.execute_script("return location.hash") == "#costs"
    assert is_at_its_top(paused), paused.execute_script(PLACE)


def test_no_id_repeats_and_every_reference_has_its_target(driver: Any, report: Path) -> None:
    show(driver, report)
    ids = driver.execute_script("return [...document.querySelectorAll('[id]')].map((e) => e.id)")
    assert sorted(ids) == sorted(set(ids))
    assert set(ids) >= TARGETS
    references = driver.execute_script(
        "const found = [];"
        "for (const node of document.querySelectorAll('*')) for (const { name, value } of node.attributes) {"
        "  if (name === 'for' || name.startsWith('aria-') && /by$|controls$/.test(name)) found.push(...value.split(' '));"
        "  if (name.endsWith('href') && value.startsWith('#')) found.push(value.slice(1));"
        "  for (const [, id] of value.matchAll(/url\\([\"']?#([^\"')]+)/g)) found.push(id);"
        "} return found"
    )
    assert len(references) > len(FIGURES)
    assert set(references) <= set(ids)
