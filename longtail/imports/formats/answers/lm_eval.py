"""Sample logs of lm-evaluation-harness: `samples_<task>_<time>.jsonl`, one JSON object a document and filter.

Older versions do not name the filters: a document then has a line for each, in the order of the task's filters,
and they are called 1, 2 and so on.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from longtail.errors import SourceError
from longtail.imports.format import AnswerFormat, Method
from longtail.imports.records import check_keys, read_json_lines
from longtail.imports.results import (
    ImportedAnswer,
    Questions,
    answer_of,
    chosen_text,
    judge,
    only_log,
    only_one,
)
from longtail.methods import memory_method
from longtail.parsing.line_files import RejectedRows
from longtail.storage.fingerprints import prompt_hash
from longtail.storage.lake import QuarantinedRow
from longtail.study.imports import Results
from longtail.study.parts import Part
from longtail.study.values import Text, value_of

LOGS = "samples_*.jsonl"
METRICS = ("exact_match", "em", "acc", "acc_norm", "acc_bytes")
"""Metrics that say right or wrong, in the order of choice where results name none."""
_UNNAMED = " (the log does not name its filters: 1 is the first line of each document)"
_NUMBER = "doc_id"
"""A line's number of its document."""
_INDEXES = re.compile(r"\[?\d+(, \d+)*\]?")
"""The target of a multiple-choice task, or several of which each is right."""


def read_log(
    place: Path, declared: Results, questions: Questions
) -> tuple[list[ImportedAnswer], list[QuarantinedRow]]:
    """The lines of a log whose document is in `questions`; the others are put aside.

    Errors: `SourceError` if the file cannot be read, if it has several filters and the declaration names none, or if it
    lacks the filter or metric that the declaration names.
    """
    path = only_log(place, LOGS)
    rejected = RejectedRows(path.name)
    lines = list(read_json_lines(path, rejected))
    named = _filters([line for _, line in lines])
    filter_ = only_one(path, "filter", declared.option("filter"), named, _UNNAMED if "1" in named else "")
    meant = [line for line, name in zip(lines, named, strict=True) if name == filter_]
    metric = _metric(path, declared.option("metric"), [line for _, line in meant])
    find = _Documents(declared, questions, [line for _, line in meant])
    answers = []
    for number, line in meant:
        try:
            answers.append(_answer(path, number, line, find(line), declared, metric, questions))
        except ValueError as error:
            rejected.put(number, str(error), line)
    return answers, rejected.rows


