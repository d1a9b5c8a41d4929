"""Logs of Inspect, written by Inspect itself with its mock model (`tests/inspect_logs.py`)."""

from __future__ import annotations

import math
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from longtail.errors import BackendError, SourceError
from longtail.imports.formats.answers.inspect import FORMAT, read_log
from longtail.imports.results import ImportedAnswer, verdict
from longtail.scoring.match import score_answer
from tests.imported_files import results
from tests.inspect_logs import ANSWERS, BROKEN, CHOICES, MODEL, N_CHOICES, UNREADABLE

IDS = [str(400_000 + i) for i in range(len(ANSWERS))]
QUESTIONS: dict[str, dict[str, Any]] = {question_id: {} for question_id in IDS}
INCLUDES = [True, False, True, False, True, True]  # scorer includes, which ignores case


def read(path: Path, **options: Any) -> tuple[list[ImportedAnswer], list[tuple[str, str]]]:
    found, rejected = read_log(path, results("inspect", **options), QUESTIONS)
    return found, [(row.row_key, row.reason) for row in rejected]


@pytest.mark.parametrize("name", ["whole.eval", "whole.json"])
def test_samples_by_id_with_what_the_log_says(inspect_logs: Path, name: str) -> None:
    found, rejected = read(inspect_logs / name, scorer="includes", method="bm25")
    assert rejected == []
    assert [one.question_id for one in found] == IDS
    assert [one.text for one in found] == list(ANSWERS), "the answers as they were given, long ones whole"
    assert [one.is_correct for one in found] == INCLUDES
    assert {(one.method, one.made_by, one.prompt_hash, one.shots) for one in found} == {
        ("bm25", MODEL, None, None)
    }
    assert [(one.prompt_tokens, one.new_tokens) for one in found] == [(15, i) for i in range(len(IDS))]
    counts = [one.confidence and one.confidence.confidence_tokens for one in found]
    assert counts == [None, *(len(text.split()) or None for text in ANSWERS[1:])], "the first lacks tokens"
    assert {one.confidence.least_probability for one in found if one.confidence} == {0.6065307}
    assert found[0].place == f"{name} sample 400000"
    assert all(one.latency_ms is not None and 0 <= one.latency_ms < 60_000 for one in found)


def test_scorers_and_metrics_are_chosen_not_guessed(inspect_logs: Path) -> None:
    path = inspect_logs / "whole.eval"
    with pytest.raises(
        SourceError, match="holds several scorers: graded, includes, match; choose one by key scorer"
    ):
        read(path)
    with pytest.raises(SourceError, match="has no scorer 'f1'; there are: graded, includes, match"):
        read(path, scorer="f1")
    with pytest.raises(SourceError, match="holds several metrics: loose, strict; choose one by key metric"):
        read(path, scorer="graded")
    with pytest.raises(SourceError, match="has no metric 'strict'; there are: none"):
        read(path, scorer="includes", metric="strict")
    strict, _ = read(path, scorer="graded", metric="strict")
    assert [one.is_correct for one in strict] == [True, False, False, False, False, True]
    loose, _ = read(path, scorer="graded", metric="loose")
    assert [one.is_correct for one in loose] == [bool(text) for text in ANSWERS]


def test_one_epoch_counts(inspect_logs: Path) -> None:
    path = inspect_logs / "epochs.eval"
    with pytest.raises(SourceError, match="holds several epochs: 1, 2, 3; choose one by key epoch"):
        read(path)
    with pytest.raises(SourceError, match="has no epoch 4; there are: 1, 2, 3"):
        read(path, epoch=4)
    found, rejected = read(path, epoch=2)
    assert sorted(one.question_id for one in found) == IDS
    assert rejected == []


def test_a_sample_that_ended_in_an_error_has_no_answer(inspect_logs: Path) -> None:
    found, rejected = read(inspect_logs / "tolerant.eval")
    assert ([one.question_id for one in found], rejected) == (IDS, [])
    assert [(one.question_id, one.failure) for one in found if one.failure] == [
        (BROKEN, "the sample ended in an error: RuntimeError")
    ]


def test_an_unfinished_evaluation_is_refused_or_said(inspect_logs: Path) -> None:
    path = inspect_logs / "failed.eval"
    with pytest.raises(SourceError, match=r"did not finish \(status error\).*accept_unfinished: true"):
        read(path)
    found, rejected = read(path, accept_unfinished=True)
    assert [one.question_id for one in found if not one.failure] == IDS[:1]
    assert rejected[0][0] == "failed.eval row all"
    assert re.search(r"so samples are missing: it has [2-5] of 6$", rejected[0][1])
    assert BROKEN in [one.question_id for one in found if one.failure]


