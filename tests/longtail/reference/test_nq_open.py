"""NQ-open files: usable lines, unusable lines, and files of another format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longtail.errors import SourceError
from longtail.reference.linking import read_nq_open


def written(folder: Path, *lines: object) -> Path:
    path = folder / "NQ-open.dev.jsonl"
    texts = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    path.write_bytes(b"\n".join(texts))
    return path


def question(text: str, *answers: str) -> dict[str, Any]:
    return {"question": text, "answer": list(answers)}


def test_a_line_number_identifies_a_question(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        question("who wrote it ", "Ann", "Ann", " "),
        b"",
        {"question": "where", "answer": [], "def_correct_predictions": ["x"]},
    )
    assert read_nq_open(path) == (
        [
            {"question_id": "1", "question": "who wrote it", "gold_answers": ["Ann"]},
            {"question_id": "3", "question": "where", "gold_answers": []},
        ],
        [],
    )


def test_unusable_lines_are_put_aside_with_a_reason(tmp_path: Path) -> None:
    path = written(
        tmp_path, question("q", "a"), b"{", [1], question("q", "b"), {"question": "no answer"},
        question("  ", "a"), {"question": "q2", "answer": "text"}, b'{"question": "\xe9", "answer": []}',
    )  # fmt: skip
    found, rejected = read_nq_open(path)
    assert [row["question_id"] for row in found] == ["1"]
    assert {row.row_key.split()[-1]: row.reason.split(":")[0] for row in rejected} == {
        "2": "not JSON",
        "3": "a JSON object was expected",
        "4": "repeated question",
        "5": "key answer",
        "6": "key question",
        "7": "key answer",
        "8": "not JSON",
    }


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b'{"question": 1}\n', "holds no question that can be used; NQ-open.dev.jsonl row 1: key question"),
        ('{"question": "q", "answer": []}'.encode("utf-16"), "UTF-16"),
    ],
)
def test_files_of_another_format_are_refused(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "NQ-open.dev.jsonl"
    path.write_bytes(content)
    with pytest.raises(SourceError, match=str(path)) as caught:
        read_nq_open(path)
    assert words in str(caught.value)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="is a folder; name one file"):
        read_nq_open(tmp_path)


@settings(deadline=None)
@given(texts=st.lists(st.text(max_size=20), max_size=6), answers=st.lists(st.text(max_size=9), max_size=3))
def test_every_line_is_a_question_or_put_aside(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], answers: list[str]
) -> None:
    lines = [question(text, *answers) for text in texts]
    path = written(tmp_path_factory.mktemp("nq"), question("first"), *lines)
    found, rejected = read_nq_open(path)
    assert len(found) + len(rejected) == 1 + len(texts)
    assert len({row["question"] for row in found}) == len(found)
