"""Anybody's questions: a table with columns `question` and `answers`, and what else it has.

What belongs here: the record of the format. What does not: reading the table (`imports.table`).
"""

from __future__ import annotations

from dagster_project.core.imports.format import QUOTING_KEYS, QuestionFormat, separator_key
from dagster_project.core.imports.table import MEANINGS, REQUIRED, read_questions
from dagster_project.core.imports.table_rows import check_table, columns_key

FORMAT = QuestionFormat(
    read=lambda place, declared, dataset, _: read_questions(place, declared, dataset.name),
    names_entities=True,
    invents_ids=True,
    keys={"columns": columns_key(MEANINGS), "separator": separator_key, **QUOTING_KEYS},
    check=lambda path, declared: check_table(path, declared, declared.option("columns"), MEANINGS, REQUIRED),
)
"""`columns` says which columns hold the question, its answers and the rest; `separator` is the sign between answers."""
