"""Anybody's answers: a table with a column `prediction`, and what else it has.

Rows are joined to questions by their id. In a file without ids, it is made from the question and its gold answers, as in
a table of questions. Without gold answers, rows are joined by their number; a row must then repeat its question, so that
a file in another order is noticed. The text of a question alone is never a key.
"""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from longtail.errors import SourceError
from longtail.imports.column_names import Columns, is_there
from longtail.imports.format import LONGEST_QUESTION, AnswerFormat, ChosenRows, Quoting, Separator
from longtail.imports.formats.questions.table import answers_of, make_id, number_id
from longtail.imports.lines import AUTO
from longtail.imports.records import MOST_ASIDE
from longtail.imports.results import (
    CONFIDENCE_MEANINGS,
    ImportedAnswer,
    Questions,
    answer_of,
    confidence_of_row,
    drop_missing,
    goes_on,
    judge,
    only,
    only_one,
    text_of_field,
    verdict,
)
from longtail.imports.table_rows import Declared, OptionalValues, RefusedError, Row, Rows, read_table, text_of
from longtail.methods import memory_method
from longtail.parsing.line_files import RejectedRows
from longtail.prompt_formats import GROUNDING_PROMPTS, NULL
from longtail.storage.lake import QuarantinedRow
from longtail.study.imports import Results
from longtail.study.parts import Part
from longtail.study.values import Flag, Text, column_names

_FIELDS = ("refusal", "finish_reason", "reasoning")
"""What a service says beside a text, as `scoring.model_answer` reads it."""
_COUNTS = ("prompt_tokens", "new_tokens", "reasoning_tokens")
MEANINGS = (
    "prediction", "id", "question", "answers", "model", "method", "prompt", "grounding_prompt", "is_correct",
    "is_declined", *_FIELDS, "error", *_COUNTS, "latency_ms", *CONFIDENCE_MEANINGS,
)  # fmt: skip
"""What a column may hold."""
_BESIDE_CONTENT = {
    "refusal": "message.refusal",
    "finish_reason": "finish_reason",
    "reasoning": "message.reasoning_content",
}
"""What stands beside `message.content` in an answer of OpenAI's API, which many programs write down whole."""
_LOGS = (
    ({"custom_id", "response"}, "the output of a batch of OpenAI's API", "openai_batch"),
    (
        {"custom_id", "body"},
        "the input of a batch of OpenAI's API, without answers; name its output",
        "openai_batch",
    ),
    ({"doc", "resps"}, "a log of lm-evaluation-harness", "lm_eval"),
    ({"samples", "eval"}, "a log of Inspect", "inspect"),
)
"""Keys of logs, what they are, and the format that reads them."""
_BEGINNING = 200
"""Rows of a file that are looked at before a run; the import reads all of them."""
_ERROR = "the request ended in an error"
_LOG = logging.getLogger(__name__)


def read_answers(
    path: Path, declared: Results, questions: Questions
) -> tuple[list[ImportedAnswer], list[QuarantinedRow]]:
    """The answers of a file to `questions`, and the rows put aside. Rows of other models, methods, prompts are neither.

    Errors: `SourceError` where the file is no such table, where its rows cannot be joined, or where it has answers of
    several models, or none of the one that is declared.
    """
    rejected = RejectedRows(path.name, most=MOST_ASIDE)
    table = _rows(path, declared, rejected)
    for line in table.says:
        _LOG.info("%s: %s", path.name, line)
    answers, joined = [], _Joined(declared, questions)
    values = OptionalValues(path, partial(_advise, table.columns))
    for row in _chosen(path, declared, list(table.rows)):
        try:
            question_id, said = joined.question_id(row), _text(row, is_typed=table.is_typed)
            answers.append(_answer(path, row, declared, question_id, said, values))
        except RefusedError as refused:
            rejected.put(row.number, str(refused), row.values)
    values.lines()
    sure = [(answer.text, answer.confidence.confidence_tokens) for answer in answers if answer.confidence]
    n_going_on = sum(goes_on(text, n_tokens) for text, n_tokens in sure)
    if n_going_on:
        _LOG.info(
            "%s: %s of %s answers go on after their first line, or have more tokens than it needs: mean and least"
            " probability are those of other text, too, and only the first token's is used",
            path.name, f"{n_going_on:,}", f"{len(sure):,}",
        )  # fmt: skip
    return answers, rejected.list_rows()


