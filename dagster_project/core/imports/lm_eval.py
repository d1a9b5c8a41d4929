"""Sample logs of lm-evaluation-harness: `samples_<task>_<time>.jsonl`, one JSON object a document and filter.

What belongs here: the log's keys (doc, arguments, resps, filtered_resps, filter, metrics) and which lines cannot be
used. What does not: under which prompt of the study they stand, and scoring (`answers`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dagster_project.core.errors import SourceError
from dagster_project.core.fingerprints import prompt_hash
from dagster_project.core.imports.formats import AnswerFormat, optional_text
from dagster_project.core.imports.records import Aside, read_json_lines
from dagster_project.core.imports.results import ImportedAnswer, Questions, only_log, truth
from dagster_project.core.lake import QuarantinedRow
from dagster_project.core.methods import memory_method
from dagster_project.core.study.imports import Results

LOGS = "samples_*.jsonl"
METRICS = ("exact_match", "em", "acc")
"""Metrics that say right or wrong, in the order of choice where results name none."""


def read_log(path: Path, declared: Results, questions: Questions, aside: Aside) -> list[ImportedAnswer]:
    """The lines of a log whose document is in `questions`; the others go to `aside`.

    Errors: `SourceError` if the file cannot be read, if it has several filters and the declaration names none, or if it
    lacks the filter or metric that the declaration names.
    """
    lines = list(read_json_lines(path, aside))
    filter_ = _filter(path, declared.option("filter"), {str(line.get("filter", "none")) for _, line in lines})
    meant = [(number, line) for number, line in lines if str(line.get("filter", "none")) == filter_]
    metric = _metric(path, declared.option("metric"), [line for _, line in meant])
    answers = []
    for number, line in meant:
        found = _answer(path, number, line, declared, metric, questions)
        if isinstance(found, str):
            aside.put(number, found, line)
        else:
            answers.append(found)
    return answers


def _filter(path: Path, wanted: str | None, there: set[str]) -> str:
    shown = ", ".join(sorted(there)) or "none"
    if wanted is None and len(there) > 1:
        raise SourceError(f"{path}: holds several filters: {shown}; choose one by key filter of results")
    if wanted is not None and wanted not in there:
        raise SourceError(f"{path}: has no filter {wanted!r}; there are: {shown}")
    return wanted or next(iter(there), "none")


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
    text = _text(line)
    if text is None:
        return "keys filtered_resps and resps: a generated text was expected (tasks of output type generate_until)"
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


def _prompt(arguments: object) -> str | None:
    """The prompt: the first of the first argument list. Versions of the harness write two shapes; both are read."""
    if isinstance(arguments, dict):
        first = next(iter(arguments.values()), None)
        found = first.get("arg_0") if isinstance(first, dict) else None
    elif isinstance(arguments, list) and arguments and isinstance(arguments[0], list) and arguments[0]:
        found = arguments[0][0]
    else:
        found = None
    if isinstance(found, list):
        found = json.dumps(found, ensure_ascii=False)
    return found if isinstance(found, str) else None


def _read(
    place: Path, declared: Results, questions: Questions
) -> tuple[list[ImportedAnswer], list[QuarantinedRow]]:
    log = only_log(place, LOGS)
    aside = Aside(log.name)
    return read_log(log, declared, questions, aside), aside.rows


FORMAT = AnswerFormat(
    read=_read,
    files=lambda place, _: [only_log(place, LOGS)],
    keys={
        "method": lambda read, key: read.text(key, memory_method().name),
        "id_field": lambda read, key: read.text(key, "id"),
        "filter": optional_text,
        "metric": optional_text,
    },
)
"""`method` says how the model was asked, `id_field` which key of `doc` holds the question's id, `filter` and `metric`
which filter and metric of the harness is meant where a log has several."""
