"""`answers.html`: what is packed comes back as it was; in a browser, filters count as SQL does, and labels are text."""

from __future__ import annotations

import base64
import functools
import gzip
import http.server
import json
import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import duckdb
import pytest

from longtail.report import answers
from longtail.report.answers import LONGEST, write_answers
from longtail.report.published import read_dimensions
from longtail.report.report import head
from longtail.warehouse.publication import open_publication
from tests.longtail.report.browser import element, press, show, shown
from tests.longtail.report.generated_marts import World, write_marts
from tests.longtail.report.test_report_browser import MARKUP
from tests.longtail.report.test_report_figures import payload_of

pytestmark = pytest.mark.xdist_group("report_browser")

MODELS, METHODS = ("plain", MARKUP, "__proto__"), ("memory", "'\"\\ {x}", "\u202eעברית 👩‍🚀", "none")
N_QUESTIONS = 2_500
N_ANSWERS = N_QUESTIONS * len(MODELS) * len(METHODS)
KEY = "dataset, question_id, prompt, model, method"
_TABLES = frozenset({"fct_answers", "fct_prompts", "dim_passages", "fct_question_consistency", "dim_methods"})
_ROWS = """with asked as (
    select unnest(range($n)) as i, 'q' || lpad(i::varchar, 5, '0') as question_id
)
select case when i < 2400 then 'd' else 'Nun' || chr(0) || 'Mark' end as dataset, question_id, 'p' as prompt, model,
    method, 'Where is <b>place</b> ' || i || '?' as question, ['the gold of ' || i, 'x'] as gold_answers,
    2.0 ** (i % 11) as subject_popularity,
    case when i % 5 > 0 then 'r' || i % 5 end as relation, ('answer ' || i % 90) || ' of ' || method as prediction,
    (hash(question_id, model, method) % 2)::boolean as is_correct, (i % 101) / 100 as confidence,
    if(i = 7, repeat('long <i>text</i> ', 700000), 'raw' || chr(0) || i) as raw_text, ['s' || i % 50] as passage_ids
from asked cross join (select unnest($models) as model) cross join (select unnest($methods) as method)"""
ROWS_OF_A_PAGE = 100
"""However many answers there are: more would make each change of a filter slow."""
OPENED = json.dumps(["d", "q00007", "p", MARKUP, METHODS[1]], separators=(",", ":"))


def _write_marts(path: Path) -> Path:
    """A published warehouse whose answers follow from their keys. Question 7 has 10 MB in `raw_text`."""
    write_marts(path, World(study=MARKUP, empty=_TABLES, n_questions=2))
    with duckdb.connect(str(path)) as connection:
        values = {"n": N_QUESTIONS, "models": list(MODELS), "methods": list(METHODS)}
        connection.execute(f"insert into marts.fct_answers by name {_ROWS}", values)
        for statement in (
            "insert into marts.dim_methods by name "
            "select distinct method, method = 'memory' as is_parametric from marts.fct_answers",
            f"insert into marts.fct_prompts by name select 'answers' as table_name, {KEY}, "
            "method = 'memory' as is_exact, 'Shown to all.' || chr(10) || chr(10) || question || ' <u>' as prompt_text "
            "from marts.fct_answers where method != 'none'",
            "insert into marts.dim_passages by name select 's' || unnest(range(49)) as passage_id, 'T <img>' as title, "
            "'It says THE GOLD OF 7, javascript:1' as text, 'source' as collection_source",
            "insert into marts.fct_question_consistency by name select distinct dataset, question_id, model, "
            "'other' as prompt, 0.5 as scons from marts.fct_answers where model = 'plain'",
        ):
            connection.execute(statement)
    return path


