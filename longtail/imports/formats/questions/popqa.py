"""PopQA's TSV: 17 columns, one question a row (SPEC §1).

A question keeps the file's own `id`, by which paraphrases and
results of others are joined; text is never a key. As in the paper, every row is a question: also rows that ask the same
as another one (a subject with several objects has a row for each), and rows without the subject's name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from longtail.errors import SourceError
from longtail.imports.column_names import SHOWN
from longtail.imports.format import LONGEST_QUESTION, ImportedDataset, ImportedEntity, QuestionFormat, reasons
from longtail.imports.lines import clean
from longtail.imports.records import Record, RejectedRows, first_reason, json_texts, read_delimited
from longtail.imports.table_rows import OptionalValues, RefusedError, Value, is_missing, number_of
from longtail.parsing.terms import LONGEST_LABEL, clean_term
from longtail.relations.relation import Relation, by_name, relation_set

COLUMNS = (
    "id", "subj", "prop", "obj", "subj_id", "prop_id", "obj_id", "s_aliases", "o_aliases", "s_uri", "o_uri",
    "s_wiki_title", "o_wiki_title", "s_pop", "o_pop", "question", "possible_answers",
)  # fmt: skip
PROPERTY_NUMBERS = {
    "occupation": "22", "place of birth": "218", "genre": "91", "father": "257", "country": "182",
    "producer": "164", "director": "526", "capital of": "97", "screenwriter": "533", "composer": "639",
    "color": "472", "religion": "106", "sport": "560", "author": "484", "mother": "292", "capital": "422",
}  # fmt: skip
"""The dataset's own numbers of its relations (column prop_id), which are no Wikidata identifiers."""

_ENTITY = re.compile(r"https?://www\.wikidata\.org/(?:entity|wiki)/(Q[1-9]\d{0,11})")
_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z_.:-]{0,99}")


def read_popqa(path: Path) -> ImportedDataset:
    """Read a PopQA TSV. Negative, empty or NaN popularity is missing; a row of contradicting ids is put aside.

    Errors: `SourceError` naming file and column where it is no such file, where no row can be used, or where more than a
    tenth of a column of popularity or aliases cannot be read.
    """
    read = _Reading(ImportedDataset(), RejectedRows(path.name), OptionalValues(path))
    for record in read_delimited(path, "\t", COLUMNS, read.rejected):
        try:
            read.add(record)
        except RefusedError as refused:
            read.rejected.put(record.row, str(refused), record.fields)
    dataset, rejected = read.dataset, read.rejected.rows
    if not dataset.questions:
        raise SourceError(f"{path}: holds no question that can be used{first_reason(rejected)}")
    dataset.rejected.extend(rejected)
    dataset.says.extend(read.values.lines())
    if read.n_contradictory:
        dataset.says.append(
            f"{read.n_contradictory:,} times an entity has another popularity than in an earlier row, whose number counts"
        )
    asked = dataset.questions.values()
    missing = sum(dataset.entities[q["subject_id"]].popularity is None for q in asked)
    dataset.notes.update(
        rows=len(dataset.questions) + len(rejected) - read.n_cleaned,
        put_aside=len(rejected) - read.n_cleaned,
        reasons=reasons(rejected),
        unread=dict(read.values.n_unread),
        missing_popularity=missing,
        same_wording=len(asked) - len({q["question"] for q in asked}),
        same_subject_and_relation=len(asked) - len({(q["subject_id"], q["relation"]) for q in asked}),
        without_subject_name=sum(q["subject"] is None for q in asked),
    )
    return dataset


