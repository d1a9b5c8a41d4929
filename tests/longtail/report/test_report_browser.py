"""The report in a real browser, from disk: no error, no network, no label that becomes markup; pickers, keys, print."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import duckdb
import pytest

from longtail.report.figure import ROLES, fit, resolve
from longtail.report.figures import FIGURES
from longtail.report.page import columnar
from longtail.report.published import list_tables, read_dimensions, read_figure
from longtail.report.report import write_report
from longtail.warehouse.publication import open_publication
from tests.longtail.report.browser import again, element, press, settle, show, shown
from tests.longtail.report.generated_marts import World, write_marts

pytestmark = pytest.mark.xdist_group("report_browser")

MARKUP = "</script><img src=x onerror=window.pwned=1>"
HOSTILE = World(
    datasets=["d"],
    prompts=["p"],
    models=["plain", MARKUP, "__proto__"],
    methods=["closed_book", "'\"\\ datum['n'] + 1", "\u202eעברית 👩‍🚀"],
    relations=["{{constructor}} <b>bold</b>", "Nun\x00Mark\u2028next", "var(--ink)"],
    texts=["<svg onload=window.pwned=2>", "javascript:window.pwned=3", "=HYPERLINK(1)", "العربية\u202e"],
    study=MARKUP,
)
PageWith = Callable[[str], Any]
PAGE_SCRIPTS = Path(write_report.__code__.co_filename).parent / "page"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A warehouse full of hostile labels, and its report."""
    folder = tmp_path_factory.mktemp("hostile")
    warehouse = write_marts(folder / "warehouse.duckdb", HOSTILE)
    return warehouse, write_report(warehouse, folder / "report.html").path


@pytest.fixture
def page(driver: Any, hostile: tuple[Path, Path]) -> Any:
    """The page with all chapters open, for tests that only read it: it stays until another test opens a page."""
    if not driver.execute_script("return window.isOnlyRead"):
        show(driver, hostile[1])
        driver.execute_script("window.isOnlyRead = true")
    return driver


@pytest.fixture
def page_with(driver: Any, hostile: tuple[Path, Path]) -> PageWith:
    """The page anew, with those chapters open that have what a selector names."""

    def at(selector: str) -> Any:
        show(driver, hostile[1], opens=selector)
        return driver

    return at


def test_it_opens_without_a_word_on_the_console_and_asks_nobody(page: Any) -> None:
    assert page.get_log("browser") == []
    assert page.execute_script("return performance.getEntriesByType('resource').length") == 0


def test_every_figure_is_drawn(page: Any) -> None:
    empty = page.execute_script(
        "return [...document.querySelectorAll('figure.of-chart:not(.missing)')]"
        ".filter((f) => !f.querySelector('svg .mark-symbol path, svg .mark-rect path, svg .mark-line path'))"
        ".map((f) => f.id)"
    )
    assert empty == []
    assert page.execute_script("return document.querySelectorAll('figure.of-chart svg').length") > 15


def test_labels_are_text(page: Any) -> None:
    assert page.execute_script("return window.pwned") is None
    assert page.execute_script("return document.querySelectorAll('img, b, iframe, object').length") == 0
    assert page.execute_script("return document.scripts.length") == 3
    text = page.execute_script("return document.body.textContent")
    for label in (
        MARKUP,
        "__proto__",
        "{{constructor}} <b>bold</b>",
        "Nun\ufffdMark",
        "\u202eעברית 👩‍🚀",
        "<svg onload",
    ):
        assert label in text, label
    assert page.title.startswith(MARKUP)
    axis = page.execute_script("return document.querySelector('#accuracy_by_relation svg').textContent")
    assert "{{constructor}} <b>bo" in axis
    assert MARKUP[:15] in axis


def test_tooltips_are_text(page_with: PageWith) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    page = page_with("#accuracy_by_method")
    page.execute_script("document.querySelector('#accuracy_by_method').scrollIntoView({block: 'center'})")
    seen = []
    for mark in page.find_elements("css selector", "#accuracy_by_method .mark-symbol path")[:9]:
        ActionChains(page).move_to_element(mark).perform()
        seen.append(page.execute_script("return document.querySelector('.hint').textContent"))
    assert any(MARKUP in text for text in seen)
    parts = "return [...document.querySelectorAll('.hint d' + arguments[0])].map((e) => e.textContent)"
    assert page.execute_script(parts, "t") == ["model", "method", "n", "right", "accuracy"]
    assert re.fullmatch(r"0\.\d{3} \(0\.\d{3} to 0\.\d{3}\)", page.execute_script(parts, "d")[-1])
    tags = page.execute_script(
        "return [...new Set([...document.querySelectorAll('.hint *')].map((e) => e.tagName))]"
    )
    assert set(tags) == {"DL", "DT", "DD", "BDI"}
    assert page.execute_script("return window.pwned") is None


