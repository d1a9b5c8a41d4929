"""Anybody's questions: round trips through every kind of file, and every fault that such a file can have."""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from longtail.errors import SourceError
from longtail.imports.format import LONGEST_QUESTION, ImportedDataset
from longtail.imports.formats.questions.table import NO_IDS, make_id, read_questions
from longtail.parsing.terms import LONGEST_LABEL
from longtail.study.imports import Import
from longtail.study.parts import read_part

HEADER = ["question", "answers", "relation", "popularity"]
ROWS: list[dict[str, Any]] = [
    {"question": "Capital of Peru?", "answers": ["Lima"], "relation": "capital", "popularity": 12.5},
    {"question": "Who wrote “Emma”, when?", "answers": ["Austen", "Jane A."], "relation": None, "popularity": None},
]  # fmt: skip


def read(path: Path, **keys: Any) -> ImportedDataset:
    """The questions of a file, declared as study.yaml would declare it."""
    raw = {"format": "table", "path": str(path), **keys}
    return read_questions(path, read_part(Import, raw, path, "import"), "d")


def asked(found: ImportedDataset) -> list[tuple[Any, ...]]:
    """Question, gold answers, relation and popularity of every question."""
    return [
        (row["question"], row["gold_answers"], row["relation"], popularity_of(found, row))
        for row in found.questions.values()
    ]


def popularity_of(found: ImportedDataset, row: Mapping[str, Any]) -> float | None:
    return found.entities[row["subject_id"]].popularity if row["subject_id"] else None


def written(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def reasons_of(found: ImportedDataset) -> list[str]:
    return [row.reason for row in found.rejected]


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]], delimiter: str = ",", end: str = "\n") -> Path:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, HEADER, delimiter=delimiter, lineterminator=end)
        writer.writeheader()
        writer.writerows({**row, "answers": json.dumps(row["answers"])} for row in rows)
    return path


