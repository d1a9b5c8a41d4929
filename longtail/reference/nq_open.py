"""NQ-open: `NQ-open.*.jsonl` with one object {question, answer} per line, and lake table reference_questions.

The file has no ids: the number of its line identifies a question.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from longtail.errors import SourceError
from longtail.imports.datasets import find_file
from longtail.imports.format import LONGEST_QUESTION, reasons
from longtail.imports.lines import clean
from longtail.imports.records import file_hashes, first_reason, read_json_lines
from longtail.parsing.line_files import RejectedRows
from longtail.storage.fingerprints import code_version, fingerprint
from longtail.storage.lake import Computed, Lake, Outcome, QuarantinedRow
from longtail.study.study import Study


def import_reference_questions(study: Study, lake: Lake, log: logging.Logger) -> Outcome:
    """Write table reference_questions: the questions of every file that the study names; empty without any.

    Errors: `SourceError` where a file is missing, has another format, or has no usable question.
    """
    places = {reference.name: find_file(reference.place, study) for reference in study.reference_questions}
    files = [[name, file_hashes([path])] for name, path in places.items()]

    def compute() -> Computed:
        rows: list[dict[str, Any]] = []
        rejected: list[QuarantinedRow] = []
        for name, path in places.items():
            questions, put_aside = read_nq_open(path)
            log.info("%s: %d reference questions, rejected: %d", name, len(questions), len(put_aside))
            rows += [{"dataset": name, **row} for row in questions]
            rejected += put_aside
        return Computed(rows, rejected, {"reasons": reasons(rejected)} if rejected else {})

    stamp = fingerprint("reference_questions", files, code_version(__name__))
    return lake.materialise("reference_questions", stamp, compute)


def read_nq_open(path: Path) -> tuple[list[dict[str, Any]], list[QuarantinedRow]]:
    """The questions of a file, and the lines put aside: broken lines, and lines that repeat an earlier question.

    Errors: `SourceError` where the file has no JSON lines, or none of its lines can be used.
    """
    if path.is_dir():
        raise SourceError(f"{path}: is a folder; name one file, as in NQ-open.dev.jsonl")
    rejected = RejectedRows(path.name)
    rows: list[dict[str, Any]] = []
    line_of: dict[str, int] = {}
    for number, item in read_json_lines(path, rejected):
        fault = _fault(item)
        question = "" if fault else clean(item["question"], LONGEST_QUESTION)
        if not fault and question in line_of:
            fault = f"repeated question: line {line_of[question]} has it already and is kept"
        if fault:
            rejected.put(number, fault, item)
            continue
        line_of[question] = number
        golds = list(dict.fromkeys(text for answer in item["answer"] if (text := clean(answer))))
        rows.append({"question_id": str(number), "question": question, "gold_answers": golds})
    if not rows:
        raise SourceError(f"{path}: holds no question that can be used{first_reason(rejected.rows)}")
    return rows, rejected.rows


def _fault(item: Mapping[str, Any]) -> str | None:
    question, answers = item.get("question"), item.get("answer")
    if not isinstance(question, str) or not clean(question, LONGEST_QUESTION):
        return "key question: a text was expected"
    if not isinstance(answers, list) or not all(isinstance(answer, str) for answer in answers):
        return "key answer: a list of texts was expected"
    return None
