"""The columns of every lake table: the single source for writers, readers, dbt sources and tests."""

from __future__ import annotations

from longtail.tables.generation import GENERATION_TABLES, IMPORT_TABLES
from longtail.tables.passages import GROUNDING_TABLES, PASSAGE_TABLES
from longtail.tables.questions import QUESTION_TABLES, REFERENCE_TABLES, WORLD_TABLES
from longtail.tables.schema import Column, Table, text
from longtail.tables.study import STUDY_TABLES
from longtail.tables.tuning import TUNING_TABLES

__all__ = ["TABLES", "Column", "Table"]

_QUARANTINE = (
    Table(
        "quarantine",
        "One row per rejected row.",
        (
            text("table_name", "lake table that the row was meant for"),
            text("partition", "partition of that table; empty if it has none"),
            text("row_key", "line number, entity id or other key in the source"),
            text("reason", "what was wrong"),
            text("raw", "the original row, cut after 2,000 characters, with control characters escaped"),
        ),
        partitioned_by=("table_name", "partition"),
    ),
)

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        *STUDY_TABLES,
        *WORLD_TABLES,
        *QUESTION_TABLES,
        *PASSAGE_TABLES,
        *IMPORT_TABLES,
        *REFERENCE_TABLES,
        *GENERATION_TABLES,
        *GROUNDING_TABLES,
        *TUNING_TABLES,
        *_QUARANTINE,
    )
}
