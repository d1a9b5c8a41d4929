"""Anybody's answers: rows are joined by id, chosen by model, method and prompt, and every fault is told."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from longtail.errors import LongtailError, SourceError
from longtail.generation.prompts.endings import FIRST_LINE, cut_text
from longtail.imports.formats.answers.table import FORMAT, read_answers
from longtail.imports.formats.questions.table import make_id, read_questions
from longtail.imports.results import ImportedAnswer
from longtail.scoring.match import score_answer
from longtail.scoring.model_answer import Confidence
from longtail.storage.lake import QuarantinedRow
from longtail.study.imports import Import, Results
from longtail.study.parts import read_part
from tests.imported_files import results
from tests.real_data import REAL_DATA, needs_real_data

ASKED = {str(i): {"question": f"Who is {i}?", "gold_answers": ["Ada"], "row": i} for i in range(1, 4)}


def read(
    path: Path, questions: Mapping[str, Mapping[str, Any]] = ASKED, **keys: Any
) -> tuple[list[ImportedAnswer], list[QuarantinedRow]]:
    raw = {"format": "table", "path": str(path), "dataset": "d", **keys}
    return read_answers(path, read_part(Results, raw, path, "results[0]"), questions)


def written(path: Path, rows: str | Sequence[Mapping[str, Any]]) -> Path:
    text = rows if isinstance(rows, str) else "".join(json.dumps(row) + "\n" for row in rows)
    path.write_text(text, encoding="utf-8")
    return path


def test_every_column_arrives(tmp_path: Path) -> None:
    row = {
        "key": 2, "out": "Ada\nmore", "model": "m", "method": "bm25", "how": "plain", "is_correct": True,
        "prompt_tokens": 7.0, "new_tokens": 3, "latency_ms": 1.5,
    }  # fmt: skip
    path = written(tmp_path / "f.jsonl", [row])
    columns = {"id": "key", "prediction": "out", "prompt": "how"}
    assert read(path, columns=columns) == (
        [
            ImportedAnswer(
                "2", "bm25", "Ada\nmore", "f.jsonl row 1", is_correct=True, made_by="m", prompt="plain",
                prompt_tokens=7, new_tokens=3, latency_ms=1.5,
            )
        ],
        [],
    )  # fmt: skip


def test_other_tools_names_and_paths(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    flash = {"id": "1", "question": "Who is 1?", "golden_answers": ["Ada"], "output": {"pred": "Ada"}}
    ragas = {"user_input": "Who is 1?", "response": "Ada", "reference": "Ada"}
    older = {"question": "Who is 1?", "answer": "Ada", "ground_truth": "Ada"}
    caplog.set_level("INFO")
    for row, columns in (
        (flash, {}),
        (ragas, {}),
        (older, {"prediction": "answer"}),
        ({"id": 1, "Res": "Ada"}, {}),
    ):
        found, rejected = read(written(tmp_path / "f.jsonl", [row]), columns=columns)
        assert ([(one.question_id, one.text) for one in found], rejected) == ([("1", "Ada")], [])
    assert "f.jsonl: column Res is read as prediction" in caplog.messages
    assert "f.jsonl: column answer is read as prediction" not in caplog.messages, "the study says so"


def test_what_a_file_does_not_say_is_none_and_its_prompt_text_is_no_name(tmp_path: Path) -> None:
    path = written(tmp_path / "f.csv", "id;prediction;prompt\n1;Ada;Q: Who is 1? A:\n")
    assert read(path) == ([ImportedAnswer("1", "closed_book", "Ada", "f.csv row 1")], [])


def test_one_file_can_be_dataset_and_results(tmp_path: Path) -> None:
    path = written(
        tmp_path / "f.csv",
        "question,answer,prediction\nWho?,Ada,Bo\nWhere?,,Rome\nWhen?,Now,Now\nWho?,Ada,Ada\n",
    )
    declared = read_part(Import, {"format": "table", "path": "f.csv"}, path, "import")
    questions = read_questions(path, declared, "d").questions
    found, rejected = read(path, questions)
    assert [(answer.question_id, answer.text) for answer in found] == list(
        zip(questions, ["Bo", "Now", "Ada"], strict=True)
    )
    assert [row.reason for row in rejected] == [
        "column question: no question of the dataset is this one, or stands in row 2"
    ]


def test_rows_in_another_order_and_of_several_methods_are_joined_by_question_and_gold_answers(
    tmp_path: Path,
) -> None:
    first, other = make_id("d", "Who?", ["Ada", "Bo"]), make_id("d", "Who?", ["Cy"])
    questions = {key: {"question": "Who?"} for key in (first, other, f"{first}-2")}
    methods = [("a", "closed_book"), ("b", "bm25"), ("c", "closed_book")]
    rows = [{"question": "Who?", "reference": "Cy", "prediction": "z", "method": "bm25"}]
    rows += [{"question": "Who?", "reference": "Bo;Ada", "prediction": p, "method": m} for p, m in methods]
    path = written(tmp_path / "f.jsonl", rows)
    found, rejected = read(path, questions, columns={"answers": "reference"}, separator=";")
    assert rejected == []
    ids = [(answer.question_id, answer.text) for answer in found]
    assert ids == [(other, "z"), (first, "a"), (first, "b"), (f"{first}-2", "c")]


SEVERAL = (
    "id,prediction,model,method,how\n"
    "1,a,m,closed_book,p\n1,b,n,closed_book,p\n1,c,m,bm25,p\n1,d,m,closed_book,q\n"
)


@pytest.mark.parametrize(
    ("keys", "texts"),
    [
        ({"model": "n"}, ["b"]),
        ({"model": "m"}, ["a", "c", "d"]),
        ({"model": "m", "method": "bm25"}, ["c"]),
        ({"model": "m", "method": "closed_book", "prompt": "q"}, ["d"]),
    ],
)
def test_rows_are_chosen_by_model_method_and_prompt(
    tmp_path: Path, keys: dict[str, Any], texts: list[str]
) -> None:
    found, rejected = read(written(tmp_path / "f.csv", SEVERAL), columns={"prompt": "how"}, **keys)
    assert [answer.text for answer in found] == texts
    assert rejected == []


def test_without_a_column_the_key_says_the_method(tmp_path: Path) -> None:
    found, _ = read(written(tmp_path / "f.csv", "id,prediction\n1,a\n"), method="oracle")
    assert [answer.method for answer in found] == ["oracle"]


@pytest.mark.parametrize(
    ("content", "keys", "words"),
    [
        ("id,answer\n1,a\n", {}, "no column has a usual name of prediction; name it in the study"),
        ("prediction\na\n", {}, "has neither ids nor questions, so that its rows cannot be joined"),
        (SEVERAL, {}, "holds several models: m, n; choose one by key model of results"),
        (SEVERAL, {"model": "x"}, "has no model 'x'; there are: m, n"),
        ("id,prediction\n1,a\n", {"model": "x"}, "has no column with models; leave key model out"),
    ],
)
def test_files_that_are_refused(tmp_path: Path, content: str, keys: dict[str, Any], words: str) -> None:
    path = written(tmp_path / "f.csv", content)
    with pytest.raises(SourceError, match=str(path)) as caught:
        read(path, **keys)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("row", "reason"), [({"id": "9"}, "column id: no question of the dataset has the id 9")]
)
def test_a_bad_row_is_put_aside_with_its_reason(tmp_path: Path, row: dict[str, Any], reason: str) -> None:
    good = {"id": "1", "prediction": "a", "method": "bm25", "is_correct": 1, "new_tokens": 1, "latency_ms": 1}
    found, rejected = read(written(tmp_path / "f.jsonl", [good, {**good, "id": "2", **row}]))
    assert [answer.question_id for answer in found] == ["1"]
    assert [put.row_key for put in rejected] == ["f.jsonl row 2"]
    assert reason in rejected[0].reason


@pytest.mark.parametrize(
    ("column", "value"),
    [("is_correct", "perhaps"), ("new_tokens", 1.5), ("prompt_tokens", 1e12), ("latency_ms", "fast")],
)
def test_a_value_beside_the_answer_that_cannot_be_read_is_left_out_and_named(
    tmp_path: Path, column: str, value: object
) -> None:
    (answer,), rejected = among_others(tmp_path, {column: value})
    assert ([*answer.unread], getattr(answer, column), answer.text, rejected) == ([column], None, "a", [])
    (answer,), _ = among_others(tmp_path, {column: value}, columns={column: None})
    assert answer.unread == {}


GOOD = {
    "is_correct": 1, "new_tokens": 2, "prompt_tokens": 1, "latency_ms": 1, "token_probs": [1, 1],
    "token_logprobs": [0, 0],
    "token_probabilities": [1, 1], "token_log_probabilities": [0, 0], "token_entropy": [0, 0], "token_entropies": [0, 0],
    "sum_log_probability": -1, "confidence_tokens": 2, "least_probability": 0.5,
}  # fmt: skip


def among_others(
    folder: Path, row: Mapping[str, Any], **keys: Any
) -> tuple[list[ImportedAnswer], list[QuarantinedRow]]:
    """The answer of a row, which stands among ten others whose columns can all be read."""
    stated = (
        ("sum_log_probability", "confidence_tokens") if "least_probability" in row or len(row) == 1 else ()
    )
    good = {"prediction": "a"} | {column: GOOD[column] for column in (*row, *stated) if column in GOOD}
    if keys.get("end_token"):
        good["token_probs"] = [1, 1, 1]
    rows = [{"id": i, **good} for i in range(10)] + [{"id": 10, "prediction": "a", **row}]
    found, rejected = read(
        written(folder / "f.jsonl", rows), {str(i): {"question": "?"} for i in range(11)}, **keys
    )
    return found[10:], rejected


def test_more_than_a_tenth_that_cannot_be_read_stops_the_run_and_says_what_helps(tmp_path: Path) -> None:
    rows = [{"id": i, "prediction": "a", "latency_ms": i if i > 2 else f"{i} s"} for i in range(29)]
    questions = {str(i): {"question": "?"} for i in range(29)}
    path = written(tmp_path / "f.jsonl", rows)
    for look in (lambda: read(path, questions), lambda: FORMAT.check(path, results("table"))):
        with pytest.raises(
            SourceError, match="column latency_ms: 3 of 29 values cannot be read: '0 s'"
        ) as raised:
            look()
        assert str(raised.value).endswith("leave the column out: columns: {latency_ms: null}")
    assert len(read(path, questions, columns={"latency_ms": None})[0]) == 29
    FORMAT.check(written(path, [*rows, {**rows[5], "id": 1}]), results("table"))


def test_before_a_run_the_beginning_of_a_file_decides(tmp_path: Path) -> None:
    rows = [{"id": i, "prediction": "a", "latency_ms": 1 if i < 300 else "1 s"} for i in range(600)]
    path = written(tmp_path / "f.jsonl", rows)
    FORMAT.check(path, results("table"))
    with pytest.raises(SourceError, match="300 of 600 values cannot be read"):
        read(path, {str(i): {"question": "?"} for i in range(600)})


def test_rows_in_another_order_are_noticed_where_there_are_no_ids(tmp_path: Path) -> None:
    rows = [{"question": f"Who is {i}?", "prediction": str(i)} for i in (1, 3, 2)]
    found, rejected = read(written(tmp_path / "f.jsonl", rows))
    assert [answer.text for answer in found] == ["1"]
    assert {row.reason for row in rejected} == {
        f"column question: question {i} of the dataset is another; rows are joined by number" for i in (2, 3)
    }


@needs_real_data
@pytest.mark.parametrize(
    ("name", "right_by_file", "right_by_us", "differ_normalised"),
    [("gpt_3.5_turbo", 1_405, 1_380, 1), ("llama_3_8b", 607, 591, 1), ("qwen2.5_7b", 205, 203, 0)],
)
def test_real_answers_are_judged_as_their_authors_did_but_for_a_few(
    name: str, right_by_file: int, right_by_us: int, differ_normalised: int
) -> None:
    """The files hold the same songs in the same order. The authors compared normalised texts; PopQA's rule does not."""
    files = [REAL_DATA / "songs" / f"{one}.jsonl.gz" for one in ("gpt_3.5_turbo", name)]
    raw = {"format": "table", "path": "x", "columns": {"answers": "reference"}}
    dataset = read_questions(files[0], read_part(Import, raw, files[0], "import"), "d")
    found, rejected = read(
        files[1], dataset.questions, columns={"is_correct": "has_answer", "answers": "reference"}
    )
    assert (len(dataset.questions), dataset.rejected, len(found), rejected) == (2_157, [], 2_157, [])
    golds = {key: question["gold_answers"] for key, question in dataset.questions.items()}
    scores = [score_answer(cut_text(one.text, FIRST_LINE), golds[one.question_id]) for one in found]
    assert sum(bool(one.is_correct) for one in found) == right_by_file
    assert sum(score.is_correct for score in scores) == right_by_us
    pairs = list(zip(scores, found, strict=True))
    assert not any(score.is_correct and not one.is_correct for score, one in pairs)
    assert sum(score.is_correct_normalized != one.is_correct for score, one in pairs) == differ_normalised


