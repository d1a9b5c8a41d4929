"""HotpotQA: its own JSON list (hotpot_dev_distractor_v1.json and its like), or KILT's lines.

Only question and answer are read: the paragraphs that the file brings are no part of a closed-book prompt.
"""

from __future__ import annotations

from longtail.imports.format import QuestionFormat
from longtail.imports.formats.questions.table import read_objects
from longtail.imports.records import require_keys
from longtail.parsing.terms import LONGEST_LABEL
from longtail.study.imports import F1

_OWN = {"id": "_id", "question": "question", "answers": "answer"}

FORMAT = QuestionFormat(
    read=lambda place, _declared, dataset, _names: read_objects(place, dataset.name, _OWN, LONGEST_LABEL),
    end_task=F1,
    check=require_keys("question|input", "answer|output"),
)