def _rows(path: Path, declared: Results, rejected: RejectedRows, most: int | None = None) -> Rows:
    if path.suffix == ".eval" and not dict(declared.option("columns")).get("prediction"):
        _refuse_log(path, {"samples", "eval"})
    table = read_table(
        path,
        partial(_name_columns, path, declared),
        MEANINGS,
        ("prediction",),
        rejected,
        quoting=declared.option("quoting"),
        only=declared.option("rows"),
        most=most,
    )
    if not {"id", "question"} & {*table.columns}:
        raise SourceError(
            f"{path}: has neither ids nor questions, so that its rows cannot be joined; name one in the study: columns"
        )
    return table


def _advise(columns: Mapping[str, str], column: str, _values: Sequence[str], reason: str) -> str:
    """What to write in the study about values of a column that cannot be read."""
    meaning = next((meaning for meaning, name in columns.items() if name == column), column)
    return f"{reason}; correct them, or leave the column out: columns: {{{meaning}: null}}"


def _name_columns(path: Path, declared: Results, there: Columns) -> Declared:
    """The columns that the study names, and what stands beside a message whose content is the prediction.

    Errors: `SourceError` where the file is a log that has a format of its own, and the study names no prediction.
    """
    named: dict[str, str | None] = dict(declared.option("columns"))
    if not named.get("prediction"):
        _refuse_log(path, {name.split(".")[0] for name in there})
        return named
    before, content, _ = (named["prediction"] or "").rpartition("message.content")
    beside = {meaning: before + column for meaning, column in _BESIDE_CONTENT.items() if content}
    return {meaning: column for meaning, column in beside.items() if is_there(column, there)} | named


def _refuse_log(path: Path, keys_there: Collection[str]) -> None:
    """Errors: `SourceError` where the file is a log of a kind that another format reads."""
    for keys, what, format_ in _LOGS:
        if keys <= {*keys_there}:
            raise SourceError(f"{path}: is {what}; say in results: format: {format_}")


def _check(path: Path, declared: Results) -> None:
    """The file's beginning; where that is refused, all of it, since later rows may have what the first ones lack."""
    try:
        _check_rows(path, declared, _BEGINNING)
    except SourceError:
        _check_rows(path, declared, None)


def _check_rows(path: Path, declared: Results, most: int | None) -> None:
    table = _rows(path, declared, RejectedRows(path.name, most=0), most)
    values = OptionalValues(path, partial(_advise, table.columns))
    for row in _chosen(path, declared, list(table.rows)):
        with contextlib.suppress(RefusedError):
            _answer(path, row, declared, "", {"text": ""}, values)
    values.lines()


def _chosen(path: Path, declared: Results, rows: list[Row]) -> list[Row]:
    """The rows of the declared model, method and prompt."""
    wanted = {
        "model": declared.option("model"),
        "method": declared.option("method"),
        "prompt": declared.prompt,
    }
    for meaning, value in wanted.items():
        if not rows or meaning not in rows[0].columns:
            if meaning == "model" and value is not None:
                raise SourceError(
                    f"{path}: has no column with models; leave key model out, or name it in columns"
                )
        elif value is not None or meaning == "model":
            there = [str(row.values[meaning]).strip() or "(empty)" for row in rows]
            chosen = only_one(path, meaning, value, there)
            rows = [row for row, name in zip(rows, there, strict=True) if name == chosen]
    return rows


def _answer(
    path: Path, row: Row, declared: Results, question_id: str, said: dict[str, Any], values: OptionalValues
) -> ImportedAnswer:
    """Errors: `RefusedError`."""
    unread: dict[str, str] = {}

    def optional(meaning: str, read: Callable[[], Any]) -> Any:
        column = row.columns.get(meaning, meaning)

        def parse() -> Any:
            try:
                return read()
            except (RefusedError, ValueError) as error:
                unread[column] = str(error).removeprefix(f"column {column}: ")
                raise

        return values.read(row.number, column, row.values.get(meaning), parse)

    def read_verdict(meaning: str) -> bool | None:
        value = row.values.get(meaning)
        optional(meaning, lambda: verdict(value))
        return judge(row.columns.get(meaning, meaning), value, unread)

    counts = {meaning: optional(meaning, partial(row.count, meaning)) for meaning in _COUNTS}
    is_declined = read_verdict("is_declined")
    return ImportedAnswer(
        question_id=question_id,
        method=row.text("method") or declared.option("method") or memory_method().name,
        place=f"{path.name} row {row.number}",
        prompt=row.text("prompt"),
        grounding_prompt=_grounding_prompt(row),
        made_by=row.text("model") or "",
        is_correct=read_verdict("is_correct"),
        **counts,
        latency_ms=optional("latency_ms", partial(row.amount, "latency_ms")),
        confidence=confidence_of_row(
            row, optional, counts["new_tokens"], has_end_token=declared.option("end_token")
        ),
        **said | ({} if is_declined is None or said.get("failure") else {"is_declined": is_declined}),
        unread=unread,
    )


