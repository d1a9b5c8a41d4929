"""Anybody's questions: a table with columns `question` and `answers`, and what else it has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from longtail.imports.format import ChosenRows, QuestionFormat, Quoting, Separator
from longtail.imports.records import AUTO
from longtail.imports.table import MEANINGS, read_questions
from longtail.imports.table_rows import THOUSANDS
from longtail.study.parts import Part
from longtail.study.values import column_names, one_of


@dataclass(frozen=True)
class TableKeys(Part):
    columns: Annotated[tuple[tuple[str, str | None], ...], column_names(MEANINGS, may_be_none=True)] = ()
    """which columns hold the question, its answers and the rest"""
    rows: ChosenRows = ()
    separator: Separator = None
    thousands: Annotated[str, one_of(THOUSANDS)] | None = None
    """the sign between the thousands of popularity"""
    quoting: Quoting = AUTO


FORMAT = QuestionFormat(
    read=lambda place, declared, dataset, _: read_questions(place, declared, dataset.name),
    names_entities=True,
    invents_ids=True,
    keys=TableKeys,
)
