"""Anybody's wordings of PopQA's questions: a TSV of templates with [X] for the subject, as PopQA-TP's authors wrote them.

A wrong template would reword all questions of its relation, so the whole file is looked at before a run, and one fault
refuses it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from longtail.errors import SourceError
from longtail.imports.format import LONGEST_QUESTION, ImportedParaphrases, ParaphraseFormat
from longtail.imports.lines import clean
from longtail.imports.records import read_delimited
from longtail.parsing.line_files import RejectedRows
from longtail.relations.relation import SUBJECT, by_name, fill, relation_set

COLUMNS = ("relation", "template_id", "template")
_SUBJECT = "[X]"


def read_templates(path: Path) -> dict[str, dict[int, str]]:
    """Relation → template_id → template, with [subj] for the subject.

    Errors: `SourceError` naming file, row and column of the first row that cannot be used.
    """
    rejected, of_popqa = RejectedRows(path.name), by_name(relation_set("popqa"))
    templates: dict[str, dict[int, str]] = {}
    for record in read_delimited(path, "\t", COLUMNS, rejected):
        relation, number, text = (clean(record.get(column), LONGEST_QUESTION) for column in COLUMNS)
        template = text.replace(_SUBJECT, SUBJECT)
        fault = None
        if relation not in of_popqa:
            fault = f"column relation: {relation[:60]!r} is none of PopQA's: {', '.join(of_popqa)}"
        elif not re.fullmatch(r"[0-9]{1,3}", number) or int(number) in templates.get(relation, {}):
            fault = f"column template_id: {number[:20]!r}; a number that {relation} has once was expected"
        elif template.count(SUBJECT) != 1:
            fault = f"column template: {_SUBJECT} was expected once, for the subject: {text[:100]!r}"
        elif number == "0" and template != of_popqa[relation].template:
            fault = f"column template: number 0 is PopQA's own question, {of_popqa[relation].question(_SUBJECT)!r}"
        if fault:
            rejected.put(record.row, fault)
        else:
            templates.setdefault(relation, {})[int(number)] = template
    if rejected.rows or not templates:
        first = rejected.rows[0] if rejected.rows else None
        raise SourceError(f"{path}: {first.row_key}: {first.reason}" if first else f"{path}: has no template")
    return templates


def _read(path: Path, questions: Mapping[str, Mapping[str, Any]]) -> ImportedParaphrases:
    """Every question in all wordings of its relation; a question without its subject's name has a gap, as PopQA's do."""
    templates = read_templates(path)
    wordings = {
        question_id: {
            number: fill(template, question["subject"] or "")
            for number, template in templates[question["relation"]].items()
        }
        for question_id, question in questions.items()
        if question["relation"] in templates
    }
    return ImportedParaphrases(wordings)


FORMAT = ParaphraseFormat(of="popqa", read=_read, check=lambda path, _declared: read_templates(path))