def _text(row: Row, *, is_typed: bool) -> dict[str, Any]:
    """The answer, a declined one, or why there is none. Errors: `RefusedError` where the prediction is no text."""
    said = row.values.get("prediction")
    said = text_of_field(said) if isinstance(said, str) and not is_typed else only(said)
    try:
        said = said if isinstance(said, str | list | Mapping) else text_of(said) or None
        answer = answer_of(said, **{meaning: _text_beside(row, meaning) for meaning in _FIELDS})
    except ValueError as error:
        raise row.error("prediction", error) from None
    if not answer["text"].strip() and not answer.get("is_declined") and _text_beside(row, "error"):
        return {"text": "", "failure": _ERROR}
    return answer


def _text_beside(row: Row, meaning: str) -> str | None:
    """A text beside the answer; None where it is missing. An object, as of an error, is its text."""
    value = only(row.values.get(meaning))
    if value in (None, False, 0, [], {}):
        return None
    text = drop_missing(value if isinstance(value, str) else str(value))
    return None if text in ("False", "false", "0", "{}", "[]") else text


def _grounding_prompt(row: Row) -> str | None:
    """The name of the row's grounding prompt, which the file may also give by its text; the null prompt is empty, or
    `null`. None in a file without this column."""
    if "grounding_prompt" not in row.columns:
        return None
    said = row.text("grounding_prompt", LONGEST_QUESTION) or NULL
    named = (name for name, prompt in GROUNDING_PROMPTS.items() if said in (name, prompt.text))
    return next(named, said)


class _Joined:
    """How rows are joined to questions."""

    def __init__(self, declared: Results, questions: Questions) -> None:
        self._dataset, self._separator = declared.dataset, declared.option("separator")
        self._questions = questions
        self._by_row = {question["row"]: key for key, question in questions.items() if "row" in question}
        self._repeats: Counter[Hashable] = Counter()

    def question_id(self, row: Row) -> str:
        """The id of the question that a row answers. Errors: `RefusedError`."""
        own_id = row.id()
        if own_id is not None:
            if own_id not in self._questions:
                raise row.error("id", f"no question of the dataset has the id {own_id}")
            return own_id
        made = self._make_id(row) if {"question", "answers"} <= set(row.columns) else None
        return made if made is not None and made in self._questions else self._by_number(row)

    def _make_id(self, row: Row) -> str | None:
        """The id that the row's question has in a table without ids; None if the row has no question or no answer."""
        try:
            question, golds = row.text("question", LONGEST_QUESTION), answers_of(row, self._separator)
        except RefusedError:
            return None
        how = [str(row.values.get(meaning)) for meaning in ("model", "method", "prompt")]
        return question and number_id(make_id(self._dataset, question, golds), self._repeats, *how)

    def _by_number(self, row: Row) -> str:
        question_id = self._by_row.get(row.number)
        if question_id is None:
            raise row.error(
                "question", f"no question of the dataset is this one, or stands in row {row.number}"
            )
        if row.text("question", LONGEST_QUESTION) != self._questions[question_id]["question"]:
            raise row.error(
                "question", f"question {question_id} of the dataset is another; rows are joined by number"
            )
        return question_id


@dataclass(frozen=True)
class TableKeys(Part):
    """`model` and `method`, and key `prompt` of the results, choose rows by the columns of these meanings."""

    columns: Annotated[tuple[tuple[str, str | None], ...], column_names(MEANINGS, may_be_none=True)] = ()
    """which columns hold the prediction and the rest"""
    rows: ChosenRows = ()
    quoting: Quoting = AUTO
    separator: Separator = None
    model: Text | None = None
    """chooses rows by their column `model`"""
    method: Text | None = None
    """chooses rows by their column `method`; without it, how the model was asked"""
    end_token: Flag = False
    """lists of tokens' probabilities end with that of the end token, which does not count"""


FORMAT = AnswerFormat(read=read_answers, tells_shots=True, joins_by_row=True, check=_check, keys=TableKeys)