def write(warehouse: Path, target: Path) -> Path:
    with open_publication(warehouse) as connection:
        return write_answers(connection, head(connection, read_dimensions(connection)), target)


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A warehouse of 30,000 hostile answers, and its page."""
    folder = tmp_path_factory.mktemp("known")
    warehouse = _write_marts(folder / "warehouse.duckdb")
    return warehouse, write(warehouse, folder / "answers.html")


def counted(driver: Any) -> int:
    return int(element(driver, "[role=status]").text.split(" of ")[0].replace(",", ""))


def text_of(driver: Any, selector: str) -> str:
    return str(driver.execute_script("return document.querySelector(arguments[0]).textContent", selector))


def test_a_filter_counts_what_sql_counts_in_less_than_a_tenth_of_a_second(
    driver: Any, known: tuple[Path, Path]
) -> None:
    show(driver, known[1], opens="")
    assert counted(driver) == N_ANSWERS
    assert driver.get_log("browser") == []
    assert driver.execute_script("return performance.getEntriesByType('resource').length") == 0
    compared = (
        "(select is_correct from marts.fct_answers as other where other.method = 'none' and "
        "(other.dataset, other.question_id, other.model) = (answers.dataset, answers.question_id, answers.model))"
    )
    steps = [  # each keeps the filters of those above it
        ("#search", "THE GOLD OF 1", "gold_answers[1] like 'the gold of 1%'"),
        ("#pick-dataset", "d", "dataset = 'd'"),
        ("#pick-relation", "r3", "relation = 'r3'"),
        ("#pick-method", METHODS[1], "method = $method"),
        ("[aria-label='Popularity from']", "4", "subject_popularity >= 4"),
        (
            "[aria-label='Popularity below']",
            "1024",
            "subject_popularity <= 1024",
        ),  # the greatest one belongs to it
        ("[aria-label='Confidence below']", "0.9", "confidence < 0.9"),
        ("#pick-outcome", "wrong", "not is_correct"),
        ("#pick-with", "none", "true"),
        ("#pick-outcome", "misled", compared),
        ("[aria-label='Popularity below']", "512", "subject_popularity < 512"),
        ("[aria-label='Consistency from']", "0.2", "model = 'plain'"),
    ]
    act = (
        "const node = document.querySelector(arguments[0]); node.value = arguments[1];"
        "node.dispatchEvent(new Event(node.tagName === 'SELECT' ? 'change' : 'input'));"
        "return document.querySelectorAll('.found tbody tr').length"
    )
    conditions = []
    with duckdb.connect(str(known[0]), read_only=True) as connection:
        for selector, value, condition in steps:
            assert driver.execute_script(act, selector, value) <= ROWS_OF_A_PAGE, selector
            conditions.append(condition)
            where = " and ".join(("$method = $method", *conditions))
            sql = f"select count(*) from marts.fct_answers as answers where {where}"
            expected = connection.execute(sql, {"method": METHODS[1]}).fetchone()
            assert (counted(driver),) == expected, selector
    assert 0 < counted(driver) < 100
    address = driver.current_url
    driver.get("about:blank")
    driver.get(address)
    assert (counted(driver),) == expected
    assert element(driver, "#pick-relation").get_attribute("value") == "r3"


def test_an_answer_opens_with_all_that_is_known_and_its_labels_are_text(
    driver: Any, known: tuple[Path, Path]
) -> None:
    show(driver, known[1], opens="", query=urlencode({"open": OPENED}))
    shown(driver, ".opened h2")
    assert text_of(driver, "#opened") == "Where is <b>place</b> 7?"
    content = text_of(driver, ".opened")
    for text in ("Shown to all.\n\nWhere is <b>place</b> 7? <u>", "T <img> — It says THE GOLD OF 7, javascript:1",
                 "s7 · source", "its hash differs",
                 "Cut after 20,000 of 11,900,000 characters. All of it: select raw_text from fct_answers"):  # fmt: skip
        assert text in content
    assert text_of(driver, ".opened blockquote mark") == "THE GOLD OF 7"
    cells = driver.execute_script(
        "return [...document.querySelectorAll('.beside td a')].map((e) => e.textContent)"
    )
    assert cells == [f"answer 7 of {method}" for _ in range(3) for method in ("memory", *sorted(METHODS[1:]))]
    heads = driver.execute_script(
        "return [...document.querySelectorAll('.beside tbody th')].map((e) => e.textContent)"
    )
    assert set(heads) == {"plain", MARKUP, "__proto__\u200b"}
    assert driver.execute_script("return document.querySelectorAll('img, b, i, u').length") == 0
    assert driver.execute_script("return window.pwned") is None
    assert driver.execute_script("return document.scripts.length") == 2
    assert driver.title == f"Answers · {MARKUP}"
    element(driver, ".beside tbody tr:nth-child(1) a").click()
    shown(driver, ".opened [aria-current]")
    assert "open=" in driver.current_url
    assert driver.execute_script("return document.activeElement.id") == "opened"
    assert driver.get_log("browser") == []


def test_keys_go_through_the_list_and_turn_its_page(driver: Any, known: tuple[Path, Path]) -> None:
    from selenium.webdriver.common.keys import Keys

    show(driver, known[1], opens="")
    row = "return [...document.querySelectorAll('.found tbody tr')].indexOf(document.activeElement.closest('tr'))"
    press(driver, "/", "</b> 24")
    assert element(driver, "#search").get_attribute("value") == "</b> 24"
    press(driver, Keys.ARROW_DOWN)
    assert driver.execute_script(row) == 0
    press(driver, *[Keys.ARROW_DOWN] * 50)
    assert driver.execute_script(row) == 0
    assert "51 to 100 shown" in element(driver, "[role=status]").text
    press(driver, Keys.ARROW_UP)
    assert driver.execute_script(row) == 49
    assert "1 to 50 shown" in element(driver, "[role=status]").text
    press(driver, Keys.ENTER)
    shown(driver, ".opened h2")
    assert driver.execute_script("return document.activeElement.id") == "opened"
    press(driver, Keys.ESCAPE)
    assert driver.execute_script(row) == 49
    assert "open=" not in driver.current_url
    nameless = driver.execute_script(
        "return [...document.querySelectorAll('button, select, input, summary, a, [tabindex=\"0\"]')].filter((e) => "
        "!(e.textContent.trim() || e.getAttribute('aria-label') || e.labels?.length)).map((e) => e.outerHTML)"
    )
    assert nameless == []


@pytest.mark.parametrize("width", [400, 1400])
def test_nothing_is_wider_than_the_screen(driver: Any, known: tuple[Path, Path], width: int) -> None:
    show(driver, known[1], width=width, opens="", query=urlencode({"open": OPENED}))
    shown(driver, ".opened h2")
    assert driver.execute_script("return document.documentElement.scrollWidth") <= width


def test_a_large_study_needs_a_server_and_says_so(
    driver: Any, known: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "MOST_INSIDE", 100)
    monkeypatch.setattr(answers, "_PER_SHARD", N_ANSWERS)
    page = write(known[0], tmp_path / "answers.html")
    show(driver, page, opens="")
    assert "start `make ui`" in element(driver, "[role=alert]").text
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            driver.get_log("browser")
            driver.get(f"http://127.0.0.1:{server.server_port}/answers.html?{urlencode({'open': OPENED})}")
            shown(driver, ".opened h2")
            assert counted(driver) == N_ANSWERS
            refused = [line for line in driver.get_log("browser") if "favicon" not in line["message"]]
            assert refused == []
        finally:
            server.shutdown()


WORLD = World(
    models=("m", "large"),
    methods=("a", "b"),
    relations=("r",),
    keys={"relation": ("r",), "passage_id": ("s1",)},
    n_questions=2,
)


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = write_marts(tmp_path_factory.mktemp("marts") / "warehouse.duckdb", WORLD)
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "update marts.fct_answers set raw_text = repeat('ab\n\nc', 10000) where question_id = 'q0'"
        )
        connection.execute(
            "update marts.fct_answers set raw_text = chr(0) || '\n\n' || concat_ws('/', prompt, model, method) "
            "where question_id = 'q1'"
        )
        connection.execute("update marts.fct_answers set passage_ids = ['s1', 'gone', 'g']")
        connection.execute("delete from marts.fct_generated_passages")
        connection.execute(
            "insert into marts.fct_generated_passages by name select 'd1' as dataset, 'q0' as question_id, 'm' as model, "
            "'g' as passage_id, 'written' as text"
        )
        connection.execute("update marts.fct_prompts set table_name = 'answers'")
    return path


def written(warehouse: Path, target: Path) -> dict[str, Any]:
    return payload_of(write(warehouse, target))


def part(payload: dict[str, Any], name: str) -> Any:
    return json.loads(gzip.decompress(base64.b64decode(payload["parts"][name])))


def test_what_is_packed_comes_back_in_the_order_of_the_index(
    warehouse: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "_PER_SHARD", 4)
    monkeypatch.setattr(answers, "_READ_AT_ONCE", 10)
    payload = written(warehouse, tmp_path / "answers.html")
    index = part(payload, payload["index"])
    asked, given = index["questions"], index["answers"]
    word = lambda column, at: column["words"][column["codes"][at]]  # noqa: E731
    keys = [
        (word(asked["dataset"], place), asked["question_id"][place],
         *(word(given[name], at) for name in ("prompt", "model", "method")))
        for at, place in enumerate(given["place"])
    ]  # fmt: skip
    texts: list[str] = []
    passages = []
    for shard in payload["shards"]:
        found = part(payload, shard["name"])
        assert len(found["answers"]["raw_text"]) == shard["n"]
        texts += [
            "\n\n".join(found["texts"][block] for block in blocks) for blocks in found["answers"]["raw_text"]
        ]
        passages += [
            [found["passages"][number] for number in numbers] for numbers in found["answers"]["passages"]
        ]
        assert len(set(found["texts"])) == len(found["texts"])
    with duckdb.connect(str(warehouse), read_only=True) as connection:
        rows = connection.execute(
            "select dataset, question_id, prompt, model, method, raw_text, is_correct, confidence "
            "from marts.fct_answers order by all"
        ).fetchall()
    assert len(payload["shards"]) > 2
    assert keys == [row[:5] for row in rows]
    assert texts == [row[5][:LONGEST].replace("\x00", "\ufffd") for row in rows]
    assert given["is_correct"] == [int(row[6]) for row in rows]
    assert given["confidence"] == [None if row[7] is None else round(row[7], 6) for row in rows]
    assert [one[0] for one in passages[0]] == ["s1", "gone", "g"]
    assert passages[0][1][1:] == [None, None, None]
    assert passages[0][2][2] == "written by model m"
    lengths = [
        n for shard in payload["shards"] for n in part(payload, shard["name"])["answers"]["raw_text_length"]
    ]
    assert max(lengths) == 50_000


def test_the_answers_of_a_large_study_are_files_that_go_when_nothing_needs_them(
    warehouse: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "published" / "answers.html"
    whole = written(warehouse, target)
    assert "connect-src" not in target.read_text(encoding="utf-8")
    monkeypatch.setattr(answers, "MOST_INSIDE", 3)
    payload = written(warehouse, target)
    assert "connect-src 'self'" in target.read_text(encoding="utf-8")
    assert payload["parts"] == {}
    files = {path.stem: path.read_bytes() for path in (tmp_path / "published" / "answers").iterdir()}
    assert set(files) == {payload["index"], *(shard["name"] for shard in payload["shards"])}
    assert {name: base64.b64encode(content).decode() for name, content in files.items()} == whole["parts"]
    monkeypatch.undo()
    written(warehouse, target)
    assert list((tmp_path / "published" / "answers").iterdir()) == []


def test_a_study_without_answers_has_a_page(tmp_path: Path) -> None:
    path = write_marts(tmp_path / "warehouse.duckdb", World(empty=frozenset({"fct_answers"}), n_questions=1))
    payload = written(path, tmp_path / "answers.html")
    assert (payload["n_answers"], payload["shards"]) == (0, [])
