"""PopQA-TP's CSV: wordings joined by id, never by text."""

from __future__ import annotations

from pathlib import Path

import pytest

from dagster_project.core.errors import SourceError
from dagster_project.core.imports.formats.paraphrases.popqa_tp import ImportedParaphrases, read_popqa_tp
from dagster_project.core.imports.formats.questions.popqa import read_popqa
from dagster_project.core.imports.questions import as_template, wordings
from tests.imported_files import popqa_rows, popqa_tp_rows, write_popqa, write_popqa_tp

ROWS = popqa_rows(("occupation", "capital"), 3)


def read(tmp_path: Path, rows: list[dict[str, str]]) -> ImportedParaphrases:
    questions = read_popqa(write_popqa(tmp_path / "popqa.tsv", ROWS)).questions
    return read_popqa_tp(write_popqa_tp(tmp_path / "tp.csv", rows), questions)


def test_wordings_by_id_and_template(tmp_path: Path) -> None:
    found = read(tmp_path, list(reversed(popqa_tp_rows(ROWS))))
    assert found.wordings["400001"] == {
        0: "What is Subject 1's occupation?", 1: "Wording 1 about Subject 1?", 2: "Wording 2 about Subject 1?",
    }  # fmt: skip
    assert found.notes["paraphrase_rows"] == 18
    assert found.notes["questions_without_paraphrases"] == 0


def test_namesakes_are_told_apart_by_id(tmp_path: Path) -> None:
    rows = popqa_tp_rows(ROWS[:1]) + [{**row, "id": "400100"} for row in popqa_tp_rows(ROWS[:1])[1:]]
    found = read(tmp_path, [{**row, "prop": ""} for row in rows])
    assert set(found.wordings) == {"400000", "400100"}
    assert found.notes["questions_without_paraphrases"] == 4


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"id": "1"}, "column id: no question of the dataset has it: '1'"),
        (
            {"id": "400001"},
            "columns id and template_id: question 400001 has wording 1 already; the first is kept",
        ),
        ({"template_id": "x"}, "column template_id: a whole number was expected"),
        ({"template_id": "-1"}, "column template_id: a number of 0 to 1000 was expected"),
        (
            {"template_id": "0"},
            "columns id and paraphrase disagree: template 0 is not the wording of question 400000",
        ),
        ({"paraphrase": " "}, "column paraphrase: a text was expected"),
        ({"prop": "capital"}, "columns id and prop disagree: question 400000 is about occupation"),
    ],
)
def test_a_row_that_cannot_be_joined_is_put_aside(
    tmp_path: Path, columns: dict[str, str], reason: str
) -> None:
    rows = popqa_tp_rows(ROWS)
    broken = {**rows.pop(1), **columns}
    found = read(tmp_path, [*rows, broken])
    assert [(row.row_key, row.reason) for row in found.rejected] == [("tp.csv row 18", reason)]
    assert found.notes["paraphrase_rows"] == 17


def test_a_file_of_other_questions_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(
        SourceError, match=r"holds no paraphrase of a question of the dataset; tp.csv row 1: column id"
    ):
        read(tmp_path, [{**row, "id": "5"} for row in popqa_tp_rows(ROWS)])


def test_the_question_itself_is_wording_0_whatever_the_file_lacks() -> None:
    question = {"question": "What is Ann?", "subject": "Ann"}
    assert list(wordings(question, {2: "Ann is what?", 1: "An Ann, or Ann?"})) == [
        (0, "What is [subj]?", "What is Ann?"),
        (1, "An Ann, or Ann?", "An Ann, or Ann?"),
        (2, "[subj] is what?", "Ann is what?"),
    ]
    assert as_template("Who?", "Ann") == "Who?"
