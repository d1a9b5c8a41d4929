"""PopQA's TSV: 17 columns, one question a row (SPEC §1).

A question keeps the file's own `id`, by which paraphrases and
results of others are joined; text is never a key. As in the paper, every row is a question: also rows that ask the same
as another one (a subject with several objects has a row for each), and rows without the subject's name.
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

from longtail.errors import SourceError
from longtail.imports.column_names import SHOWN
from longtail.imports.format import (
    LONGEST_QUESTION,
    ImportedDataset,
    ImportedEntity,
    QuestionFormat,
    question_row,
)
from longtail.imports.lines import clean
from longtail.imports.records import first_reason, json_texts, read_delimited
from longtail.imports.table_rows import OptionalValues, RefusedError, Row
from longtail.parsing.line_files import RejectedRows
from longtail.relations.relation import Relation, by_name, relation_set

COLUMNS = (
    "id", "subj", "prop", "obj", "subj_id", "prop_id", "obj_id", "s_aliases", "o_aliases", "s_uri", "o_uri",
    "s_wiki_title", "o_wiki_title", "s_pop", "o_pop", "question", "possible_answers",
)  # fmt: skip
_ENTITY = re.compile(r"https?://www\.wikidata\.org/(?:entity|wiki)/(Q[1-9]\d{0,11})")
_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z_.:-]{0,99}")


def read_popqa(path: Path) -> ImportedDataset:
    """Read a PopQA TSV. Negative, empty or NaN popularity is missing.

    Errors: `SourceError` naming file and column where it is no such file, where no row can be used, or where more than a
    tenth of a column of popularity or aliases cannot be read.
    """
    rejected = RejectedRows(path.name)
    reading = _Reading(OptionalValues(path))
    for record in read_delimited(path, "\t", COLUMNS, rejected):
        row = Row(record.row, record.fields, {})
        try:
            reading.add(row)
        except RefusedError as refused:
            rejected.put(record.row, str(refused), record.fields)
    dataset = reading.dataset
    if not dataset.questions:
        raise SourceError(f"{path}: holds no question that can be used{first_reason(rejected.rows)}")
    dataset.rejected.extend(rejected.rows)
    dataset.says.extend(reading.values.lines())
    if reading.n_contradictory:
        dataset.says.append(
            f"{reading.n_contradictory:,} times an entity has another popularity than in an earlier row, whose number"
            " counts"
        )
    return dataset


class _Reading:
    """What was read so far, and at which row."""

    def __init__(self, values: OptionalValues) -> None:
        self.dataset, self.values = ImportedDataset(), values
        self.n_contradictory = 0
        self._relations = by_name(relation_set("popqa"))
        self._rows: dict[str, int] = {}

    def add(self, row: Row) -> None:
        """Add a row, all of it or nothing. Errors: `RefusedError`."""
        question_id, name = row.values["id"].strip(), row.values["prop"].strip()
        if not _ID.fullmatch(question_id):
            raise row.error("id", "a number or short name was expected")
        if name not in self._relations:
            raise row.error("prop", f"one of the sixteen relations was expected: {clean(name)[:SHOWN]!r}")
        subject, obj = self._entity(row, "s", "subj"), self._entity(row, "o", "obj")
        question = _question(row, question_id, self._relations[name], subject, obj)
        if question_id in self._rows:
            raise row.error("id", f"asked already in row {self._rows[question_id]}; that row is kept")
        self._rows[question_id] = row.number
        for entity in (subject, obj):
            self._keep(entity)
        self.dataset.questions[question_id] = question
        self.dataset.facts.append((subject.entity_id, question["property_id"], obj.entity_id, name))

    def _entity(self, row: Row, letter: str, column: str) -> ImportedEntity:
        match = _ENTITY.fullmatch(row.values[f"{letter}_uri"].strip())
        if not match:
            raise row.error(
                f"{letter}_uri", "a Wikidata address was expected, as in http://www.wikidata.org/entity/Q42"
            )
        title = clean(row.values[f"{letter}_wiki_title"]).replace("_", " ") or None
        label = clean(row.values[column]) or title or match[1]
        before = self.dataset.entities.get(match[1])
        aliases = row.optional(f"{letter}_aliases", _aliases, self.values) or []
        popularity = row.optional(f"{letter}_pop", Row.amount, self.values)
        if before and None not in (popularity, before.popularity):
            self.n_contradictory += before.popularity != popularity
        distinct = dict.fromkeys(alias for text in aliases if (alias := clean(text)) and alias != label)
        return ImportedEntity(match[1], label, tuple(distinct), title, popularity)

    def _keep(self, entity: ImportedEntity) -> None:
        """Keep an entity. If several rows name it, the first row's texts count; later rows add what it lacks."""
        before = self.dataset.entities.setdefault(entity.entity_id, entity)
        self.dataset.entities[entity.entity_id] = dataclasses.replace(
            before,
            article_title=before.article_title or entity.article_title,
            popularity=entity.popularity if before.popularity is None else before.popularity,
        )


def _question(
    row: Row, question_id: str, relation: Relation, subject: ImportedEntity, obj: ImportedEntity
) -> dict[str, Any]:
    text = clean(row.values["question"], LONGEST_QUESTION)
    if not text:
        raise row.error("question", "a text was expected")
    answers = json_texts(row.values["possible_answers"])
    if answers is None:
        raise row.error("possible_answers", "a JSON list of texts was expected")
    golds = list(dict.fromkeys(gold for answer in answers if (gold := clean(answer))))
    if not golds:
        raise row.error("possible_answers", "at least one answer was expected")
    return question_row(
        question_id,
        text,
        golds,
        relation=relation.name,
        property_id=relation.property_id,
        subject_id=subject.entity_id,
        subject=clean(row.values["subj"]) or None,
        subject_aliases=list(subject.aliases),
        object_ids=[obj.entity_id],
        objects=[obj.label],
    )


def _aliases(row: Row, column: str) -> list[str]:
    aliases = json_texts(row.values[column].strip() or "[]")
    if aliases is None:
        raise row.error(column, "a JSON list of texts was expected")
    return aliases


FORMAT = QuestionFormat(relation_set="popqa", read=lambda place, *_: read_popqa(place), names_entities=True)