def sure(path: Path, row: Mapping[str, Any], **keys: Any) -> Confidence | str | None:
    """The confidence of a row, or why it cannot be read."""
    (answer,), rejected = among_others(path, row, **keys)
    assert (answer.text, rejected) == ("a", []), "the answer counts all the same"
    return answer.confidence or next(iter(answer.unread.values()), None)


@pytest.mark.parametrize(
    "row",
    [
        {"token_probs": [0.5, 0.25, 0.75], "token_entropy": [1.0, 0.5, 0.0]},
        {"token_probabilities": "[0.5, 0.25, 0.75]", "token_entropies": "[1, 0.5, 0]", "new_tokens": 3},
        {
            "token_log_probabilities": [math.log(0.5), math.log(0.25), math.log(0.75)],
            "token_entropies": [1, 0.5, 0],
        },
        {
            "confidence_tokens": 3, "sum_log_probability": -2.367124, "least_probability": 0.25,
            "first_probability": 0.5, "mean_entropy": 0.5,
        },
    ],
)  # fmt: skip
def test_confidence_comes_from_lists_or_numbers(tmp_path: Path, row: Mapping[str, Any]) -> None:
    assert sure(tmp_path, row) == Confidence(3, -2.367124, 0.25, 0.5, None, 0.5)


