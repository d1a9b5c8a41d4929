"""Result CSVs of the adaptive-retrieval reference (SPEC §1): what their names say, PopQA's columns and more.

An empty prediction beside a generation is an answer without text: the model began with a line break, which ends it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from longtail.errors import SourceError
from longtail.imports.format import AnswerFormat
from longtail.imports.records import Record, read_delimited
from longtail.imports.results import (
    ImportedAnswer,
    Questions,
    answer_of,
    drop_missing,
    judge,
    only_one,
    text_of_field,
)
from longtail.methods import BACKGROUND, METHODS, RETRIEVAL
from longtail.parsing.line_files import RejectedRows
from longtail.storage.fingerprints import prompt_hash
from longtail.storage.lake import QuarantinedRow
from longtail.study.imports import Results
from longtail.study.parts import Part
from longtail.study.values import Text

METHODS_OF_FILES = {
    "vanilla": "closed_book",
    "BM25": "bm25",
    "contriever": "contriever",
    "genread": "genread",
}
"""Contriever keeps its name, which is that of a retriever of the study: `dense` is another encoder's."""
COLUMNS = ("id", "pred", "is_correct")
_NAME = re.compile(
    r"model=(?P<model>.+)-input=(?P<input>.+)-method=(?P<method>vanilla|BM25|contriever|genread)"
    r"-shots=(?P<shots>\d{1,3})-n=(?P<n>\d{1,9})(?P<int8>_int8bit)?"
    r"(?:-worker=(?P<worker>\d{1,4})\.(?P<workers>\d{1,4}))?\.csv"
)
_EXPECTED = "model=…-input=…-method=vanilla|BM25|contriever|genread-shots=…-n=….csv"


@dataclass(frozen=True)
class ResultFile:
    """One file, and what its name says. If several workers wrote a run, the file is that of `worker` of `workers`."""

    path: Path
    model: str
    input: str
    method: str
    shots: int
    n: int
    is_int8: bool
    worker: int = 0
    workers: int = 1


def result_file(path: Path) -> ResultFile | None:
    """What a file's name says; None if it is no such file."""
    match = _NAME.fullmatch(path.name)
    if not match:
        return None
    numbers = {name: int(match[name]) for name in ("shots", "n", "worker", "workers") if match[name]}
    method, is_int8 = METHODS_OF_FILES[match["method"]], match["int8"] is not None
    return ResultFile(path, match["model"], match["input"], method, is_int8=is_int8, **numbers)


def find_results(place: Path, declared: Results) -> list[ResultFile]:
    """The files that the declaration names; the files of one run are together.

    Errors: `SourceError` if there is none, if the names do not tell the model or input apart, if two runs have the same
    method and shots, or if a worker's part is missing.
    """
    named = sorted(place.glob("*.csv")) if place.is_dir() else [place]
    files = [file for path in named if (file := result_file(path))]
    if not files:
        raise SourceError(f"{place}: holds no result file; a name such as {_EXPECTED} was expected")
    for key in ("model", "input"):
        chosen = only_one(place, key, declared.option(key), (getattr(file, key) for file in files))
        files = [file for file in files if getattr(file, key) == chosen]
    _check_runs(place, files)
    return files


def read_result_file(
    file: ResultFile, questions: Questions, rejected: RejectedRows
) -> Iterator[ImportedAnswer]:
    """The rows of a file whose question is in `questions`; the others go to `rejected`.

    If a file has fewer or more rows than its name says, `rejected` says so too. Errors: as `read_delimited`.
    """
    n_rows = 0
    for record in read_delimited(file.path, ",", COLUMNS, rejected):
        n_rows += 1
        answer = _answer(file, record, questions)
        if isinstance(answer, str):
            rejected.put(record.row, answer, record.fields)
        else:
            yield answer
    if n_rows != file.n:
        rejected.put("count", f"the file's name says n={file.n}: it holds {n_rows} whole rows")


def _check_runs(place: Path, files: Sequence[ResultFile]) -> None:
    runs: dict[tuple[str, int], list[ResultFile]] = {}
    for file in files:
        runs.setdefault((file.method, file.shots), []).append(file)
    for (method, shots), parts in runs.items():
        first, workers = parts[0], {part.worker for part in parts}
        is_one = all((part.is_int8, part.workers) == (first.is_int8, first.workers) for part in parts)
        if not is_one or len(workers) < len(parts):
            names = ", ".join(part.path.name for part in parts)
            raise SourceError(
                f"{place}: {names} are several runs of method {method} with {shots} shots; make them several models,"
                " each with its own path"
            )
        if missing := sorted({*range(first.workers)} - workers):
            raise SourceError(
                f"{place}: of the {first.workers} workers' parts of {first.path.name} these are missing:"
                f" {', '.join(map(str, missing))}"
            )


def _answer(file: ResultFile, record: Record, questions: Questions) -> ImportedAnswer | str:
    """The row, or why it cannot be used."""
    question_id = record.get("id").strip().removesuffix(".0")
    question = questions.get(question_id)
    if question is None:
        return "column id: no question of the dataset has it"
    subject = record.get("s_uri").strip().rpartition("/")[2]
    if subject and question["subject_id"] not in (None, subject):
        return f"columns id and s_uri disagree: question {question_id} is about {question['subject_id']}"
    unread: dict[str, str] = {}
    verdicts = {name: judge(name, record.get(name), unread) for name in ("is_correct", "has_answer")}
    said: object = record.get("pred")
    if drop_missing(record.get("generation")) is None:
        said = text_of_field(record.get("pred"))
    method = METHODS.get(file.method)
    kind = method.kind if method else RETRIEVAL
    return ImportedAnswer(
        question_id=question_id,
        method=file.method,
        place=f"{file.path.name} row {record.row}",
        shots=file.shots,
        prompt_hash=prompt_hash(prompt) if (prompt := drop_missing(record.get("prompt"))) else None,
        is_correct=verdicts["is_correct"],
        has_answer=verdicts["has_answer"] if kind == RETRIEVAL else None,
        passage=drop_missing(record.get("retrieval_id")) if kind == RETRIEVAL else None,
        background=drop_missing(record.get("gen_passage")) if kind == BACKGROUND else None,
        quantisation="8bit" if file.is_int8 else "none",
        made_by=file.model,
        **answer_of(said),
        unread=unread,
    )


def _read(
    place: Path, declared: Results, questions: Questions
) -> tuple[list[ImportedAnswer], list[QuarantinedRow]]:
    answers: list[ImportedAnswer] = []
    rows: list[QuarantinedRow] = []
    for file in find_results(place, declared):
        rejected = RejectedRows(file.path.name)
        answers += read_result_file(file, questions, rejected)
        rows += rejected.rows
    return answers, rows


@dataclass(frozen=True)
class ResultKeys(Part):
    model: Text | None = None
    """chooses among the files of a folder, as their names write it"""
    input: Text | None = None
    """chooses among the files of a folder, as their names write it"""


FORMAT = AnswerFormat(
    read=_read,
    files=lambda place, declared: [file.path for file in find_results(place, declared)],
    tells_shots=True,
    keys=ResultKeys,
)