def test_points_rows_and_examples_lead_to_their_answers(page_with: PageWith) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    page = page_with("#headline, #misled_by_a_passage, #retrieval_quadrants")

    def chosen(address: str) -> dict[str, list[str]]:
        parts = urlsplit(address)
        assert parts.path.endswith("answers.html")
        return parse_qs(parts.query)

    rows = "return [...document.querySelectorAll('#headline tbody a')].map((e) => [e.href, e.closest('tr').textContent])"
    for address, text in page.execute_script(rows):
        asked = chosen(address)
        assert set(asked) == {"dataset", "prompt", "model", "method"}
        assert asked["model"][0] in text
        assert asked["method"][0] in text
    example = chosen(element(page, "#misled_by_a_passage .example a").get_attribute("href"))
    assert len(json.loads(example["open"][0])) == 5
    page.execute_script("document.querySelector('#retrieval_quadrants').scrollIntoView({block: 'center'})")
    cell = element(page, "#retrieval_quadrants .mark-rect path")
    ActionChains(page).move_to_element(cell).click().perform()
    asked = chosen(page.current_url)
    assert asked["with"] == [HOSTILE.methods[0]]
    assert asked["outcome"][0] in ("both right", "neither right", "rescued", "misled")
    assert asked["model"][0] in {*HOSTILE.models, "__proto__\u200b"}


def test_the_policy_holds_in_this_browser(page_with: PageWith) -> None:
    page = page_with("")
    run = (
        "const s = document.createElement('script'); s.textContent = 'window.pwned = 4'; document.body.append(s);"
        "s.remove(); const d = document.createElement('div'); d.innerHTML = '<img src=x onerror=\"window.pwned=5\">';"
        "document.body.append(d); d.remove(); return window.pwned || null"
    )
    assert page.execute_script(run) is None
    assert any("Content Security Policy" in line["message"] for line in page.get_log("browser"))


def test_models_are_picked_by_keyboard_for_all_figures(page_with: PageWith) -> None:
    from selenium.webdriver.common.keys import Keys

    page = page_with("#headline")
    summary = page.find_elements("css selector", ".bar details.pick summary")[0]
    summary.send_keys(Keys.ENTER)
    box = element(page, ".bar details.pick input[value='plain']")
    again(page)
    box.send_keys(Keys.SPACE)
    settle(page)
    assert summary.text.split() == ["Models:", "2", "of", "3"]
    cells = page.execute_script(
        "return [...document.querySelectorAll('#headline td:first-child')].map((c) => c.textContent)"
    )
    assert set(cells) == {MARKUP, "__proto__\u200b"}
    panels = page.execute_script("return document.querySelector('#accuracy_by_popularity svg').textContent")
    assert "plain" not in panels
    assert MARKUP[:15] in panels
    box.send_keys(Keys.ESCAPE)
    assert page.execute_script("return document.activeElement.tagName") == "SUMMARY"
    assert not page.execute_script("return document.querySelector('.bar details.pick').open")


def test_a_table_is_sorted_by_keyboard(page_with: PageWith) -> None:
    from selenium.webdriver.common.keys import Keys

    page = page_with("#headline")
    button = page.find_elements("css selector", "#headline th button")[3]
    assert button.text == "accuracy"
    button.send_keys(Keys.ENTER)
    read = (
        "return [...document.querySelectorAll('#headline tbody tr')]"
        ".map((r) => parseFloat(r.children[3].firstChild.textContent)).filter((x) => !isNaN(x))"
    )
    down = page.execute_script(read)
    assert len(down) > 3
    assert down == sorted(down, reverse=True)
    button.send_keys(Keys.ENTER)
    assert page.execute_script(read) == down[::-1]
    assert (
        page.execute_script("return document.querySelector('#headline th[aria-sort=ascending]').textContent")
        == "accuracy"
    )


def test_tables_and_queries_stand_behind_the_figures(page_with: PageWith, hostile: tuple[Path, Path]) -> None:
    from selenium.webdriver.common.keys import Keys

    page = page_with("#accuracy_by_relation")
    table, query = page.find_elements("css selector", "#accuracy_by_relation .behind summary")
    table.send_keys(Keys.ENTER)
    more = shown(page, "#accuracy_by_relation .behind .scroll + button.plain")
    count = "return document.querySelectorAll('#accuracy_by_relation tbody tr').length"
    assert page.execute_script(count) == 10
    more.click()
    query.send_keys(Keys.ENTER)
    settle(page)
    sql = element(page, "#accuracy_by_relation pre code").text
    with duckdb.connect(str(hostile[0]), read_only=True) as connection:
        expected = len(connection.execute(sql).fetchall())
    assert page.execute_script(count) == expected
    assert " to " in element(page, "#accuracy_by_relation td .interval").text