def test_the_end_tokens_probability_does_not_count(tmp_path: Path) -> None:
    row = {"token_probs": [0.5, 0.25, 0.001], "new_tokens": 2}
    assert sure(tmp_path, row, end_token=True) == Confidence(2, -2.079442, 0.25, 0.5)
    assert "3 numbers for 2 tokens; end_token: true leaves out the end token's" in str(sure(tmp_path, row))


@pytest.mark.parametrize("row", [{}, {"token_probs": None}, {"token_probs": []}, {"token_probs": ""}])
def test_a_row_without_probabilities_has_no_confidence(tmp_path: Path, row: Mapping[str, Any]) -> None:
    assert sure(tmp_path, row) is None


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"token_probs": [0.5, 1.2]}, "a probability above 0, and at most 1, was expected, not 1.2"),
        ({"token_probs": [0.5, None]}, "number 2 of the list is missing"),
        ({"token_probs": "0.5 0.4"}, "a list of numbers was expected, not '0.5 0.4'"),
        ({"token_probs": [-0.5, -2]}, "token_log_probabilities: token_probs}"),
        ({"token_probs": [0.5], "new_tokens": 2}, "1 numbers for 2 tokens"),
        ({"token_logprobs": [-0.5, -math.inf]}, "the logarithm of a probability was expected, not -inf"),
        ({"least_probability": 0.5, "confidence_tokens": 2}, "confidence_tokens is expected with it"),
    ],
)
def test_a_confidence_that_cannot_be_read_is_unknown_and_the_answer_stays(
    tmp_path: Path, row: Mapping[str, Any], reason: str
) -> None:
    assert reason in str(sure(tmp_path, row))


