"""HotpotQA and ELI5 in KILT's lines and in their own forms: questions and answers, and every fault of a row."""

from __future__ import annotations

import gzip
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from longtail.errors import SourceError
from longtail.imports.datasets import read_questions
from longtail.imports.format import ImportedDataset
from longtail.questions.build import build_questions
from longtail.storage.lake import Lake
from longtail.study.study import Study
from tests.imported_files import study_of_files

LONG = "It falls.\nWhy? " + "Because of rain. " * 40
KILT_ELI5: list[dict[str, Any]] = [
    {"id": "1kiwfx", "input": "Why do towels dry?", "output": [
        {"answer": LONG}, {"answer": "Loops."}, {"provenance": [{"wikipedia_id": "1"}]}]},
]  # fmt: skip
OWN_ELI5 = [{
    "q_id": "1kiwfx", "title": "Why do towels dry?", "selftext": "",
    "answers": {"a_id": ["c1", "c2"], "text": [LONG, "Loops."], "score": [9, 2]},
}]  # fmt: skip
OWN_HOTPOT = [{
    "_id": "5a8b57f25542995d1e6f1371", "question": "Were Scott and Ed of one nation?", "answer": "yes",
    "type": "comparison", "level": "hard", "supporting_facts": [["Scott", 0]],
    "context": [["Scott", ["He was American."]]],
}]  # fmt: skip
KILT_HOTPOT = [{
    "id": "5a8b57f25542995d1e6f1371", "input": "Were Scott and Ed of one nation?",
    "output": [{"answer": "yes", "provenance": []}],
}]  # fmt: skip


def study_of(folder: Path, **formats: str) -> tuple[Study, Lake]:
    datasets = [{"name": name, "import": {"format": name, "path": path}} for name, path in formats.items()]
    return study_of_files(folder, datasets=datasets)


def read(folder: Path, format_: str, content: str | bytes) -> ImportedDataset:
    path = folder / "questions"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    study, _ = study_of(folder, **{format_: "questions"})
    return read_questions(study, study.datasets[0])


def lines(rows: list[dict[str, Any]]) -> str:
    return "".join(f"{json.dumps(row)}\n" for row in rows)


@pytest.mark.parametrize(
    "content",
    [lines(KILT_ELI5), lines(OWN_ELI5), gzip.compress(lines(KILT_ELI5).encode())],
    ids=["KILT", "own form", "gzip"],
)
def test_eli5_keeps_whole_answers(tmp_path: Path, content: str | bytes) -> None:
    found = read(tmp_path, "eli5", content)
    (question,) = found.questions.values()
    assert question["question_id"] == "1kiwfx"
    assert question["gold_answers"] == [" ".join(LONG.split()), "Loops."]
    assert (question["subject_id"], question["relation"], found.entities, found.rejected) == (
        None,
        None,
        {},
        [],
    )


@pytest.mark.parametrize("content", [json.dumps(OWN_HOTPOT), lines(OWN_HOTPOT), lines(KILT_HOTPOT)])
def test_hotpotqa_is_read_without_its_paragraphs(tmp_path: Path, content: str) -> None:
    found = read(tmp_path, "hotpotqa", content)
    (question,) = found.questions.values()
    assert (question["question_id"], question["gold_answers"]) == (OWN_HOTPOT[0]["_id"], ["yes"])
    assert question["question"] == OWN_HOTPOT[0]["question"]
    assert found.passages == {}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('[{"_id": "a"', "cannot be read as a JSON list"),
        ('[{"_id": "a", "question": "Who?"}]', "holds no question that can be used; .*at least one answer"),
        ("id,question\n", "holds no question|no JSON"),
    ],
)
def test_a_file_without_questions_is_refused(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        read(tmp_path, "hotpotqa", content)


def test_both_are_questions_of_a_study_and_say_how_they_are_scored(tmp_path: Path) -> None:
    (tmp_path / "eli5.jsonl").write_text(lines(KILT_ELI5))
    (tmp_path / "hotpot.json").write_text(json.dumps(OWN_HOTPOT))
    study, lake = study_of(tmp_path, eli5="eli5.jsonl", hotpotqa="hotpot.json")
    build_questions(study, lake, logging.getLogger("test"))
    rows = lake.read("questions").to_pylist()
    assert {(row["dataset"], row["question_id"]) for row in rows} == {
        ("eli5", KILT_ELI5[0]["id"]), ("hotpotqa", OWN_HOTPOT[0]["_id"]),
    }  # fmt: skip
    assert {one.name: study.end_task_of(one) for one in study.datasets} == {
        "eli5": "rouge_l",
        "hotpotqa": "f1",
    }
