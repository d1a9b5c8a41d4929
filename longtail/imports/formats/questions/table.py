"""Anybody's questions: a table with columns `question` and `answers`, and what else it has.

In a file without ids, an id is made from the dataset's name, the question and its answers (SPEC §1). A question with a
subject, a popularity or a passage brings an entity. Rows share one only if they agree in all three: one name may mean two
things.

KILT publishes all its datasets as {"id": …, "input": question, "output": [{"answer": …, "provenance": …}, …]}, a list of
them, or one a line. An output without an answer is provenance alone, and is passed over.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from longtail.errors import SourceError
from longtail.imports.column_names import SHOWN, structure_of
from longtail.imports.format import (
    LONGEST_QUESTION,
    ChosenRows,
    ImportedDataset,
    ImportedEntity,
    QuestionFormat,
    Quoting,
    Separator,
    question_row,
)
from longtail.imports.lines import AUTO, clean
from longtail.imports.records import MOST_ASIDE, file_hashes, first_reason
from longtail.imports.table_rows import (
    THOUSANDS,
    OptionalValues,
    RefusedError,
    Row,
    Rows,
    fitting,
    is_missing,
    number_objects,
    number_of,
    read_table,
    text_of,
)
from longtail.parsing.line_files import RejectedRows
from longtail.parsing.terms import LONGEST_LABEL
from longtail.relations.relation import ALL
from longtail.scoring.match import comparable
from longtail.storage.fingerprints import fingerprint
from longtail.study.imports import Import
from longtail.study.parts import Part
from longtail.study.values import column_names, one_of

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
_BYTES = re.compile(r"b(['\"]).*\1", re.DOTALL)
"""Bytes as Python prints them."""
_DOTTED, _SMALL = re.compile(r"[1-9]\d{0,2}(\.\d{3})+"), re.compile(r"\d{1,3}")
_FEWEST_DOTTED = 3


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
    content = questions_of(path, table, rejected, Reading(dataset_name, options["separator"], file_id))
    content.says[:0] = table.says
    return content


def questions_of(path: Path, table: Rows, rejected: RejectedRows, read: Reading) -> ImportedDataset:
    """The questions in the rows of a file.

    Errors: `SourceError` where no row can be used, or more than a tenth of an optional column cannot be read.
    """
    values = OptionalValues(path, partial(_advise, table.columns))
    popularity = []
    for row in table.rows:
        try:
            read.add(row, values)
            popularity.append(row.values.get("popularity") if row.thousands is None else None)
        except RefusedError as refused:
            rejected.put(row.number, str(refused), row.values)
    _refuse_dots(path, [text.strip() for text in popularity if isinstance(text, str)])
    dataset = read.dataset
    if not dataset.questions:
        raise SourceError(f"{path}: holds no question that can be used{first_reason(rejected.rows)}")
    dataset.rejected.extend(rejected.list_rows())
    dataset.says.extend([*values.lines(), *_lacks(table.columns, dataset)])
    if table.left_out:
        dataset.says.append(f"{len(table.left_out):,} rows are left out by key rows of the study")
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
            raise row.error("id", f"row {self._rows[own_id]} has the same id; that row is kept")
        question = row.text("question", LONGEST_QUESTION)
        if question is None:
            raise row.error("question", "a text was expected")
        golds = answers_of(row, self._separator, self._longest_answer)
        relation = row.optional("relation", _relation, values)
        subject = row.optional("subject", Row.text, values)
        popularity = row.optional("popularity", Row.amount, values)
        passage = (row.optional("passage", Row.raw_text, values) or "").strip()
        passage = "" if is_missing(passage) else passage
        known = subject, popularity, passage
        entity_id = self._entity(own_id or str(row.number), subject or clean(question), known)
        question_id = own_id or number_id(make_id(self._name, question, golds), self._repeats)
        self._rows[question_id] = row.number
        self.dataset.rows[row.number] = question_id
        self.dataset.questions[question_id] = question_row(
            question_id, question, golds, relation=relation, subject_id=entity_id, subject=subject
        )

    def _entity(self, row_id: str, label: str, known: _Known) -> str | None:
        """The id of the entity that has what a row knows of it; None if the row knows nothing."""
        subject, popularity, passage = known
        if subject is None and popularity is None and not passage:
            return None
        row_entity = f"{self._file_id}-{row_id}"
        entity_id = row_entity if subject is None else self._entities.setdefault(known, row_entity)
        if entity_id == row_entity:
            self.dataset.entities[row_entity] = ImportedEntity(row_entity, label, popularity=popularity)
            if passage:
                self.dataset.passages[row_entity] = (subject or row_id, passage)
        return entity_id


def make_id(dataset_name: str, question: str, golds: Sequence[str]) -> str:
    """The id of a question without one: 16 digits of the SHA-256 of the JSON of dataset, question, sorted answers."""
    return fingerprint(dataset_name, question, sorted(golds))[:16]


def number_id(made: str, repeats: Counter[Hashable], *group: Hashable) -> str:
    """The id; numbered where it came before within `group`, since every row of a file is asked."""
    repeats[made, *group] += 1
    n = repeats[made, *group]
    return made if n == 1 else f"{made}-{n}"


def answers_of(row: Row, separator: str | None, longest: int = LONGEST_LABEL) -> list[str]:
    """The gold answers of a row. Errors: `RefusedError`."""
    try:
        texts = (
            fitting(text_of(answer), longest) for answer in _list_answers(row.values["answers"], separator)
        )
        golds = list(dict.fromkeys(text for text in texts if comparable(text).strip()))
    except ValueError as error:
        raise row.error("answers", error) from None
    if not golds:
        raise row.error("answers", "at least one answer was expected")
    return golds


def _list_answers(value: object, separator: str | None) -> list[Any]:
    """The answers in a value: a list, an object of a known form, texts between separators, or one text.

    Errors: `ValueError` where a text holds something else that is no plain text.
    """
    if isinstance(value, Mapping):
        return _texts_of(value)
    if isinstance(value, list | tuple):
        listed = [
            text for item in value for text in (_texts_of(item) if isinstance(item, Mapping) else [item])
        ]
        for item in listed:
            _check_plain(item)
        return listed
    text = text_of(value).strip()
    if text.startswith('"'):
        with suppress(ValueError):
            text, separator = json.loads(text).strip(), None  # a text as JSON writes it
    try:
        parsed = structure_of(text)
    except ValueError:
        if not (separator and text.startswith("[")):
            raise ValueError(_A_LIST) from None
        parsed = None
    if parsed is not None:
        return _list_answers(parsed, None)
    parts = text.split(separator) if separator else [text]
    for part in parts:
        _check_plain(part)
    return parts


def _texts_of(fields: Mapping[str, Any]) -> list[Any]:
    """The texts in an object of a known form. Errors: `ValueError`."""
    values = {str(key).casefold().replace("_", ""): value for key, value in fields.items()}
    for keys, beside in _FORMS:
        if {*values} <= keys | beside and (keys & {*values} or not values):
            return [text for key in values if key in keys for text in _listed(values[key])]
    if "aliases" in values:
        return [text for key in ("value", "aliases") for text in _listed(values.get(key))]
    raise ValueError(f"{_A_LIST}, not an object with the keys {', '.join(map(str, fields))[:SHOWN]}")


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else [value]


def _check_plain(text: object) -> None:
    """Errors: `ValueError` where a text holds an object, or a list of texts."""
    if isinstance(text, str) and _BYTES.fullmatch(text.strip()):
        raise ValueError(f"a text was expected, not {text[:SHOWN]!r}")
    if isinstance(text, str) and text.lstrip()[:1] in ("[", "{", "("):
        try:
            parsed = structure_of(text)
        except ValueError:
            return  # "[REC]"
        if isinstance(parsed, Mapping) or (
            parsed and any(isinstance(item, str | Mapping) for item in parsed)
        ):
            raise ValueError(f"a text was expected, not {text[:SHOWN]!r}")


def _relation(row: Row, meaning: str) -> str | None:
    """The name of a relation; marts call all relations together `all`."""
    name = row.text(meaning)
    if name == ALL:
        raise row.error(meaning, f"a name other than {ALL} was expected")
    return None if is_missing(name) else name


def _refuse_dots(path: Path, popularity: Sequence[str]) -> None:
    """Errors: `SourceError` where full stops may stand between thousands: three digits follow each, and all other numbers
    are whole and below 1,000."""
    dotted = [text for text in popularity if _DOTTED.fullmatch(text)]
    others = [text for text in popularity if not is_missing(text) and not _DOTTED.fullmatch(text)]
    is_likely = others and len(dotted) >= _FEWEST_DOTTED
    if (is_likely or any(text.count(".") > 1 for text in dotted)) and all(map(_SMALL.fullmatch, others)):
        raise SourceError(
            f"{path}: column popularity: {dotted[0]} may be {dotted[0].replace('.', '')} or a number with decimals; say"
            ' which in the import: thousands: "." if the full stop stands between thousands, thousands: "," if not'
        )


def _advise(columns: Mapping[str, str], column: str, values: Sequence[str], _reason: str) -> str:
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
    means = ("analyses of popularity leave them out", "they count under `all` alone")
    for (name, n), meaning in zip(without.items(), means, strict=True):
        if n:
            lines.append(f"{n:,} of {len(rows):,} questions have no {name}: {meaning}")
    return lines


_KILT = {"id": "id", "question": "input", "answers": "output"}


def read_objects(
    path: Path, dataset_name: str, form: Mapping[str, str], longest_answer: int
) -> ImportedDataset:
    """The questions of a file in KILT's form or in `form`: meaning → the object's key, for id, question and answers.

    Errors: `SourceError` where the file is neither, or has no question that can be used.
    """
    rejected = RejectedRows(path.name)
    objects = list(number_objects(path, rejected))
    keys = _KILT if any(_KILT["question"] in item for _, item in objects) else form
    rows = (Row(number, _values(item, keys), keys) for number, item in objects)
    return questions_of(path, Rows(keys, rows), rejected, Reading(dataset_name, None, "", longest_answer))


def _values(item: Mapping[str, Any], keys: Mapping[str, str]) -> dict[str, Any]:
    answers = item.get(keys["answers"])
    if isinstance(answers, Mapping):  # ELI5's own form has the texts of answers beside their ids and votes
        answers = answers.get("text")
    listed = answers if isinstance(answers, list) else [answers]
    golds = [gold.get("answer") if isinstance(gold, Mapping) else gold for gold in listed]
    return {"id": item.get(keys["id"]), "question": item.get(keys["question"]), "answers": golds}


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
