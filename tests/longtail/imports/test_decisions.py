"""Decisions of others, from files to lake rows: what columns may hold, and rows that are put aside."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
import yaml

from longtail.errors import LongtailError, SourceError
from longtail.imports.answers import check_decisions, import_decisions
from longtail.questions.build import build_questions
from longtail.storage.lake import Lake
from longtail.study.file import load_study
from longtail.study.study import Study
from tests.longtail.imports.test_table_in_lake import made

LOG = logging.getLogger("test")
IDS = "id,question,answer\n" + "".join(f"q{i},Who is {i}?,A\n" for i in range(6))


NOTHING_SAID = "column retrieve: yes, no, a number of retrievals, or a score was expected"


def asked(folder: Path, *declared: dict[str, Any]) -> tuple[Study, Lake]:
    """A study of six questions, q0 to q5, and decisions on them."""
    (folder / "asked.csv").write_text(IDS, encoding="utf-8")
    study, lake = made(
        folder,
        datasets=[{"name": "d", "import": {"format": "table", "path": "asked.csv"}}],
        models=[{"name": "m", "path": "sandbox:s"}],
        decisions=[{"dataset": "d", "path": "decided.csv", **one} for one in declared],
    )
    build_questions(study, lake, LOG)
    return study, lake


def aside(lake: Lake) -> list[tuple[str, str]]:
    """The rows put aside: key and reason."""
    found = lake.read_all("quarantine").to_pylist()
    return [(row["row_key"], row["reason"]) for row in found if row["table_name"] == "imported_decisions"]


def rows(lake: Lake) -> list[tuple[Any, ...]]:
    found = lake.read("imported_decisions").to_pylist()
    return [(row["policy"], row["question_id"], row["retrieves"], row["score"]) for row in found]


def test_words_truths_numbers_of_retrievals_and_scores(tmp_path: Path) -> None:
    said = [True, "no", 3, 0, "1", None]
    lines = [{"qid": f"q{i}", "asked": one, "sure": -0.5 * i} for i, one in enumerate(said)]
    (tmp_path / "decided.csv").write_text("".join(f"{json.dumps(one)}\n" for one in lines), encoding="utf-8")
    study, lake = asked(
        tmp_path,
        {"name": "counts", "columns": {"retrieve": "asked"}},
        {"name": "scores", "columns": {"score": "sure"}},
    )
    import_decisions(study, lake, LOG)
    wanted = [True, False, True, False, True]
    assert rows(lake) == [
        *(("counts", f"q{i}", one, None) for i, one in enumerate(wanted)),
        *(("scores", f"q{i}", None, -0.5 * i) for i in range(6)),
    ]
    assert aside(lake) == [
        ("decided.csv row 6", "column asked: yes, no, a number of retrievals, or a score was expected")
    ]


def test_bad_rows_are_put_aside_and_the_others_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "decided.csv").write_text(
        "id,method,retrieve,score\nq0,a,yes,\nq0,a,no,\nq0,b,no,\nq9,a,yes,\nq1,a,,\nq2,a,maybe,\nq3,a,,much\nq4,a,1.5,\n"
        "q5,a,yes,much\n",
        encoding="utf-8",
    )
    study, lake = asked(tmp_path, {"name": "unnamed"})
    import_decisions(study, lake, LOG)
    assert "decided.csv: column score cannot be read in 2 rows" in caplog.messages
    assert rows(lake) == [("a", "q0", True, None), ("a", "q5", True, None), ("b", "q0", False, None)]
    assert {key.removeprefix("decided.csv "): reason for key, reason in aside(lake)} == {
        "row 2": "column id: decided already: decided.csv row 1; that row is kept",
        "row 4": "column id: no question of the dataset has the id q9",
        **dict.fromkeys((f"row {row}" for row in (5, 6, 7, 8)), NOTHING_SAID),
    }


@pytest.mark.parametrize(
    ("content", "declared", "message"),
    [
        ("id,asked\nq0,1\n", {}, "has neither a column retrieve nor score; name one in the study: columns"),
        (
            "id,retrieve\nq9,1\n",
            {},
            "holds no decision that can be used; decided.csv row 1: column id: no question",
        ),
        (
            "id,retrieve\nq0,1\n",
            {"columns": {"score": "sure"}},
            "column sure is missing, which columns.score names",
        ),
        (
            "retrieve\n1\n",
            {},
            "no column has a usual name of id; name it in the study: columns: {id: <column>}",
        ),
    ],
)
def test_a_file_without_decisions_is_one_line(
    tmp_path: Path, content: str, declared: dict[str, Any], message: str
) -> None:
    (tmp_path / "decided.csv").write_text(content, encoding="utf-8")
    study, lake = asked(tmp_path, {"name": "theirs", **declared})
    with pytest.raises(SourceError) as error:
        import_decisions(study, lake, LOG)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"dataset": "e"}, "decisions[0].dataset: 'e' is not one of: d"),
        (
            {"columns": {"retrieved": "x"}},
            "decisions[0].columns.retrieved: unknown key; did you mean retrieve?",
        ),
    ],
)
def test_messages(tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    (tmp_path / "decided.csv").write_text("id,retrieve\nq0,1\n", encoding="utf-8")
    study, _ = asked(tmp_path, {"name": "theirs"})
    raw = yaml.safe_load(study.path.read_text(encoding="utf-8"))
    raw["decisions"][0] |= changed
    study.path.write_text(yaml.safe_dump(raw), encoding="utf-8")
    with pytest.raises(LongtailError) as error:
        load_study(study.path)
    assert message in str(error.value)


def test_a_column_that_the_study_names_may_be_behind_the_beginning_of_a_long_file(tmp_path: Path) -> None:
    """Preflight reads the first rows of the long file and cannot know that they show all columns."""
    lines = [json.dumps({"id": f"q{i}", "retrieve": True, "text": "x" * 100_000}) for i in range(6)]
    (tmp_path / "decided.jsonl").write_text("\n".join(lines), encoding="utf-8")
    study, _ = asked(tmp_path, {"name": "p", "path": "decided.jsonl", "columns": {"retrieve": "retrieve"}})
    check_decisions(tmp_path / "decided.jsonl", study.decisions[0])