def write_json_lines(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    return written(path, "".join(json.dumps(row) + "\n" for row in rows))


def write_parquet(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    pq.write_table(pa.Table.from_pylist(list(rows)), path)
    return path


WRITERS: dict[str, Callable[[Path, Sequence[Mapping[str, Any]]], Path]] = {
    "comma": write_csv,
    "semicolon": lambda path, rows: write_csv(path, rows, ";"),
    "tab": lambda path, rows: write_csv(path, rows, "\t"),
    "json lines": write_json_lines,
    "json list": lambda path, rows: written(path, json.dumps(list(rows), indent=1)),
    "parquet": write_parquet,
}


@pytest.mark.parametrize("is_gzip", [False, True])
@pytest.mark.parametrize("kind", WRITERS)
def test_every_kind_of_file_gives_the_same_questions(kind: str, is_gzip: bool, tmp_path: Path) -> None:
    path = WRITERS[kind](tmp_path / "file", ROWS)
    if is_gzip:
        path.write_bytes(gzip.compress(path.read_bytes()))
    found = read(path)
    assert asked(found) == [tuple(row[name] for name in HEADER) for row in ROWS]
    assert list(found.questions) == [make_id("d", row["question"], row["answers"]) for row in ROWS]
    assert list(found.rows) == [1, 2]
    assert found.rejected == []


NESTED = {
    "question": "Who?", "golden_answers": ["Ada"], "metadata": {"s_pop": 12, "subj": "Emma", "more": {"prop": "author"}},
    "output": [{"answer": "Ada"}, {"answer": "Bo"}], "context": [["a", "b"]], "dotted.name": "x",
}  # fmt: skip


@pytest.mark.parametrize("kind", ["json lines", "json list", "parquet"])
def test_usual_names_and_paths_into_nested_values(kind: str, tmp_path: Path) -> None:
    path = WRITERS[kind](tmp_path / "file", [NESTED])
    found = read(path)
    assert asked(found) == [("Who?", ["Ada"], None, 12)]
    assert next(iter(found.questions.values()))["subject"] == "Emma"
    assert found.passages == {}, "a list is no passage"
    assert found.says[:3] == [
        "column golden_answers is read as answers",
        "column metadata.subj is read as subject",
        "column metadata.s_pop is read as popularity",
    ]
    columns = {"answers": "output.answer", "relation": "metadata.more.prop", "subject": "dotted.name"}
    found = read(path, columns=columns)
    assert asked(found) == [("Who?", ["Ada", "Bo"], "author", 12)]
    assert next(iter(found.questions.values()))["subject"] == "x"


def test_a_path_leads_into_a_text_of_json_and_a_whole_name_goes_before(tmp_path: Path) -> None:
    head = "question,gold,metadata,metadata.prop"
    rows = 'Who?,Ada,"{""s_pop"": 3, ""prop"": ""no""}",yes\nWhen?,Bo,none,yes\n'
    found = read(written(tmp_path / "f.csv", f"{head}\n{rows}"), columns={"popularity": "metadata.s_pop"})
    assert asked(found) == [("Who?", ["Ada"], "yes", 3), ("When?", ["Bo"], "yes", None)]


@pytest.mark.parametrize(
    ("head", "row"),
    [
        ("question,reference,answer,answers", "Who?,no,no,Ada"), ("query,question,Answer", "no,Who?,Ada"),
        ("question,golden_answers", "Who?,Ada"), ("problem,references", "Who?,Ada"),
    ],
)  # fmt: skip
def test_the_standard_name_goes_before_others(head: str, row: str, tmp_path: Path) -> None:
    found = read(written(tmp_path / "f.csv", f"{head}\n{row}\n"))
    assert [one[:2] for one in asked(found)] == [("Who?", ["Ada"])]


def test_a_column_that_is_named_null_is_not_read(tmp_path: Path) -> None:
    path = written(tmp_path / "f.csv", "id,question,answer,passage\n7,Who?,Ada,Ada it was.\n")
    found = read(path, columns={"passage": None, "id": None})
    assert (found.passages, list(found.questions)) == ({}, [make_id("d", "Who?", ["Ada"])])


def test_columns_of_other_names_and_a_sign_between_answers(tmp_path: Path) -> None:
    path = written(tmp_path / "f.csv", "key;frage;antwort;wer\nq7;Wo?;Rom | Roma|;Ada\n")
    columns = {"question": "frage", "answers": "antwort", "id": "key", "subject": "wer"}
    found = read(path, columns=columns, separator="|")
    (row,) = found.questions.values()
    assert (row["question_id"], row["gold_answers"], row["subject"]) == ("q7", ["Rom", "Roma"], "Ada")
    assert found.entities[row["subject_id"]].label == "Ada"
    assert found.notes["says"] == [
        "1 of 1 questions have no popularity: analyses of popularity leave them out",
        "1 of 1 questions have no relation: they count under `all` alone",
    ]


def test_usual_names_are_found_in_capitals_too_and_what_lacks_is_said(tmp_path: Path) -> None:
    found = read(written(tmp_path / "f.csv", "Question,Answer\nWho?,[Ada]\nWhere?,Rome\n"))
    assert reasons_of(found) == ['column Answer: a JSON list of texts was expected, as in ["one", "two"]']
    assert [(row["question"], row["subject_id"]) for row in found.questions.values()] == [("Where?", None)]
    assert found.entities == {}
    assert found.says[:2] == ["column Answer is read as answers", NO_IDS]


def test_an_id_is_made_from_dataset_question_and_sorted_answers_and_repeats_are_numbered(
    tmp_path: Path,
) -> None:
    lines = "question;answer\nWho?;Bo|Ada\nWhere?;Rome\nWho?;Ada|Bo\nWho?;Ada\n"
    found = read(written(tmp_path / "f.csv", lines), separator="|")
    text = json.dumps(["d", "Who?", ["Ada", "Bo"]])
    made = hashlib.sha256(text.encode()).hexdigest()[:16]
    ids = list(found.questions)
    assert [ids[0], ids[2]] == [made, f"{made}-2"]
    assert found.rows == dict(enumerate(ids, 1))
    assert len(set(ids)) == 4
    assert make_id("e", "Who?", ["Ada", "Bo"]) != made


LONG = "x" * 1_000_000


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("1,Who?,Ada,1", "column id: row 1 has the same id; that row is kept"),
        (",Who?,Ada,1", "column id: an id was expected"),
        ("2, ,Ada,1", "column question: a text was expected"),
        ("2,Who?, ,1", "column answer: at least one answer was expected"),
        ('2,Who?,"[""Ada""",1', "column answer: a JSON list of texts was expected"),
        ('2,Who?,"[[""Ada""]]",1', "column answer: a text was expected, not"),
        (f"2,{LONG},Ada,1", f"column question: a text of 1,000,000 characters; at most {LONGEST_QUESTION:,} are"),
        (f"2,Who?,{LONG},1", f"column answer: a text of 1,000,000 characters; at most {LONGEST_LABEL} are"),
    ],
)  # fmt: skip
def test_a_bad_row_is_put_aside_with_its_reason_and_the_others_stay(
    tmp_path: Path, row: str, reason: str
) -> None:
    content = f"id,question,answer,popularity\r\n1,First?,A,1\r\n{row}\r\n9,Last?,B,2\r\n"
    found = read(written(tmp_path / "f.csv", b"\xef\xbb\xbf" + content.encode()))
    assert list(found.questions) == ["1", "9"]
    (rejected,) = found.rejected
    assert rejected.row_key == "f.csv row 2"
    assert reason in rejected.reason