def _filters(lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """The filter of each line."""
    if any("filter" in line for line in lines):
        return [str(line.get("filter", "none")) for line in lines]
    met: Counter[str] = Counter()
    numbers = []
    for line in lines:
        document = json.dumps([line.get("doc_id"), line.get("doc")], sort_keys=True)
        met[document] += 1
        numbers.append(str(met[document]))
    return numbers if "2" in numbers else ["none"] * len(numbers)


class _Documents:
    """Finds the question of a line by the key of its document that results name.

    Where no document has such a key, `doc_id` is the line's own number: the question's id, or else its row in the
    dataset's file, from 0. If results do not name it, the document or its prompt must show the question.
    """

    def __init__(self, declared: Results, questions: Questions, lines: Sequence[Mapping[str, Any]]) -> None:
        self._questions, self._key = questions, declared.option("id_field")
        self._by_row = {question["row"] - 1: key for key, question in questions.items() if "row" in question}
        have = {key for line in lines if isinstance(line.get("doc"), dict) for key in line["doc"]}
        self._by_number = self._key not in have and self._key in ("id", _NUMBER)

    def __call__(self, line: Mapping[str, Any]) -> str:
        """The question's id. Errors: `ValueError`."""
        doc = line.get("doc")
        if self._by_number and _NUMBER in line:
            return self._find_by_number(line)
        if not isinstance(doc, dict) or self._key not in doc:
            raise ValueError(f"key doc: an object with {self._key!r} was expected")
        question_id = str(doc[self._key]).strip()
        if question_id not in self._questions:
            raise ValueError(f"key doc.{self._key}: no question of the dataset has it")
        return question_id

    def _find_by_number(self, line: Mapping[str, Any]) -> str:
        number = line[_NUMBER]
        known = [str(number)] if str(number) in self._questions else []
        if known and self._key == _NUMBER:
            return known[0]
        shown = json.dumps([line.get("doc"), line.get("arguments")], ensure_ascii=False)
        for key in (*known, self._by_row.get(number if isinstance(number, int) else None)):
            question = key and json.dumps(self._questions[key].get("question"), ensure_ascii=False)
            if question and question[1:-1] in shown:
                return str(key)
        raise ValueError(
            "key doc_id: the document is not the question of the dataset with this id, or in this row"
        )


def _metric(path: Path, wanted: str | None, lines: list[dict[str, Any]]) -> str | None:
    if wanted is None:
        return next((name for name in METRICS if any(name in line for line in lines)), None)
    if not any(wanted in line for line in lines):
        raise SourceError(
            f"{path}: no line has metric {wanted!r}; leave key metric of results out, or name another"
        )
    return wanted


def _answer(
    path: Path,
    number: int,
    line: Mapping[str, Any],
    question_id: str,
    declared: Results,
    metric: str | None,
    questions: Questions,
) -> ImportedAnswer:
    """Errors: `ValueError` with the reason why the line cannot be used."""
    likelihoods, unread = _likelihoods(line), dict[str, str]()
    text = _choice(line, likelihoods, metric, questions[question_id]) if likelihoods else _text(line)
    return ImportedAnswer(
        question_id=question_id,
        method=declared.option("method"),
        place=f"{path.name} line {number}",
        prompt_hash=prompt_hash(prompt) if (prompt := _prompt(line.get("arguments"))) else None,
        is_correct=judge(metric, line.get(metric), unread) if metric else None,
        made_by=str(line.get("model_name", "")),
        **answer_of(text),
        unread=unread,
    )


def _text(line: Mapping[str, Any]) -> str | None:
    """The answer after the log's filter, None for null. Without that key: the first response. Errors: `ValueError`."""
    response = line.get("filtered_resps", line.get("resps"))
    while isinstance(response, list) and response:
        response = response[0]
    if response is None and ("filtered_resps" in line or "resps" in line):
        return None
    if not isinstance(response, str):
        raise ValueError(
            "keys filtered_resps and resps: a generated text was expected, or the likelihoods of choices"
        )
    return response


def _likelihoods(line: Mapping[str, Any]) -> list[float]:
    """The log likelihood of each choice, of a task of output type multiple_choice; empty for other tasks."""
    responses = line.get("filtered_resps", line.get("resps"))
    if not isinstance(responses, list) or not all(isinstance(response, list) for response in responses):
        return []
    try:
        pairs = [(float(likelihood), str(is_greedy)) for likelihood, is_greedy in responses]
    except (TypeError, ValueError):
        return []
    return [likelihood for likelihood, is_greedy in pairs if is_greedy in ("True", "False")]


def _choice(
    line: Mapping[str, Any], likelihoods: Sequence[float], metric: str | None, question: Mapping[str, Any]
) -> str:
    """The text of the likeliest choice, as the metric counts it. Errors: `ValueError` where it cannot be derived."""
    asked = [_argument(line.get("arguments"), number, 1) for number in range(len(likelihoods))]
    choices = [text.strip() for text in asked if isinstance(text, str)]
    if len({*choices}) < max(2, len(likelihoods)):
        raise ValueError("key arguments: the text of each choice was expected, and each only once")
    if any(map(math.isnan, likelihoods)):
        raise ValueError("keys filtered_resps and resps: a likelihood is no number")
    lengths = {"acc_norm": [*map(len, choices)], "acc_bytes": [len(text.encode()) for text in choices]}
    divisors = [length or 1 for length in lengths.get(metric or "", [1] * len(choices))]
    shares = [likelihood / divisor for likelihood, divisor in zip(likelihoods, divisors, strict=True)]
    target = str(line.get("target"))
    right = [int(number) for number in re.findall(r"\d+", target)] if _INDEXES.fullmatch(target) else []
    right = [choices.index(target)] if target in choices else right
    texts = _long_texts(line["doc"], len(choices)) if all(len(text) == 1 for text in choices) else None
    known = [[number] for number in right if number < len(choices)]
    return chosen_text(texts or choices, [shares.index(max(shares))], known, question)


def _long_texts(doc: Mapping[str, Any], n: int) -> list[str] | None:
    """The texts behind the letters that a task scores, where its document lists them, as MMLU's and ARC's do."""
    choices = doc.get("choices")
    choices = choices.get("text") if isinstance(choices, Mapping) else choices
    is_list = (
        isinstance(choices, list) and len(choices) == n and all(isinstance(choice, str) for choice in choices)
    )
    return choices if is_list else None


def _prompt(arguments: object) -> str | None:
    """The prompt: the first argument of the first request."""
    prompt = _argument(arguments, 0, 0)
    if isinstance(prompt, list):
        prompt = json.dumps(prompt, ensure_ascii=False)
    return prompt if isinstance(prompt, str) else None


def _argument(arguments: object, request: int, place: int) -> Any:
    """An argument of a request, None where it is missing. Versions of the harness write two shapes; both are read."""
    try:
        if isinstance(arguments, Mapping):
            return [*arguments.values()][request].get(f"arg_{place}")
        return arguments[request][place]  # type: ignore[index]
    except (AttributeError, IndexError, KeyError, TypeError):
        return None


def _check(path: Path, declared: Results) -> None:
    key = declared.option("id_field")
    id_keys = f"doc.{key}|{_NUMBER}" if key in ("id", _NUMBER) else f"doc.{key}"
    check_keys(path, [id_keys, "filtered_resps|resps"], declared)


@dataclass(frozen=True)
class LogKeys(Part):
    method: Method = memory_method().name
    id_field: Text = "id"
    """the key of `doc` with the question's id, or `doc_id`"""
    filter: Annotated[str, value_of("a text", str, type=["string", "integer"])] | None = None
    """chooses where a log has several; where an older log does not name them, 2 is the second line of each document"""
    metric: Text | None = None
    """chooses where a log has several"""


FORMAT = AnswerFormat(
    read=read_log,
    files=lambda place, _: [only_log(place, LOGS)],
    joins_by_row=True,
    check=_check,
    keys=LogKeys,
)
