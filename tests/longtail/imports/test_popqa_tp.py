"""PopQA-TP's CSV: wordings joined by id, never by text; and files of templates."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path

import pytest

from longtail.errors import SourceError
from longtail.imports.datasets import as_template, wordings
from longtail.imports.formats.paraphrases.popqa_tp import ImportedParaphrases, read_popqa_tp
from longtail.imports.formats.paraphrases.templates import FORMAT
from longtail.imports.formats.questions.popqa import read_popqa
from tests.imported_files import popqa_rows, popqa_tp_rows, write_popqa, write_popqa_tp
from tests.real_data import REAL_DATA, needs_real_data

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
    assert as_template("Who?", "Ann") == as_template("Who?", None) == "Who?"


def test_letters_read_as_macroman_are_repaired_and_right_ones_stay(tmp_path: Path) -> None:
    """`–É` and `–√©` could be UTF-8 read as MacRoman, too: the subject decides."""
    names = ["Détiège", "Paris–Évry", "√© and –É"]
    rows = [
        {**row, "subj": name, "question": f"Who is {name}?"} for row, name in zip(ROWS, names, strict=False)
    ]
    questions = read_popqa(write_popqa(tmp_path / "popqa.tsv", rows)).questions
    wordings = popqa_tp_rows(rows)
    garbled = [
        {**row, "paraphrase": row["paraphrase"].encode().decode("mac_roman"), "prop": ""} for row in wordings
    ]
    expected = {
        row["id"]: {number: f"Wording {number} about {row['subj']}?" for number in (1, 2)} for row in rows
    }
    for content, n in ((wordings, 0), (garbled, 9), ([*wordings[:3], *garbled[3:]], 6)):
        found = read_popqa_tp(write_popqa_tp(tmp_path / "tp.csv", content), questions)
        assert {key: {k: own[k] for k in (1, 2)} for key, own in found.wordings.items()} == expected
        assert (found.says, found.rejected) == ([REPAIRED.format(n)] if n else [], [])


REPAIRED = "tp.csv: {} wordings repaired, whose UTF-8 was read as MacRoman"
TEMPLATES = "relation\ttemplate_id\ttemplate\n"


def templates(tmp_path: Path, *rows: str) -> Path:
    path = tmp_path / "templates.tsv"
    path.write_text(TEMPLATES + "".join(f"{row}\n" for row in rows), encoding="utf-8")
    return path


def test_templates_are_filled_for_each_question_of_their_relation(tmp_path: Path) -> None:
    rows = [{**ROWS[0], "subj": "[X] [subj]"}, {**ROWS[1], "subj": ""}, ROWS[3]]
    questions = read_popqa(write_popqa(tmp_path / "popqa.tsv", rows)).questions
    path = templates(tmp_path, "occupation\t1\tWhat job has [X]?", "occupation\t0\tWhat is [X]'s occupation?")
    found = FORMAT.read(path, questions)
    assert found.wordings == {
        "400000": {0: "What is [X] [subj]'s occupation?", 1: "What job has [X] [subj]?"},
        "400001": {0: "What is 's occupation?", 1: "What job has ?"},
    }
    assert found.notes["paraphrase_rows"] == 4


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (
            "father\t1\tWho is the dad?",
            r"row 2: column template: \[X\] was expected once, .*'Who is the dad\?'",
        ),
        (
            "uncle\t1\tWho is [X]?",
            "row 2: column relation: 'uncle' is none of PopQA's: occupation, .* capital$",
        ),
        ("father\t7\tWho is [X]?", "row 2: column template_id: '7'; a number that father has once"),
        ("father\t0\tWho is [X]?", "row 2: .* PopQA's own question, 'Who is the father of .X..'"),
        ("father\t1", "row 2: 2 fields where the header has 3"),
    ],
)
def test_a_wrong_template_is_refused_before_a_run_in_one_line(tmp_path: Path, row: str, reason: str) -> None:
    path = templates(tmp_path, "father\t7\t[X] is whose child?", row)
    with pytest.raises(SourceError, match=reason) as caught:
        FORMAT.check(path, None)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@needs_real_data
def test_the_published_table_is_rebuilt_from_its_templates_and_read_with_its_faults(tmp_path: Path) -> None:
    """Of 118,643 rows those of every sixth question and of altered subjects, as published: with CRLF, and in letters
    that were read as MacRoman."""
    folder = REAL_DATA / "popqa_tp"
    with (folder / "altered_subjects.tsv").open(encoding="utf-8") as stream:
        altered = {row["id"] for row in csv.DictReader(stream, delimiter="\t")}
    all_questions = read_popqa(REAL_DATA / "popqa" / "popQA.tsv.gz").questions
    questions = {id_: all_questions[id_] for id_ in {*[*all_questions][::6], *altered}}
    text = gzip.decompress((folder / "popqa_tp_rebuilt.csv.gz").read_bytes()).decode()
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == 118_643
    rows = [row for row in rows if row["id"] in questions]
    expected = {(row["id"], int(row["template_id"])): row["paraphrase"] for row in rows}
    path = tmp_path / "published.csv"
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    path.write_bytes(path.read_bytes().decode("mac_roman").encode())
    published = read_popqa_tp(path, questions)
    assert {(key, n): text for key, own in published.wordings.items() for n, text in own.items()} == expected
    n_repaired = sum(not text.isascii() for text in expected.values())
    assert f" {n_repaired:,} wordings repaired" in published.says[0]
    filled = FORMAT.read(folder / "templates.tsv", questions).wordings
    rebuilt = {(key, n): text for key, own in filled.items() for n, text in own.items()}
    assert rebuilt.keys() == expected.keys()
    assert {key for key in expected if rebuilt[key] != expected[key]} == {
        key for key in expected if key[0] in altered and key[1]
    }
