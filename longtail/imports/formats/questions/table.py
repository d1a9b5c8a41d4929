"""Anybody's questions: a table with columns `question` and `answers`, and what else it has."""

from __future__ import annotations

from longtail.imports.format import QUOTING_KEYS, QuestionFormat, separator_key
from longtail.imports.table import MEANINGS, read_questions
from longtail.imports.table_rows import columns_key, rows_key, thousands_key

FORMAT = QuestionFormat(
    read=lambda place, declared, dataset, _: read_questions(place, declared, dataset.name),
    names_entities=True,
    invents_ids=True,
    keys={
        "columns": columns_key(MEANINGS),
        "rows": rows_key,
        "separator": separator_key,
        "thousands": thousands_key,
        **QUOTING_KEYS,
    },
)
"""`columns` says which columns hold the question, its answers and the rest, `rows` which rows count; `separator` is the sign between answers,
`thousands` that between the thousands of popularity."""