def test_everything_that_can_be_operated_has_a_name_and_takes_the_focus(page: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    nameless = page.execute_script(
        "return [...document.querySelectorAll('button, select, input, summary, a, [tabindex=\"0\"]')].filter((e) => "
        "!(e.textContent.trim() || e.getAttribute('aria-label') || e.labels?.length)).map((e) => e.outerHTML)"
    )
    assert nameless == []
    untitled = page.execute_script(
        "return [...document.querySelectorAll('figure')].filter((f) => "
        "!document.getElementById(f.getAttribute('aria-labelledby'))?.textContent).map((f) => f.id)"
    )
    assert untitled == []
    page.execute_script("document.activeElement.blur(); window.scrollTo(0, 0)")
    press(page, Keys.TAB)
    assert page.execute_script("return document.activeElement.className") == "skip"
    outline = page.execute_script("return getComputedStyle(document.activeElement).outlineStyle")
    assert outline != "none"
    press(page, Keys.ENTER)
    assert page.execute_script("return document.activeElement.id") == "main"
    charts = page.execute_script(
        "return [...document.querySelectorAll('.chart')].every((c) => c.getAttribute('role') === 'img' && "
        "c.getAttribute('aria-label').length > 40)"
    )
    assert charts


def test_the_theme_follows_the_system(driver: Any, hostile: tuple[Path, Path]) -> None:
    grounds = set()
    for scheme in ("light", "dark"):
        show(driver, hostile[1], scheme=scheme, opens="")
        grounds.add(driver.execute_script("return getComputedStyle(document.body).backgroundColor"))
    assert len(grounds) == 2


def test_print_is_light_and_without_controls(driver: Any, hostile: tuple[Path, Path]) -> None:
    show(driver, hostile[1], scheme="dark", medium="print", opens="#headline")
    assert (
        driver.execute_script("return getComputedStyle(document.body).backgroundColor")
        == "rgb(247, 247, 244)"
    )
    shown = driver.execute_script(
        "return ['.bar', '.contents', '.behind', '.chart svg'].map((s) => "
        "getComputedStyle(document.querySelector(s)).display)"
    )
    assert shown[:3] == ["none"] * 3
    assert "none" not in shown[3:]
    notes = driver.execute_script(
        "return [...document.querySelectorAll('.plain[data-printed]')].map((button) => "
        "[getComputedStyle(button).fontSize, getComputedStyle(button, '::after').content])"
    )
    assert {size for size, _ in notes} == {"0px"}
    assert all(re.fullmatch(r'"(10 of [\d,]+ rows)?"', content) for _, content in notes)


@pytest.mark.parametrize("width", [400, 700, 1300, 2000])
def test_nothing_is_wider_than_the_screen(driver: Any, hostile: tuple[Path, Path], width: int) -> None:
    show(driver, hostile[1], width=width)
    assert driver.execute_script("return document.documentElement.scrollWidth") <= width
    cut = driver.execute_script(
        "return [...document.querySelectorAll('.chart')].filter((c) => c.scrollWidth > c.clientWidth + 1)"
        ".map((c) => [c.parentElement.id, c.scrollWidth, c.clientWidth])"
    )
    assert cut == []


def test_the_browser_lays_charts_out_as_the_pictures_are(driver: Any, hostile: tuple[Path, Path]) -> None:
    """`page/chart.js` and `figure.py` are one rule in two languages."""
    sources = "\n".join(
        (PAGE_SCRIPTS / f"{name}.js").read_text(encoding="utf-8") for name in ("data", "chart")
    )
    with open_publication(hostile[0]) as connection:
        tables, dimensions = list_tables(connection), read_dimensions(connection)
        read = [read_figure(connection, figure, tables) for figure in FIGURES if figure.spec]
    driver.get("about:blank")
    payload = {"dimensions": vars(dimensions), "roles": ROLES}
    call = (
        "const node = document.createElement('script'); node.type = 'application/json'; node.id = 'longtail-data';"
        "node.textContent = arguments[0]; document.head.append(node);" + sources +
        "return JSON.stringify(JSON.parse(arguments[1]).map(([spec, data]) => {"
        "const rows = rowsOf({data}); return [400, 960].map((w) => fit(resolve(spec, rows), rows, w)); }))"
    )  # fmt: skip
    shown = [one for one in read if one.rows]
    given = [[one.figure.spec, columnar(one)] for one in shown]
    done = json.loads(driver.execute_script(call, json.dumps(payload), json.dumps(given)))
    for one, layouts in zip(shown, done, strict=True):
        for width, layout in zip((400, 960), layouts, strict=True):
            ours = fit(resolve(one.figure.spec, one.rows, dimensions), one.rows, width)
            assert layout == json.loads(json.dumps(ours)), one.figure.key
