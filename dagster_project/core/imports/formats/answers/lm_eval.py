"""Sample logs of lm-evaluation-harness: `samples_<task>_<time>.jsonl`, one JSON object a document and filter.

What belongs here: the log's keys (doc, arguments, resps, filtered_resps, filter, metrics) and which lines cannot be
used. What does not: under which prompt of the study they stand, and scoring (`answers`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dagster_project.core.errors import SourceError
from dagster_project.core.imports.choices import chosen_text
from dagster_project.core.imports.column_checks import having
from dagster_project.core.imports.format import AnswerFormat, optional_text
from dagster_project.core.imports.records import RejectedRows, read_json_lines
from dagster_project.core.imports.results import ImportedAnswer, Questions, only_log, only_one, truth
from dagster_project.core.methods import memory_method
from dagster_project.core.storage.fingerprints import prompt_hash
from dagster_project.core.storage.lake import QuarantinedRow
from dagster_project.core.study.imports import Results

LOGS = "samples_*.jsonl"
METRICS = ("exact_match", "em", "acc", "acc_norm", "acc_bytes")
"""Metrics that say right or wrong, in the order of choice where results name none."""
_INDEXES = re.compile(r"\[?\d+(, \d+)*\]?")
"""The target of a multiple-choice task, or several of which each is right."""


def read_log(
    path: Path, declared: Results, questions: Questions, rejected: RejectedRows
) -> list[ImportedAnswer]:
    """The lines of a log whose document is in `questions`; the others go to `rejected`.

    Errors: `SourceError` if the file cannot be read, if it has several filters and the declaration names none, or if it
    lacks the filter or metric that the declaration names.
    """
    lines = list(read_json_lines(path, rejected))
    there = (str(line.get("filter", "none")) for _, line in lines)
    filter_ = only_one(path, "filter", declared.option("filter"), there)
    meant = [(number, line) for number, line in lines if str(line.get("filter", "none")) == filter_]
    metric = _metric(path, declared.option("metric"), [line for _, line in meant])
    answers = []
    for number, line in meant:
        found = _answer(path, number, line, declared, metric, questions)
        if isinstance(found, str):
            rejected.put(number, found, line)
        else:
            answers.append(found)
    return answers


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
    declared: Results,
    metric: str | None,
    questions: Questions,
) -> ImportedAnswer | str:
    """The line, or why it cannot be used."""
    doc, id_field = line.get("doc"), declared.option("id_field")
    if not isinstance(doc, dict) or id_field not in doc:
        return f"key doc: an object with {id_field!r} was expected"
    question_id = str(doc[id_field]).strip()
    if question_id not in questions:
        return f"key doc.{id_field}: no question of the dataset has it"
    try:
        likelihoods = _likelihoods(line)
        text = _choice(line, likelihoods, metric, questions[question_id]) if likelihoods else _text(line)
    except ValueError as error:
        return str(error)
    if text is None:
        return "keys filtered_resps and resps: a generated text was expected, or the likelihoods of choices"
    try:
        is_correct = truth(line.get(metric)) if metric else None
    except ValueError as error:
        return f"key {metric}: {error}"
    return ImportedAnswer(
        question_id=question_id,
        method=declared.option("method"),
        text=text,
        place=f"{path.name} line {number}",
        prompt_hash=prompt_hash(prompt) if (prompt := _prompt(line.get("arguments"))) else None,
        is_correct=is_correct,
        made_by=str(line.get("model_name", "")),
    )


def _text(line: Mapping[str, Any]) -> str | None:
    """The answer after the log's filter. Without that key: the first response."""
    found = line.get("filtered_resps", line.get("resps"))
    while isinstance(found, list) and found:
        found = found[0]
    return found if isinstance(found, str) else None


def _likelihoods(line: Mapping[str, Any]) -> list[float]:
    """The log likelihood of each choice, of a task of output type multiple_choice; empty for other tasks."""
    found = line.get("filtered_resps", line.get("resps"))
    if not isinstance(found, list) or not all(isinstance(one, list) for one in found):
        return []
    try:
        pairs = [(float(likelihood), str(is_greedy)) for likelihood, is_greedy in found]
    except (TypeError, ValueError):
        return []
    return [likelihood for likelihood, is_greedy in pairs if is_greedy in ("True", "False")]


def _choice(
    line: Mapping[str, Any], likelihoods: Sequence[float], metric: str | None, question: Mapping[str, Any]
) -> str:
    """The text of the likeliest choice, as the metric counts it. Errors: `ValueError` where it cannot be derived."""
    asked = [_argument(line.get("arguments"), number, 1) for number in range(len(likelihoods))]
    choices = [one.strip() for one in asked if isinstance(one, str)]
    if len({*choices}) < max(2, len(likelihoods)):
        raise ValueError("key arguments: the text of each choice was expected, and each only once")
    lengths = {"acc_norm": [*map(len, choices)], "acc_bytes": [len(one.encode()) for one in choices]}
    divisors = [length or 1 for length in lengths.get(metric or "", [1] * len(choices))]
    shares = [likelihood / divisor for likelihood, divisor in zip(likelihoods, divisors, strict=True)]
    target = str(line.get("target"))
    right = [int(number) for number in re.findall(r"\d+", target)] if _INDEXES.fullmatch(target) else []
    right = [choices.index(target)] if target in choices else right
    texts = _long_texts(line["doc"], len(choices)) if all(len(one) == 1 for one in choices) else None
    known = [[number] for number in right if number < len(choices)]
    return chosen_text(texts or choices, [shares.index(max(shares))], known, question)


def _long_texts(doc: Mapping[str, Any], n: int) -> list[str] | None:
    """The texts behind the letters that a task scores, where its document lists them, as MMLU's and ARC's do."""
    found = doc.get("choices")
    found = found.get("text") if isinstance(found, Mapping) else found
    is_list = isinstance(found, list) and len(found) == n and all(isinstance(one, str) for one in found)
    return found if is_list else None


def _prompt(arguments: object) -> str | None:
    """The prompt: the first argument of the first request."""
    found = _argument(arguments, 0, 0)
    if isinstance(found, list):
        found = json.dumps(found, ensure_ascii=False)
    return found if isinstance(found, str) else None


def _argument(arguments: object, request: int, place: int) -> Any:
    """An argument of a request, None where it is missing. Versions of the harness write two shapes; both are read."""
    try:
        if isinstance(arguments, Mapping):
            return [*arguments.values()][request].get(f"arg_{place}")
        return arguments[request][place]  # type: ignore[index]
    except (AttributeError, IndexError, KeyError, TypeError):
        return None


def _read(
    place: Path, declared: Results, questions: Questions
) -> tuple[list[ImportedAnswer], list[QuarantinedRow]]:
    log = only_log(place, LOGS)
    rejected = RejectedRows(log.name)
    return read_log(log, declared, questions, rejected), rejected.rows


FORMAT = AnswerFormat(
    read=_read,
    files=lambda place, _: [only_log(place, LOGS)],
    check=having("doc.{id_field}", "filtered_resps|resps"),
    keys={
        "method": lambda read, key: read.text(key, memory_method().name),
        "id_field": lambda read, key: read.text(key, "id"),
        "filter": optional_text,
        "metric": optional_text,
    },
)
"""`method` says how the model was asked, `id_field` which key of `doc` holds the question's id, `filter` and `metric`
which filter and metric of the harness is meant where a log has several."""