class _Reading:
    """What was read so far, and at which row: later rows must agree with it."""

    def __init__(self, dataset: ImportedDataset, rejected: RejectedRows, values: OptionalValues) -> None:
        self.dataset, self.rejected, self.values = dataset, rejected, values
        self.n_cleaned = self.n_contradictory = 0
        self.relations = by_name(relation_set("popqa"))
        self._rows: dict[str, int] = {}
        self._entity_of: dict[tuple[str, str], str] = {}

    def add(self, record: Record) -> None:
        """Add a row, all of it or nothing. Errors: `RefusedError`."""
        question_id = record.get("id").strip()
        if not _ID.fullmatch(question_id):
            raise RefusedError("column id: a number or short name was expected")
        relation = self._relation(record)
        subject = self._entity(record, "s", "subj")
        obj = self._entity(record, "o", "obj")
        question = _question(record, question_id, self.relations[relation], subject, obj)
        if question_id in self._rows:
            raise RefusedError(f"column id: asked already in row {self._rows[question_id]}; that row is kept")
        self._rows[question_id] = record.row
        self._tell_of_cleaning(record)
        for entity, number in ((subject, "subj_id"), (obj, "obj_id")):
            self._entity_of.setdefault(("number", record.get(number)), entity.entity_id)
            self._keep(entity)
        self.dataset.questions[question_id] = question
        self.dataset.facts.append((subject.entity_id, question["property_id"], obj.entity_id, relation))

    def _tell_of_cleaning(self, record: Record) -> None:
        """Put aside the original of a row that is kept without the characters that no text may have."""
        for column, longest in (
            ("subj", LONGEST_LABEL),
            ("obj", LONGEST_LABEL),
            ("question", LONGEST_QUESTION),
        ):
            notes = clean_term(record.get(column), longest).notes
            if notes:
                self.n_cleaned += 1
                self.rejected.put(
                    record.row, f"kept, but cleaned: column {column}: {', '.join(notes)}", record.fields
                )

    def _relation(self, record: Record) -> str:
        name = record.get("prop").strip()
        if name not in self.relations:
            raise RefusedError(
                f"column prop: one of the sixteen relations was expected: {clean(name)[:SHOWN]!r}"
            )
        if record.get("prop_id").strip() != PROPERTY_NUMBERS[name]:
            raise RefusedError(f"columns prop and prop_id disagree: {name} is {PROPERTY_NUMBERS[name]}")
        return name

    def _entity(self, record: Record, letter: str, column: str) -> ImportedEntity:
        uri = f"{letter}_uri"
        match = _ENTITY.fullmatch(record.get(uri).strip())
        if not match:
            raise RefusedError(
                f"column {uri}: a Wikidata address was expected, as in http://www.wikidata.org/entity/Q42"
            )
        entity_id = match[1]
        known = self._entity_of.get(("number", record.get(f"{column}_id")), entity_id)
        if known != entity_id:
            raise RefusedError(
                f"columns {column}_id and {uri} disagree: in an earlier row that number is {known}"
            )
        title = clean(record.get(f"{letter}_wiki_title")).replace("_", " ") or None
        label = clean(record.get(column)) or title or entity_id
        before = self.dataset.entities.get(entity_id)
        aliases = self._optional(record, f"{letter}_aliases", _aliases) or []
        popularity = self._optional(record, f"{letter}_pop", _popularity)
        if before and None not in (popularity, before.popularity):
            self.n_contradictory += before.popularity != popularity
        distinct = dict.fromkeys(alias for text in aliases if (alias := clean(text)) and alias != label)
        return ImportedEntity(entity_id, label, tuple(distinct), title, popularity)

    def _optional(self, record: Record, column: str, read: Callable[[str], Value]) -> Value | None:
        text = record.get(column).strip()
        return self.values.read(record.row, column, text, lambda: read(text))

    def _keep(self, entity: ImportedEntity) -> None:
        """Keep an entity. If several rows name it, the first row's texts count; later rows add what it lacks."""
        before = self.dataset.entities.get(entity.entity_id)
        if before is None:
            self.dataset.entities[entity.entity_id] = entity
            return
        popularity = entity.popularity if before.popularity is None else before.popularity
        title = before.article_title or entity.article_title
        merged = ImportedEntity(before.entity_id, before.label, before.aliases, title, popularity)
        self.dataset.entities[entity.entity_id] = merged


def _question(
    record: Record, question_id: str, relation: Relation, subject: ImportedEntity, obj: ImportedEntity
) -> dict[str, Any]:
    text = clean(record.get("question"), LONGEST_QUESTION)
    if not text:
        raise RefusedError("column question: a text was expected")
    answers = json_texts(record.get("possible_answers"))
    if answers is None:
        raise RefusedError("column possible_answers: a JSON list of texts was expected")
    golds = list(dict.fromkeys(gold for answer in answers if (gold := clean(answer))))
    if not golds:
        raise RefusedError("column possible_answers: at least one answer was expected")
    return {
        "question_id": question_id,
        "relation": relation.name,
        "property_id": relation.property_id,
        "subject_id": subject.entity_id,
        "subject": clean(record.get("subj")) or None,
        "subject_aliases": list(subject.aliases),
        "question": text,
        "object_ids": [obj.entity_id],
        "objects": [obj.label],
        "gold_answers": golds,
    }


def _aliases(text: str) -> list[str]:
    """Errors: `ValueError`."""
    aliases = json_texts(text or "[]")
    if aliases is None:
        raise ValueError("a JSON list of texts was expected")
    return aliases


def _popularity(text: str) -> float | None:
    """Page views as the file gives them; negative, empty or NaN = missing (SPEC §1). Errors: `ValueError`."""
    value = -1 if is_missing(text) else number_of(text)
    return None if value < 0 else value


FORMAT = QuestionFormat(
    relation_set="popqa",
    read=lambda place, *_: read_popqa(place),
    names_entities=True,
)
