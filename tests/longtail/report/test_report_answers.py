"""The second page as a file: what is packed comes back as it was, long texts are cut, large studies load from files."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import duckdb
import pytest

from longtail.report import answers
from longtail.report.answers import LONGEST, write_answers
from longtail.report.published import open_warehouse, read_dimensions
from longtail.report.report import head
from tests.longtail.report.generated_marts import World, write_marts
from tests.longtail.report.test_report_figures import payload_of

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
    with open_warehouse(warehouse) as connection:
        return payload_of(write_answers(connection, head(connection, read_dimensions(connection)), target))


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
