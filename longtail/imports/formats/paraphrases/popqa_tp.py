"""PopQA-TP's CSV: one wording of a question a row, joined to a popqa dataset by `id` (SPEC §1).

The other columns of the file repeat PopQA's; column `prop`, if it is there, must agree.

The published file has two faults. Its UTF-8 was read as MacRoman ("Deti√®ge"): such a wording is repaired where only
then it names its question's subject. And a spreadsheet or pandas changed ten subjects ("April 18" to "Apr-18", no name
to "nan") in all wordings but the question's own: those stay as they are published.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from longtail.errors import SourceError
from longtail.imports.format import LONGEST_QUESTION, ImportedParaphrases, ParaphraseFormat
from longtail.imports.lines import clean
from longtail.imports.records import Record, first_reason, read_delimited, require_columns
from longtail.parsing.line_files import RejectedRows

COLUMNS = ("id", "template_id", "paraphrase")
_MOST_TEMPLATES = 1_000


def read_popqa_tp(path: Path, questions: Mapping[str, Mapping[str, Any]]) -> ImportedParaphrases:
    """Read a PopQA-TP CSV over `questions` (by id, as the popqa file has them).

    Errors: `SourceError` naming file and column if it is no such file, or if no row fits any question.
    """
    rejected = RejectedRows(path.name)
    paraphrases = ImportedParaphrases()
    n_repaired = 0
    for record in read_delimited(path, ",", COLUMNS, rejected):
        added = _add(paraphrases, record, questions)
        if isinstance(added, str):
            rejected.put(record.row, added, record.fields)
        else:
            n_repaired += added
    if not paraphrases.wordings:
        raise SourceError(
            f"{path}: holds no paraphrase of a question of the dataset{first_reason(rejected.rows)}"
        )
    paraphrases.rejected.extend(rejected.rows)
    if n_repaired:
        paraphrases.says.append(
            f"{path.name}: {n_repaired:,} wordings repaired, whose UTF-8 was read as MacRoman"
        )
    return paraphrases


def _add(
    paraphrases: ImportedParaphrases, record: Record, questions: Mapping[str, Mapping[str, Any]]
) -> bool | str:
    """Add a row; whether its wording was repaired, or why it is not added."""
    question_id = record.get("id").strip()
    if question_id not in questions:
        return f"column id: no question of the dataset has it: {clean(question_id)[:60]!r}"
    try:
        template_id = int(record.get("template_id"))
    except ValueError:
        return "column template_id: a whole number was expected"
    if not 0 <= template_id <= _MOST_TEMPLATES:
        return f"column template_id: a number of 0 to {_MOST_TEMPLATES} was expected"
    published = record.get("paraphrase")
    repaired = _repair(published, questions[question_id]["subject"])
    wording = clean(repaired, LONGEST_QUESTION)
    if not wording:
        return "column paraphrase: a text was expected"
    relation = record.get("prop").strip()
    if relation and relation != questions[question_id]["relation"]:
        return f"columns id and prop disagree: question {question_id} is about {questions[question_id]['relation']}"
    if template_id == 0 and wording != questions[question_id]["question"]:
        return f"columns id and paraphrase disagree: template 0 is not the wording of question {question_id}"
    known = paraphrases.wordings.setdefault(question_id, {})
    if template_id in known:
        return f"columns id and template_id: question {question_id} has wording {template_id} already; the first is kept"
    known[template_id] = wording
    return repaired != published


def _repair(text: str, subject: str | None) -> str:
    """The text before its UTF-8 was read as MacRoman, if it names the subject only then."""
    if text.isascii() or not subject or subject in text:
        return text
    try:
        repaired = text.encode("mac_roman").decode("utf-8")
    except UnicodeError:
        return text
    return repaired if subject in repaired else text


FORMAT = ParaphraseFormat(of="popqa", read=read_popqa_tp, check=require_columns(",", COLUMNS))
