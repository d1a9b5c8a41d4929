"""ELI5, questions that want long answers: KILT's lines, or lines with q_id, title and answers."""

from __future__ import annotations

from longtail.imports.format import QuestionFormat
from longtail.imports.formats.questions.table import read_objects
from longtail.imports.records import require_keys
from longtail.study.imports import ROUGE_L

LONGEST_ANSWER = 40_000
"""Characters: Reddit's own limit."""
_OWN = {"id": "q_id", "question": "title", "answers": "answers"}

FORMAT = QuestionFormat(
    read=lambda place, _declared, dataset, _names: read_objects(place, dataset.name, _OWN, LONGEST_ANSWER),
    end_task=ROUGE_L,
    check=require_keys("title|input", "answers|output"),
)
