"""Anybody's answers: a table with a column `prediction`, and what else it has.

What belongs here: what the columns mean, which rows are meant, and which cannot be used. What does not: kinds of files
and names of columns (`table_rows`), under which prompt of the study rows stand, and scoring (`answers`).

Rows are joined to questions by their id. In a file without ids, it is made from the question and its gold answers, as in
a table of questions. Without gold answers, rows are joined by their number; a row must then repeat its question, so that
a file in another order is noticed. The text of a question alone is never a key.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping
from pathlib import Path
from typing import Any

from dagster_project.core.errors import SourceError
from dagster_project.core.imports import confidence
from dagster_project.core.imports.column_names import unusual
from dagster_project.core.imports.dataset import LONGEST_QUESTION
from dagster_project.core.imports.format import QUOTING_KEYS, AnswerFormat, optional_text, separator_key
from dagster_project.core.imports.records import MOST_ASIDE, RejectedRows
from dagster_project.core.imports.results import ImportedAnswer, Questions, truth
from dagster_project.core.imports.table import answers_of, made_id, numbered
from dagster_project.core.imports.table_rows import RefusedError, Row, check_table, columns_key, read_table
from dagster_project.core.methods import memory_method
from dagster_project.core.prompt_formats import GROUNDING_PROMPTS, NULL
from dagster_project.core.storage.lake import QuarantinedRow
from dagster_project.core.study.imports import Results

MEANINGS = (
    "prediction", "id", "question", "answers", "model", "method", "prompt", "grounding_prompt", "is_correct",
    "prompt_tokens", "new_tokens", "latency_ms", *confidence.MEANINGS,
)  # fmt: skip
"""What a column may hold."""
_LOG = logging.getLogger(__name__)
_EXTRAS: Mapping[str, Callable[[Row, str], Any]] = {
    "is_correct": lambda row, meaning: truth(row.values.get(meaning)),
    "prompt_tokens": Row.count,
    "new_tokens": Row.count,
    "latency_ms": Row.amount,
}
"""Meaning → how it is read. A row without these can be used."""


def read_answers(
    path: Path, declared: Results, questions: Questions
) -> tuple[list[ImportedAnswer], list[QuarantinedRow]]:
    """The answers of a file to `questions`, and the rows put aside. Rows of other models, methods, prompts are neither.

    Errors: `SourceError` where the file is no such table, where its rows cannot be joined, or where it has answers of
    several models, or none of the one that is declared.
    """
    rejected = RejectedRows(path.name, most=MOST_ASIDE)
    own = dict(declared.option("columns"))
    found = read_table(path, own, MEANINGS, ("prediction",), rejected, dict(declared.options)["quoting"])
    _check_joined(path, found.columns)
    for line in unusual(found.columns, own):
        _LOG.info("%s: %s", path.name, line)
    answers, joined = [], _Joined(declared, questions)
    for row in _chosen(path, declared, list(found.rows)):
        try:
            answers.append(_answer(path, row, declared, joined))
        except RefusedError as refused:
            rejected.put(row.number, str(refused), row.values)
    return answers, rejected.told()


def _check(path: Path, declared: Results) -> None:
    _check_joined(path, check_table(path, declared, declared.option("columns"), MEANINGS, ("prediction",)))


def _check_joined(path: Path, found: Collection[str]) -> None:
    if not {"id", "question"} & {*found}:
        raise SourceError(
            f"{path}: has neither ids nor questions, so that its rows cannot be joined; name one in the study: columns"
        )


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
            continue
        there = sorted({str(row.values[meaning]).strip() or "(empty)" for row in rows})
        if value is None and meaning == "model" and len(there) > 1:
            raise SourceError(
                f"{path}: holds answers of several models: {', '.join(there)[:300]}; choose by key model of results"
            )
        if value is not None:
            rows = [row for row in rows if str(row.values[meaning]) == value]
            if not rows:
                raise SourceError(
                    f"{path}: holds no row of {meaning} {value}; there are: {', '.join(there)[:300]}"
                )
    return rows


def _answer(path: Path, row: Row, declared: Results, joined: _Joined) -> ImportedAnswer:
    """Errors: `RefusedError`."""
    text = row.raw_text("prediction") or ""  # null, NaN and an empty field are an empty answer
    method = row.text("method") or declared.option("method") or memory_method().name
    extras, unread = _extras(row)
    return ImportedAnswer(
        question_id=joined.question_id(row),
        method=method,
        text=text,
        place=f"{path.name} row {row.number}",
        prompt=row.text("prompt"),
        grounding_prompt=_grounding_prompt(row),
        made_by=row.text("model") or "",
        confidence=confidence.confidence_of_row(row, has_end_token=declared.option("end_token")),
        unread=unread,
        **extras,
    )


def _grounding_prompt(row: Row) -> str | None:
    """The name of the row's grounding prompt, which the file may also give by its text; the null prompt is empty, or
    `null`. None in a file without this column."""
    if "grounding_prompt" not in row.columns:
        return None
    said = row.text("grounding_prompt", LONGEST_QUESTION) or NULL
    named = (name for name, prompt in GROUNDING_PROMPTS.items() if said in (name, prompt.text))
    return next(named, said)


def _extras(row: Row) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What a row says beside its answer, by meaning, and the columns whose value cannot be read."""
    found, unread = {}, []
    for meaning, read in _EXTRAS.items():
        try:
            found[meaning] = read(row, meaning)
        except (RefusedError, ValueError):
            unread.append(row.columns[meaning])
    return found, tuple(unread)


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
                raise row.refused("id", f"no question of the dataset has the id {own_id}")
            return own_id
        made = self._made_id(row) if {"question", "answers"} <= set(row.columns) else None
        return made if made is not None and made in self._questions else self._by_number(row)

    def _made_id(self, row: Row) -> str | None:
        """The id that the row's question has in a table without ids; None if the row has no question or no answer."""
        try:
            question, golds = row.text("question", LONGEST_QUESTION), answers_of(row, self._separator)
        except RefusedError:
            return None
        how = [str(row.values.get(meaning)) for meaning in ("model", "method", "prompt")]
        return question and numbered(made_id(self._dataset, question, golds), self._repeats, *how)

    def _by_number(self, row: Row) -> str:
        question_id = self._by_row.get(row.number)
        if question_id is None:
            raise row.refused(
                "question", f"no question of the dataset is this one, or stands in row {row.number}"
            )
        if row.text("question", LONGEST_QUESTION) != self._questions[question_id]["question"]:
            raise row.refused(
                "question", f"question {question_id} of the dataset is another; rows are joined by number"
            )
        return question_id


FORMAT = AnswerFormat(
    read=read_answers,
    tells_shots=True,
    joins_by_row=True,
    check=_check,
    keys={
        "columns": columns_key(MEANINGS),
        **QUOTING_KEYS,
        "separator": separator_key,
        "model": optional_text,
        "method": optional_text,
        "end_token": lambda reader, key: reader.flag(key),
    },
)
"""`columns` says which columns hold the prediction and the rest; `separator` is the sign between gold answers. `model`
and `method`, and key `prompt`, choose rows by the columns of these meanings; without such a column, `method` says how
the model was asked. With `end_token`, the lists of tokens' probabilities end with that of the end token, which does not
count."""