@pytest.mark.parametrize("entropies", [[1.0, 2.0], [-1], ["a"]])
def test_entropies_that_cannot_be_read_leave_the_probabilities(tmp_path: Path, entropies: list[Any]) -> None:
    (answer,), _ = among_others(tmp_path, {"token_probs": [0.5], "token_entropy": entropies})
    assert (answer.confidence, [*answer.unread]) == (Confidence(1, -0.6931472, 0.5, 0.5), ["token_entropy"])


def test_log_probabilities_of_the_whole_answer_are_read(tmp_path: Path) -> None:
    row = {"mean_logprob": -0.5, "min_logprob": -1.0, "first_token_logprob": -0.25, "confidence_tokens": 4}
    expected = Confidence(4, -2.0, math.exp(-1.0), math.exp(-0.25))
    assert sure(tmp_path, row) == expected
    assert sure(tmp_path, row | {"sum_log_probability": -1.5}) == dataclasses.replace(
        expected, sum_log_probability=-1.5
    )
    assert sure(tmp_path, row | {"min_logprob": -2000.0}).least_probability > 0  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "n_tokens", "is_told"),
    [("Rock", 4, False), ("Rock", 5, True), ("Rock\nthought\nRock", 4, True), ("рок", 9, True)],
)
def test_answers_that_go_on_after_their_first_line_are_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str, n_tokens: int, is_told: bool
) -> None:
    caplog.set_level("INFO")
    row = {"id": "1", "prediction": text, "mean_logprob": -0.5, "confidence_tokens": n_tokens}
    read(written(tmp_path / "f.jsonl", [row]))
    assert ("1 of 1 answers go on after their first line" in caplog.text) is is_told


