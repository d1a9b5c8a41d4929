"""Result CSVs of the adaptive-retrieval reference and sample logs of lm-evaluation-harness."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from longtail.errors import SourceError
from longtail.imports.formats.answers.adaptive_retrieval import (
    METHODS_OF_FILES,
    find_results,
    read_result_file,
    result_file,
)
from longtail.imports.formats.answers.lm_eval import read_log
from longtail.imports.formats.questions.popqa import read_popqa
from longtail.imports.results import ImportedAnswer
from longtail.parsing.line_files import RejectedRows
from longtail.scoring.match import score_answer
from longtail.storage.fingerprints import prompt_hash
from tests.imported_files import (
    choice_lines,
    log_lines,
    popqa_rows,
    result_name,
    result_rows,
    results,
    write_log,
    write_popqa,
    write_results,
)

ROWS = popqa_rows(("occupation",), 6)
RIGHT = [True, False, True, False, True, True]
CSV = results("adaptive_retrieval")
LOG = results("lm_eval")


@pytest.fixture
def questions(tmp_path: Path) -> dict[str, dict[str, Any]]:
    return read_popqa(write_popqa(tmp_path / "popqa.tsv", ROWS)).questions


def answers(path: Path, questions: dict[str, dict[str, Any]]) -> tuple[list[ImportedAnswer], RejectedRows]:
    rejected = RejectedRows(path.name)
    file = result_file(path)
    assert file is not None
    return list(read_result_file(file, questions, rejected)), rejected


@pytest.mark.parametrize(
    ("suffix", "expected"),
    [("", (False, 0, 1)), ("_int8bit", (True, 0, 1)), ("_int8bit-worker=2.4", (True, 2, 4))],
)
@pytest.mark.parametrize("method", METHODS_OF_FILES)
def test_names_say_how(method: str, suffix: str, expected: tuple[bool, int, int]) -> None:
    file = result_file(Path(result_name("org_m-1.3B-method=x", method, 14_267, 15, suffix)))
    assert file is not None
    assert (file.model, file.input, file.method) == ("org_m-1.3B-method=x", "popQA", METHODS_OF_FILES[method])
    assert (file.shots, file.n, (file.is_int8, file.worker, file.workers)) == (15, 14_267, expected)


def test_rows_by_id_with_what_the_file_says(tmp_path: Path, questions: dict[str, dict[str, Any]]) -> None:
    rows = result_rows(ROWS, RIGHT)
    found, rejected = answers(
        write_results(tmp_path, result_name("m", "BM25", 6, 15, "_int8bit"), rows[::-1]), questions
    )
    assert rejected.rows == []
    first = found[-1]
    assert (first.question_id, first.method, first.text, first.shots) == ("400000", "bm25", " Answer 0", 15)
    assert (first.is_correct, first.has_answer, first.passage) == (True, True, "psg0")
    assert (first.background, first.quantisation, first.made_by) == (None, "8bit", "m")
    assert first.prompt_hash == prompt_hash("Q: What is Subject 0's occupation? A:")
    (genread, *_), _ = answers(write_results(tmp_path, result_name("m", "genread", 6), rows), questions)
    assert (genread.background, genread.passage, genread.has_answer) == (
        "A text about Subject 0 and Answer 0.",
        None,
        None,
    )


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"id": "17"}, "column id: no question of the dataset has it"),
        (
            {"s_uri": "http://www.wikidata.org/entity/Q1"},
            "columns id and s_uri disagree: question 400000 is about Q50000",
        ),
    ],
)
def test_rows_that_are_put_aside(
    tmp_path: Path, questions: dict[str, dict[str, Any]], columns: dict[str, str], reason: str
) -> None:
    rows = result_rows(ROWS, RIGHT)
    found, rejected = answers(
        write_results(tmp_path, result_name("m", "vanilla", 6), [{**rows[0], **columns}, *rows[1:]]),
        questions,
    )
    assert len(found) == 5
    assert [row.reason for row in rejected.rows] == [reason]


def test_fewer_rows_than_the_name_says_are_told(tmp_path: Path, questions: dict[str, dict[str, Any]]) -> None:
    path = write_results(tmp_path, result_name("m", "vanilla", 9), result_rows(ROWS, RIGHT))
    found, rejected = answers(path, questions)
    assert len(found) == 6
    assert [row.reason for row in rejected.rows] == ["the file's name says n=9: it holds 6 whole rows"]


def test_workers_parts_are_one_run(tmp_path: Path) -> None:
    for i in range(3):
        write_results(
            tmp_path,
            result_name("m", "vanilla", 2, 0, f"-worker={i}.3"),
            result_rows(ROWS[i::3], RIGHT[i::3]),
        )
    assert [file.worker for file in find_results(tmp_path, CSV)] == [0, 1, 2]
    (tmp_path / result_name("m", "vanilla", 2, 0, "-worker=1.3")).unlink()
    with pytest.raises(SourceError, match=r"of the 3 workers' parts of .* these are missing: 1"):
        find_results(tmp_path, CSV)


def test_a_folder_of_several_models_wants_a_choice(tmp_path: Path) -> None:
    for model in ("one", "two"):
        write_results(tmp_path, result_name(model, "vanilla", 6), result_rows(ROWS, RIGHT))
    with pytest.raises(
        SourceError, match="holds several models: one, two; choose one by key model of results"
    ):
        find_results(tmp_path, CSV)
    chosen = find_results(tmp_path, results("adaptive_retrieval", model="two"))
    assert [file.model for file in chosen] == ["two"]
    with pytest.raises(SourceError, match="has no model 'three'; there are: one, two"):
        find_results(tmp_path, results("adaptive_retrieval", model="three"))


def test_two_runs_of_one_method_are_not_mixed(tmp_path: Path) -> None:
    for suffix in ("", "_int8bit"):
        write_results(tmp_path, result_name("m", "vanilla", 6, 0, suffix), result_rows(ROWS, RIGHT))
    with pytest.raises(
        SourceError, match="are several runs of method closed_book with 0 shots; make them several models"
    ):
        find_results(tmp_path, CSV)


def test_a_folder_without_results(tmp_path: Path) -> None:
    (tmp_path / "notes.csv").write_text("a\n")
    with pytest.raises(SourceError, match="holds no result file; a name such as model="):
        find_results(tmp_path, CSV)


def test_log_lines_by_id(tmp_path: Path, questions: dict[str, dict[str, Any]]) -> None:
    write_log(tmp_path / "samples_popqa_1.jsonl", log_lines(ROWS, RIGHT))
    found, rejected = read_log(tmp_path, LOG, questions)
    assert rejected == []
    assert [(a.question_id, a.text, a.is_correct) for a in found[:2]] == [
        ("400000", " Answer 0", True), ("400001", " no", False),
    ]  # fmt: skip
    assert found[0].prompt_hash == prompt_hash("Q: What is Subject 0's occupation? A:")
    assert found[0].place == "samples_popqa_1.jsonl line 1"


def test_older_logs_and_responses_without_a_filter(
    tmp_path: Path, questions: dict[str, dict[str, Any]]
) -> None:
    (line,) = log_lines(ROWS[:1], [True])
    line["arguments"] = [["the prompt", {"until": ["\n"]}]]
    for key in ("filtered_resps", "filter"):
        del line[key]
    path = write_log(tmp_path / "samples.jsonl", [line])
    ((found,), _) = read_log(path, LOG, questions)
    assert (found.text, found.prompt_hash) == (" Answer 0\nand more", prompt_hash("the prompt"))


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"doc": "text"}, "key doc: an object with 'id' was expected"),
        ({"doc": {"question": "?"}}, "key doc: an object with 'id' was expected"),
        ({"doc": {"id": 17}}, "key doc.id: no question of the dataset has it"),
        ({"filtered_resps": [[-3.0, False]]}, "key arguments: the text of each choice was expected"),
        ({"filtered_resps": []}, "keys filtered_resps and resps: a generated text was expected"),
    ],
)
def test_lines_that_are_put_aside(
    tmp_path: Path, questions: dict[str, dict[str, Any]], keys: dict[str, Any], reason: str
) -> None:
    lines = log_lines(ROWS, RIGHT)
    path = write_log(tmp_path / "samples.jsonl", [lines[0] | keys, *lines[1:]])
    found, (row,) = read_log(path, LOG, questions)
    assert len(found) == 5
    assert row.row_key == "samples.jsonl row 1"
    assert row.reason.startswith(reason)


def test_filters_and_metrics_are_chosen_not_guessed(
    tmp_path: Path, questions: dict[str, dict[str, Any]]
) -> None:
    lines = [*log_lines(ROWS, RIGHT, "strict"), *log_lines(ROWS, RIGHT, "loose")]
    path = write_log(tmp_path / "samples.jsonl", lines)
    with pytest.raises(
        SourceError, match="holds several filters: loose, strict; choose one by key filter of results"
    ):
        read_log(path, LOG, questions)
    chosen = results("lm_eval", filter="loose")
    assert len(read_log(path, chosen, questions)[0]) == 6
    with pytest.raises(SourceError, match="has no filter 'other'; there are: loose, strict"):
        read_log(path, results("lm_eval", filter="other"), questions)
    with pytest.raises(SourceError, match="no line has metric 'f1'"):
        read_log(path, results("lm_eval", filter="loose", metric="f1"), questions)


N = 60
LIKELIHOODS = ((-9.0, -2.0, -20.0), (-3.0, -4.0, -30.0), (-8.0, -9.5, -9.0))
CHOOSING = [
    {"id": str(i), "choices": [f"Rome {i}", f"Oslo in Norway {i}", f"The river that is long {i}"],
     "target": (i // 4) % 3, "likelihoods": LIKELIHOODS[i % 3]}
    for i in range(N)
]  # fmt: skip


def read_choices(
    tmp_path: Path, rows: list[dict[str, Any]], golds: list[list[str]], older: bool = False, **options: Any
) -> tuple[list[ImportedAnswer], list[str]]:
    path = write_log(tmp_path / "samples_arc_1.jsonl", choice_lines(rows, is_older=older))
    questions = {row["id"]: {"gold_answers": own} for row, own in zip(rows, golds, strict=True)}
    found, rejected = read_log(path, results("lm_eval", **options), questions)
    return found, [row.reason for row in rejected]


@pytest.mark.parametrize(("metric", "n_right"), [("acc", 15), ("acc_norm", 25)])
@pytest.mark.parametrize("older", [False, True])
@pytest.mark.parametrize("lettered", [False, True])
def test_the_likeliest_choice_is_right_by_our_rules_exactly_where_the_log_says_so(
    tmp_path: Path, metric: str, n_right: int, older: bool, lettered: bool
) -> None:
    golds = [[row["choices"][row["target"]]] for row in CHOOSING]
    rows = [
        {**row, "choices": ["A", "B", "C"], "doc": {"choices": {"text": row["choices"], "label": ["A", "B", "C"]}}}
        if lettered else row
        for row in CHOOSING
    ]  # fmt: skip
    found, rejected = read_choices(tmp_path, rows, golds, older, metric=metric)
    scores = [score_answer(one.text, own) for one, own in zip(found, golds, strict=True)]
    assert rejected == []
    assert [score.is_exact_match for score in scores] == [one.is_correct for one in found]
    assert [score.is_correct for score in scores] == [one.is_correct for one in found]
    if not lettered:
        assert sum(score.is_correct for score in scores) == n_right
        assert len({one.text for one in found}) == N
    assert found[0].prompt_hash == prompt_hash("Question: 0\nAnswer:")


def test_texts_of_choices_that_cannot_be_derived_are_told(tmp_path: Path) -> None:
    """Winogrande scores one continuation after several beginnings."""
    rows = [{"id": "1", "choices": ["is big.", "is big."], "target": 0, "likelihoods": (-1.0, -2.0)}]
    found, rejected = read_choices(tmp_path, rows, [["the trophy"]])
    assert (found, rejected) == (
        [],
        ["key arguments: the text of each choice was expected, and each only once"],
    )
    found, rejected = read_choices(tmp_path, CHOOSING[:2], [["Elsewhere"], CHOOSING[1]["choices"][:1]])
    assert [one.question_id for one in found] == ["1"]
    assert rejected[0].startswith(
        "target: the log's right choice is none of the question's gold answers: 'Rome 0'"
    )


def test_two_numbers_that_were_written_are_no_likelihoods(tmp_path: Path) -> None:
    line = {**log_lines(ROWS[:1], [True])[0], "filtered_resps": [["42", "43"]]}
    path = write_log(tmp_path / "samples_x_1.jsonl", [line])
    (found,), rejected = read_log(path, LOG, {"400000": {}})
    assert (found.text, rejected) == ("42", [])
