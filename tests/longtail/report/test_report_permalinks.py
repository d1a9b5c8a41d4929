"""A link to a figure or section (report.html#latency) in a real browser: its heading is at the top once all is drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from longtail.report.figure import Figure
from longtail.report.figures import FIGURES, SECTIONS
from longtail.report.report import write_report
from tests.longtail.report.browser import element, settle, show
from tests.longtail.report.generated_marts import World, write_marts

pytestmark = pytest.mark.xdist_group("report_browser")

SMALL = World(
    ["d"], ["p"], ["a", "b"], ["closed_book", "bm25"], ["r"], empty=frozenset({"fct_retrieval_recall"})
)
TARGETS = (
    *((section.key, section.key) for section in SECTIONS),
    *((section.key, figure.key) for section in SECTIONS for figure in section.figures),
    (SECTIONS[-1].key, "provenance"),
)
"""Every permalink, behind the section that it belongs to."""
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


class Reports:
    """Reports of one small warehouse, each with the figures that a test wants."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.warehouse = folder, write_marts(folder / "warehouse.duckdb", SMALL)

    def of(self, name: str, figures: Sequence[Figure]) -> Path:
        path = self.folder / f"{name}.html"
        return path if path.exists() else write_report(self.warehouse, path, figures=figures).path

    def whole(self) -> Path:
        return self.of("report", FIGURES)

    def section(self, key: str) -> Path:
        """The main chart and one section, with tables for charts: a page that grows, and that is drawn soon."""
        figures = next((section.figures for section in SECTIONS if section.key == key), ())
        return self.of(key, [FIGURES[0], *(replace(figure, spec=None) for figure in figures[1:])])


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Reports:
    return Reports(tmp_path_factory.mktemp("permalinks"))


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


def test_permalinks_open_at_their_headings(driver: Any, reports: Reports) -> None:
    """The last one of each section, which has the most above it."""
    lost = []
    for at, (section, target) in enumerate(dict(TARGETS).items()):
        width = NARROW if at % 4 == 0 else WIDE
        open_at(driver, reports.section(section), target, width)
        if not is_at_its_top(driver):
            lost.append((target, width, driver.execute_script(PLACE)))
    assert lost == []


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
    driver: Any, reports: Reports, target: str, width: int, medium: str
) -> None:
    open_at(driver, reports.whole(), target, width, medium)
    assert is_at_its_top(driver), driver.execute_script(PLACE)


def test_a_figure_that_cannot_be_drawn_is_told_and_the_others_are_drawn(
    driver: Any, reports: Reports
) -> None:
    first, second, *rest = (figure for figure in SECTIONS[1].figures + SECTIONS[2].figures if figure.spec)
    assert first.spec is not None
    no_chart = replace(first, spec={**first.spec, "spec": {}, "facet": {"header": {}}, "layer": 7})
    no_text = replace(second, cards="quotes", spec=None, sql="select 1 as span_starts from marts.dim_models")
    open_at(driver, reports.of("broken", [no_chart, no_text, *rest]), rest[-1].key)
    assert is_at_its_top(driver), driver.execute_script(PLACE)
    for broken in (no_chart, no_text):
        assert "could not be drawn" in element(driver, f"#{broken.key}").text
    assert element(driver, f"#{rest[-1].key} svg")
    assert driver.get_log("browser") != []


@pytest.fixture
def paused(driver: Any, reports: Reports) -> Iterator[Any]:
    """The browser at #audit, before the figures above it are drawn."""
    added = driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": PAUSE})
    driver.get("about:blank")
    show(driver, reports.whole(), WIDE, motion="no-preference", target="audit", settles=False)
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


def test_no_id_repeats_and_every_reference_has_its_target(driver: Any, reports: Reports) -> None:
    show(driver, reports.whole())
    ids = driver.execute_script("return [...document.querySelectorAll('[id]')].map((e) => e.id)")
    assert sorted(ids) == sorted(set(ids))
    assert {target for _, target in TARGETS} <= set(ids)
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