def test_ids_of_metadata_and_unknown_ids(inspect_logs: Path) -> None:
    found, rejected = read(inspect_logs / "tolerant.eval", id_field="key")
    assert found == []
    assert {reason for _, reason in rejected[:1]} == {"key: no question of the dataset has it"}
    _, rejected = read(inspect_logs / "tolerant.eval", id_field="qid")
    assert rejected[0][1] == "metadata: key 'qid' was expected"
    few, aside = read_log(inspect_logs / "tolerant.eval", results("inspect"), {IDS[0]: {}})
    assert [one.question_id for one in few] == IDS[:1]
    assert aside[-1].reason == "id: no question of the dataset has it"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("C", True), ("I", False), ("N", False), ("P", None), (1, True), (0, False), (1.0, True), (0.0, False),
        (0.5, None), (True, True), (False, False), (math.nan, None), (None, None), ("c", True),
        ("p", None), ("yes", True), ("No", False), ("true", True), ("False", False), ("1", True),
        ("0", False), ("0.5", None),
    ],
)  # fmt: skip
def test_grades(value: object, expected: bool | None) -> None:
    assert verdict(value) is expected


@pytest.mark.parametrize("value", ["correct", "7", 7, -1, [1, 0]])
def test_grades_that_are_none(value: object) -> None:
    with pytest.raises(ValueError, match="right, wrong or a number from 0 to 1 was expected"):
        verdict(value)


def asked_to_choose(right: Callable[[int], list[str]]) -> dict[str, dict[str, Any]]:
    """The questions of the logs of multiple choice, with these gold answers."""
    return {str(500_000 + i): {"gold_answers": right(i)} for i in range(N_CHOICES)}


def both(i: int) -> list[str]:
    return [", ".join(CHOICES[i][n] for n in sorted({i % 4, (i + 1) % 4}))]


@pytest.mark.parametrize(
    ("name", "golds", "n_right"),
    [
        ("plain", lambda i: [CHOICES[i][i % 4]], 15),
        ("shuffled", lambda i: [CHOICES[i][i % 4]], 15),
        ("reordered", lambda i: [CHOICES[i][i % 4]], 15),
        ("plain", lambda i: ["ABCD"[i % 4]], 15),
        ("several", both, 8),
        ("free", lambda i: [CHOICES[i][i % 4]], 15),
    ],
)
def test_a_choice_is_right_by_our_rules_exactly_where_the_log_says_so(
    inspect_logs: Path, name: str, golds: Callable[[int], list[str]], n_right: int
) -> None:
    questions = asked_to_choose(golds)
    found, rejected = read_log(inspect_logs / "choices" / f"{name}.eval", results("inspect"), questions)
    assert rejected == []
    scores = [score_answer(one.text, questions[one.question_id]["gold_answers"]) for one in found]
    assert [score.is_correct for score in scores] == [one.is_correct for one in found]
    if golds(0) != ["A"] and name != "free":
        assert [score.is_exact_match for score in scores] == [one.is_correct for one in found]
    assert (len(found), sum(bool(one.is_correct) for one in found)) == (N_CHOICES, n_right)
    unread = [one.question_id for one in found if "choice" in one.unread]
    assert unread == ([] if name == "free" else [str(500_000 + UNREADABLE)]), "counted, and an empty answer"
    assert name == "free" or found[UNREADABLE].text == ""


def test_gold_answers_that_are_not_the_right_choice_are_told(inspect_logs: Path) -> None:
    questions = asked_to_choose(lambda i: ["Elsewhere"] if i == 5 else [])
    found, rejected = read_log(inspect_logs / "choices/plain.eval", results("inspect"), questions)
    assert len(found) == N_CHOICES - 1
    (row,) = rejected
    assert (row.row_key, row.reason) == (
        "plain.eval row 500005",
        "target: the log's right choice is none of the question's gold answers: 'Town 5' where the dataset has"
        " 'Elsewhere'",
    )


def test_a_folder_holds_one_log(inspect_logs: Path, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"one \*\.eval or \*\.json was expected, the folder holds 5"):
        FORMAT.files(inspect_logs, results("inspect"))
    shutil.copy(inspect_logs / "whole.eval", tmp_path)
    assert FORMAT.files(tmp_path, results("inspect")) == [tmp_path / "whole.eval"]


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "inspect_ai", None)
    with pytest.raises(BackendError, match=r"package inspect_ai is not installed; run: .*\[inspect\]"):
        FORMAT.files(tmp_path, results("inspect"))
