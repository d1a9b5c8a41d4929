"""Anybody's questions: a table with columns `question` and `answers`, and what else it has.

In a file without ids, an id is made from the dataset's name, the question and its answers (SPEC §1). A question with a
subject, a popularity or a passage brings an entity. Rows share one only if they agree in all three: one name may mean two
things.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from longtail.errors import SourceError
from longtail.imports.column_names import SHOWN, structure_of, unusual
from longtail.imports.dataset import (
    LONGEST_QUESTION,
    ImportedDataset,
    ImportedEntity,
    clean,
    reasons,
)
from longtail.imports.records import MOST_ASIDE, RejectedRows, file_hashes
from longtail.imports.table_rows import (
    THOUSANDS,
    OptionalValues,
    RefusedError,
    Row,
    Rows,
    fitting,
    number_of,
    read_table,
    text_of,
)
from longtail.parsing.terms import LONGEST_LABEL
from longtail.relations.relation import ALL
from longtail.scoring.match import comparable
from longtail.storage.fingerprints import fingerprint
from longtail.study.imports import Import

MEANINGS = ("question", "answers", "id", "subject", "relation", "popularity", "passage")
"""What a column may hold."""
REQUIRED = ("question", "answers")

NO_IDS = "the file has no column id, so an id is made from the dataset's name, the question and its answers"
_A_LIST = 'a JSON list of texts was expected, as in ["one", "two"]'
_FORMS: tuple[tuple[set[str], set[str]], ...] = (
    ({"text"}, {"answerstart", "answerend", "answerid"}),  # SQuAD
    ({"value", "aliases"}, {
        "normalizedvalue", "normalizedaliases", "matchedwikientityname", "normalizedmatchedwikientityname", "type",
        "humananswers",
    }),  # TriviaQA
    ({"answer"}, {"provenance", "meta"}),  # KILT
    ({"answers"}, set()),
)  # fmt: skip
"""Objects whose texts are known: the keys that hold them, and the keys that may stand beside these."""


def read_questions(path: Path, declared: Import, dataset_name: str) -> ImportedDataset:
    """Read a table of questions of a dataset. A row that cannot be used, or repeats an id, is put aside.

    Errors: `SourceError` naming the file where it is no table, lacks a column, or has no row that can be used.
    """
    rejected = RejectedRows(path.name, most=MOST_ASIDE)
    options = dict(declared.options)
    table = read_table(
        path,
        dict(options["columns"]),
        MEANINGS,
        REQUIRED,
        rejected,
        options["thousands"],
        options["quoting"],
        only=options["rows"],
    )
    file_id = fingerprint(file_hashes([path])[0][1], declared.options)[:12]
    found = questions_of(path, table, rejected, Reading(dataset_name, options["separator"], file_id))
    found.says[:0] = unusual(table.columns, dict(options["columns"]))
    return found


def questions_of(path: Path, table: Rows, rejected: RejectedRows, read: Reading) -> ImportedDataset:
    """The questions in the rows of a file.

    Errors: `SourceError` where no row can be used, or more than a tenth of an optional column cannot be read.
    """
    values = OptionalValues(path, partial(_advice, table.columns))
    for row in table.rows:
        try:
            read.add(row, values)
        except RefusedError as refused:
            rejected.put(row.number, str(refused), row.values)
    dataset = read.dataset
    if not dataset.questions:
        first = f"; {rejected.rows[0].row_key}: {rejected.rows[0].reason}" if rejected.rows else ""
        raise SourceError(f"{path}: holds no question that can be used{first}")
    dataset.rejected.extend(rejected.told())
    dataset.says.extend([*values.lines(), *_lacks(table.columns, dataset)])
    if table.left_out:
        dataset.says.append(f"{len(table.left_out):,} rows are left out by key rows of the study")
    dataset.notes.update(
        unread=dict(values.n_unread),
        rows=len(dataset.questions) + rejected.n_rows,
        put_aside=rejected.n_rows,
        left_out=len(table.left_out),
        reasons=reasons(rejected.rows),
        says=dataset.says,
    )
    return dataset


_Known = tuple[str | None, float | None, str]
"""What a row knows of an entity: subject, popularity, passage."""


class Reading:
    """What was read so far, and at which row. An answer may have `longest_answer` characters."""

    def __init__(
        self, dataset_name: str, separator: str | None, file_id: str, longest_answer: int = LONGEST_LABEL
    ) -> None:
        self.dataset = ImportedDataset()
        self._name, self._separator, self._file_id = dataset_name, separator, file_id
        self._longest_answer = longest_answer
        self._rows: dict[str, int] = {}
        self._repeats: Counter[Hashable] = Counter()
        self._entities: dict[_Known, str] = {}

    def add(self, row: Row, values: OptionalValues) -> None:
        """Add a row, all of it or nothing. Errors: `RefusedError`; what else the row has may be unknown (`values`)."""
        own_id = row.id()
        if own_id in self._rows:
            raise row.refused("id", f"row {self._rows[own_id]} has the same id; that row is kept")
        question = row.text("question", LONGEST_QUESTION)
        if question is None:
            raise row.refused("question", "a text was expected")
        golds = answers_of(row, self._separator, self._longest_answer)
        relation = row.optional("relation", _relation, values)
        subject = row.optional("subject", Row.text, values)
        popularity = row.optional("popularity", Row.amount, values)
        passage = (row.optional("passage", Row.raw_text, values) or "").strip()
        known = subject, popularity, passage
        entity_id = self._entity(own_id or str(row.number), subject or clean(question), known)
        question_id = own_id or numbered(made_id(self._name, question, golds), self._repeats)
        self._rows[question_id] = row.number
        self.dataset.rows[row.number] = question_id
        self.dataset.questions[question_id] = {
            "question_id": question_id,
            "relation": relation,
            "property_id": None,
            "subject_id": entity_id,
            "subject": subject,
            "subject_aliases": [],
            "question": question,
            "object_ids": [],
            "objects": [],
            "gold_answers": golds,
        }

    def _entity(self, row_id: str, label: str, known: _Known) -> str | None:
        """The id of the entity that has what a row knows of it; None if the row knows nothing."""
        subject, popularity, passage = known
        if subject is None and popularity is None and not passage:
            return None
        own = f"{self._file_id}-{row_id}"
        entity_id = own if subject is None else self._entities.setdefault(known, own)
        if entity_id == own:
            self.dataset.entities[own] = ImportedEntity(own, label, popularity=popularity)
            if passage:
                self.dataset.passages[own] = (subject or row_id, passage)
        return entity_id


def made_id(dataset_name: str, question: str, golds: Sequence[str]) -> str:
    """The id of a question without one: 16 digits of the SHA-256 of the JSON of dataset, question, sorted answers."""
    return fingerprint(dataset_name, question, sorted(golds))[:16]


def numbered(made: str, repeats: Counter[Hashable], *group: Hashable) -> str:
    """The id; numbered where it came before within `group`, since every row of a file is asked."""
    repeats[made, *group] += 1
    n = repeats[made, *group]
    return made if n == 1 else f"{made}-{n}"


def answers_of(row: Row, separator: str | None, longest: int = LONGEST_LABEL) -> list[str]:
    """The gold answers of a row. Errors: `RefusedError`."""
    try:
        texts = (fitting(text_of(one), longest) for one in _listed(row.values["answers"], separator))
        golds = list(dict.fromkeys(text for text in texts if comparable(text).strip()))
    except ValueError as error:
        raise row.refused("answers", error) from None
    if not golds:
        raise row.refused("answers", "at least one answer was expected")
    return golds


def _listed(value: object, separator: str | None) -> list[Any]:
    """The answers in a value: a list, an object of a known form, texts between separators, or one text.

    Errors: `ValueError` where a text holds something else that is no plain text.
    """
    if isinstance(value, Mapping):
        return _texts_of(value)
    if isinstance(value, list | tuple):
        listed = [text for one in value for text in (_texts_of(one) if isinstance(one, Mapping) else [one])]
        for one in listed:
            _check_plain(one)
        return listed
    text = text_of(value).strip()
    try:
        found = structure_of(text)
    except ValueError:
        if not (separator and text.startswith("[")):
            raise ValueError(_A_LIST) from None
        found = None
    if found is not None:
        return _listed(found, None)
    parts = text.split(separator) if separator else [text]
    for part in parts:
        _check_plain(part)
    return parts


def _texts_of(found: Mapping[str, Any]) -> list[Any]:
    """The texts in an object of a known form. Errors: `ValueError`."""
    values = {str(key).casefold().replace("_", ""): value for key, value in found.items()}
    for keys, beside in _FORMS:
        if {*values} <= keys | beside and (keys & {*values} or not values):
            held = [values[key] for key in values if key in keys]
            return [text for one in held for text in (one if isinstance(one, list | tuple) else [one])]
    raise ValueError(f"{_A_LIST}, not an object with the keys {', '.join(map(str, found))[:SHOWN]}")


def _check_plain(text: object) -> None:
    """Errors: `ValueError` where a text holds an object, or a list of texts."""
    if isinstance(text, str) and text.lstrip()[:1] in ("[", "{", "("):
        try:
            found = structure_of(text)
        except ValueError:
            return  # "[REC]"
        if isinstance(found, Mapping) or (found and any(isinstance(one, str | Mapping) for one in found)):
            raise ValueError(f"a text was expected, not {text[:SHOWN]!r}")


def _relation(row: Row, meaning: str) -> str | None:
    """The name of a relation; marts call all relations together `all`."""
    name = row.text(meaning)
    if name == ALL:
        raise row.refused(meaning, f"a name other than {ALL} was expected")
    return name


def _advice(columns: Mapping[str, str], column: str, values: Sequence[str]) -> str:
    """What to write in the study about values of a column that cannot be read."""
    meaning = next(meaning for meaning, name in columns.items() if name == column)
    for sign in THOUSANDS if meaning == "popularity" else ():
        with suppress(ValueError):
            for value in values:
                number_of(value, sign)
            return f'add to the import: thousands: "{sign}"'
    return f"correct them, or leave the column out: columns: {{{meaning}: null}}"


def _lacks(columns: Mapping[str, str], dataset: ImportedDataset) -> list[str]:
    """What the file does not give, and which analyses then lack it, a line each."""
    lines = [] if "id" in columns else [NO_IDS]
    rows = dataset.questions.values()
    popularity = {entity.entity_id: entity.popularity for entity in dataset.entities.values()}
    without = {
        "popularity": sum(popularity.get(row["subject_id"]) is None for row in rows),
        "relation": sum(row["relation"] is None for row in rows),
    }
    means = {
        "popularity": "analyses of popularity leave them out",
        "relation": "they count under `all` alone",
    }
    for name, n in without.items():
        if n:
            lines.append(f"{n:,} of {len(rows):,} questions have no {name}: {means[name]}")
    return lines