def test_rows_are_chosen_by_any_column(tmp_path: Path) -> None:
    rows = [
        {"id": "1", "prediction": "Ada", "method": "memory", "run": {"is_final": True}},
        {"id": "2", "prediction": "Bob", "method": "retrieval", "run": {"is_final": True}},
        {"id": "3", "prediction": "Eve", "method": "memory", "run": {"is_final": False}},
    ]
    path = written(tmp_path / "f.jsonl", rows)
    answers, aside = read(path, method="closed_book", rows={"method": "memory", "run.is_final": True})
    assert ([(one.question_id, one.method) for one in answers], aside) == ([("1", "closed_book")], [])
    with pytest.raises(SourceError, match=r"column how is missing, which rows\.how names"):
        read(path, rows={"how": "memory"})
    with pytest.raises(LongtailError, match="one value each"):
        read(path, rows={"method": ["memory"]})


def test_questions_that_key_rows_leaves_out_are_counted(tmp_path: Path) -> None:
    rows = [{"question": f"Who is {i}?", "answers": ["Ada"], "improper": i == 2} for i in (1, 2, 3)]
    path = written(tmp_path / "q.jsonl", rows)
    raw = {"format": "table", "path": str(path), "rows": {"improper": False}}
    dataset = read_questions(path, read_part(Import, raw, path, "import"), "d")
    assert [question["question"] for question in dataset.questions.values()] == ["Who is 1?", "Who is 3?"]
    assert "1 rows are left out by key rows of the study" in dataset.says