@pytest.mark.parametrize(
    ("content", "keys", "words"),
    [
        ("frage,answer\na,b\n", {}, "no column has a usual name of question; name it in the study: columns: {que"),
        ("question,golds\na,b\n", {}, "no column has a usual name of answers (did you mean golds?)"),
        ("question,reference,target\na,b,c\n", {}, "columns reference and target may each be the answers; say which"),
        ("question,answer\na,b\n", {"columns": {"id": "key"}}, "column key is missing, which columns.id names"),
        ("question,answer\n,b\n", {}, "f row 1: column question: a text was expected"),
        (b"PAR1 and no more", {}, "cannot be read as Parquet"),
    ],
)  # fmt: skip
def test_files_that_are_refused(
    tmp_path: Path, content: str | bytes, keys: dict[str, Any], words: str
) -> None:
    path = written(tmp_path / "f", content)
    with pytest.raises(SourceError, match=str(path)) as caught:
        read(path, **keys)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="is a folder; name one file"):
        read(tmp_path)


def test_rows_share_an_entity_only_if_they_agree_in_all_that_they_know_of_it(tmp_path: Path) -> None:
    known = ["Ada;7;", "Ada;7;", "Ada;8;", "Ada;7;A text.", "Ada;;", ";7;", ";7;", ";;"]
    lines = ["question;answer;subject;popularity;passage", *(f"Who?;x;{row}" for row in known)]
    found = read(written(tmp_path / "f.csv", "\n".join(lines)))
    ids = [row["subject_id"] and row["subject_id"].partition("-")[2] for row in found.questions.values()]
    assert ids == ["1", "1", "3", "4", "5", "6", "7", None]
    assert [entity.label for entity in found.entities.values()] == ["Ada"] * 4 + ["Who?"] * 2
    assert list(found.passages.values()) == [("Ada", "A text.")]


def test_two_files_never_share_an_entity(tmp_path: Path) -> None:
    one = read(write_json_lines(tmp_path / "a", ROWS))
    two = read(write_json_lines(tmp_path / "b", [{**ROWS[0], "popularity": 99}]))
    assert not set(one.entities) & set(two.entities)
