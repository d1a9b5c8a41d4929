"""Anybody's files as rows: CSV, TSV, JSON lines, a JSON list or Parquet, plain or packed, with columns of any name.

The file's first bytes say which kind it is, its name does not matter.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, TypeVar
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq

from longtail.errors import SourceError, single_line
from longtail.imports.column_names import (
    MOST_COLUMNS,
    ROWS,
    SHOWN,
    Columns,
    chosen_columns,
    columns_of_objects,
    list_names,
    unusual,
    value_at,
)
from longtail.imports.lines import LONGEST_LINE, PYTHON_DICTS, clean, is_python
from longtail.imports.records import (
    PARQUET,
    columns_of_schema,
    header_of,
    open_parquet,
    read_delimited,
    read_json_lines,
    readable_parquet,
)
from longtail.parsing.line_files import RejectedRows, open_file
from longtail.parsing.terms import LONGEST_LABEL

LONGEST_ID = 100
THOUSANDS = (",", ".", " ", "'", "’", "_")
"""The signs that may stand between the thousands of a number."""
_LARGEST_COUNT = 2**31 - 1
_MISSING = frozenset({"", "nan", "none", "null", "na", "n/a", "<na>", "nat", "unknown", "?", "-"})
NULLS = frozenset({"", "nan", "NaN", "None", "null", "NULL", "NA", "<NA>", "\\N"})
"""What programs write into a CSV or TSV for a value that is not there."""
_WHOLE_FLOAT = re.compile(r"\s*-?\d+\.0\s*", re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_PUBLISHED = re.compile(rb"\s*\{\s*\"(data|version)\"", re.IGNORECASE)
_N_EXAMPLES = 3
_N_JUDGED = 1_000
"""How many rows of a file's beginning say whether a column holds whole numbers."""
Value = TypeVar("Value")
Declared = Mapping[str, str | None]
"""Meaning → the file's name of its column; None: it is not read."""


class RefusedError(Exception):
    """A row cannot be used. The text says why."""


class OptionalValues:
    """Values of a file's optional columns. One that cannot be read is unknown and counted; its row is used all the same.

    `advice` says what to write in the study, for the name of a column, its first values that cannot be read, and what is
    wrong with the first one.
    """

    def __init__(
        self,
        path: Path,
        advice: Callable[[str, Sequence[str], str], str] = lambda _column, _values, _reason: "",
    ) -> None:
        self.n_unread: Counter[str] = Counter()
        self._path, self._advice = path, advice
        self._n_values: Counter[str] = Counter()
        self._examples: dict[str, list[tuple[int, str]]] = {}
        self._reasons: dict[str, str] = {}

    def read(self, row: int, column: str, value: object, parse: Callable[[], Value]) -> Value | None:
        """What `parse` makes of a value; None where it raises `RefusedError` or `ValueError`."""
        self._n_values[column] += not is_missing(value)
        try:
            return parse()
        except (RefusedError, ValueError) as error:
            self.n_unread[column] += 1
            self._reasons.setdefault(column, str(error).removeprefix(f"column {column}: "))
            examples = self._examples.setdefault(column, [])
            if len(examples) < _N_EXAMPLES:
                examples.append((row, str(value)[:SHOWN]))
            return None

    def lines(self) -> list[str]:
        """A line for each column with values that cannot be read.

        Errors: `SourceError` where these are more than a tenth of the column's values.
        """
        lines = []
        for column, n in self.n_unread.items():
            values = [text for _, text in self._examples[column]]
            shown = ", ".join(f"{text!r} (row {row})" for row, text in self._examples[column])
            line = f"column {column}: {n:,} of {self._n_values[column]:,} values cannot be read: {shown}"
            if 10 * n > self._n_values[column]:
                advice = self._advice(column, values, self._reasons[column])
                raise SourceError(f"{self._path}: {line}{advice and f'; {advice}'}")
            lines.append(f"{line}; they count as unknown")
        return lines


@dataclass(frozen=True)
class Row:
    """One row: its number, its values by meaning, and the file's names of the columns by meaning.

    Values that are no such value raise `RefusedError`, which names the file's column. `thousands`: the sign between the
    thousands of its numbers.
    """

    number: int
    values: Mapping[str, Any]
    columns: Mapping[str, str]
    thousands: str | None = None

    def optional(
        self, meaning: str, read: Callable[[Row, str], Value | None], values: OptionalValues
    ) -> Value | None:
        """What `read` makes of an optional column's value; None where it is missing or cannot be read."""
        column, value = self.columns.get(meaning, meaning), self.values.get(meaning)
        return values.read(self.number, column, value, lambda: read(self, meaning))

    def error(self, meaning: str, why: object) -> RefusedError:
        return RefusedError(f"column {self.columns.get(meaning, meaning)}: {why}")

    def raw_text(self, meaning: str) -> str | None:
        """The text as it is; None if the row has none."""
        value = self.values.get(meaning)
        try:
            return None if value is None else text_of(value)
        except ValueError as error:
            raise self.error(meaning, error) from None

    def text(self, meaning: str, longest: int = LONGEST_LABEL) -> str | None:
        """The text in one line; None if it is missing. It is never cut, since a part means something else."""
        try:
            return fitting(self.raw_text(meaning) or "", longest) or None
        except ValueError as error:
            raise self.error(meaning, error) from None

    def amount(self, meaning: str) -> float | None:
        """A number of at least 0; None where it is missing, as NaN and negative numbers are."""
        text = (self.raw_text(meaning) or "").strip()
        if is_missing(text):
            return None
        try:
            number = number_of(text, self.thousands)
        except ValueError as error:
            raise self.error(meaning, error) from None
        return number if number >= 0 else None

    def count(self, meaning: str) -> int | None:
        """A whole number of at least 0; None where it is missing."""
        number = self.amount(meaning)
        if number is not None and (not number.is_integer() or number > _LARGEST_COUNT):
            raise self.error(meaning, f"a whole number was expected, not {number:g}")
        return None if number is None else int(number)

    def id(self) -> str | None:
        """The row's id; None in a file without ids."""
        if "id" not in self.columns:
            return None
        row_id = self.text("id", LONGEST_ID)
        if row_id is None:
            raise self.error("id", "an id was expected")
        return row_id


@dataclass(frozen=True)
class Rows:
    """A file's rows; `columns`: meaning → the file's name of the column; `says`: lines about those
    that were found by another name. `is_typed`: it tells a null from an empty text, as JSON and Parquet do. `left_out`:
    the numbers of the rows that key `rows` leaves out, so far as `rows` was read."""

    columns: Mapping[str, str]
    rows: Iterable[Row]
    says: Sequence[str] = ()
    is_typed: bool = True
    left_out: list[int] = field(default_factory=list)


def read_table(
    path: Path,
    declared: Declared | Callable[[Columns], Declared],
    meanings: Sequence[str],
    required: Sequence[str],
    rejected: RejectedRows,
    thousands: str | None = None,
    quoting: str | None = None,
    only: Sequence[tuple[str, str]] = (),
    most: int | None = None,
) -> Rows:
    """The rows of a file. Those that are broken go to `rejected` while the rows are taken. `quoting`: of CSV and TSV.
    `only`: columns with the value of the rows that are wanted. `declared` may depend on the file's columns. The file's
    rows are read while they are taken, but for JSON. `most`: only so many rows of the file's beginning are read.

    Errors: `SourceError` where the file cannot be read, or lacks a column that is required or declared.
    """
    if path.is_dir():
        raise SourceError(f"{path}: is a folder; name one file")
    choosing = {f"{ROWS}{column}": column for column, _ in only}

    def choose(
        there: Columns, objects: Sequence[tuple[int, Mapping[str, Any]]] | None = None
    ) -> tuple[dict[str, str], list[str]]:
        named = declared(there) if callable(declared) else declared
        try:
            columns = chosen_columns(path, there, {**named, **choosing}, [*meanings, *choosing], required)
        except SourceError:
            if objects is not None:
                _refuse_object(path, objects, rejected, has_columns=False)
            raise
        return columns, unusual(columns, named)

    with open_file(path) as stream:
        start = stream.read(64).removeprefix(b"\xef\xbb\xbf").lstrip()
    numbered: Iterable[tuple[int, Mapping[str, Any]]]
    is_typed = start.startswith((PARQUET, b"{", b"["))
    if start.startswith(PARQUET):
        file = open_parquet(path)
        there = columns_of_schema(file.schema_arrow)
        columns, says = choose(there)
        numbered = enumerate(_parquet_rows(path, file, _whole(columns, file.schema_arrow.names)), 1)
    elif start.startswith((b"{", b"[")):
        numbered = list(islice(number_objects(path, rejected), most))
        there = columns_of_objects(row for _, row in numbered)
        columns, says = choose(there, numbered)
        _refuse_object(path, numbered, rejected, has_columns=True)
    else:
        delimiter, header = header_of(path)
        there = dict.fromkeys(header, False)
        columns, says = choose(there)
        records = read_delimited(path, delimiter, _whole(columns, header), rejected, quoting=quoting)
        numbered = _restore_numbers(((record.row, record.fields) for record in records), columns)
    left_out: list[int] = []
    rows = (_row(number, fields, columns, thousands) for number, fields in islice(numbered, most))
    return Rows(columns, _chosen(rows, only, left_out) if only else rows, says, is_typed, left_out)


def _restore_numbers(
    numbered: Iterable[tuple[int, Mapping[str, str]]], columns: Mapping[str, str]
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The rows of a CSV or TSV as they were before it was written: a word for nothing is no gold answer, and 1999.0 is
    1999 in a column of ids or answers that has only such numbers, as pandas writes whole ones with a gap."""
    rows = iter(numbered)
    beginning = [*islice(rows, _N_JUDGED)]
    floats = []
    for name in {columns.get(meaning, "") for meaning in ("id", "answers")}:
        filled = [fields[name] for _, fields in beginning if fields.get(name, "").strip() not in NULLS]
        if filled and all(map(_WHOLE_FLOAT.fullmatch, filled)):
            floats.append(name)
    answers = columns.get("answers", "")
    for number, fields in chain(beginning, rows):
        changed = {
            name: fields[name].strip().removesuffix(".0")
            for name in floats
            if _WHOLE_FLOAT.fullmatch(fields[name])
        }
        if fields.get(answers, "x").strip() in NULLS:
            changed[answers] = ""
        yield number, {**fields, **changed} if changed else fields


def _chosen(rows: Iterable[Row], only: Sequence[tuple[str, str]], left_out: list[int]) -> Iterator[Row]:
    for row in rows:
        if all(str(row.values[f"{ROWS}{column}"]).strip().casefold() == value for column, value in only):
            yield row
        else:
            left_out.append(row.number)


def number_objects(path: Path, rejected: RejectedRows) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The objects of a JSON list, of JSON lines, or of SQuAD's and TriviaQA's own JSON, with their numbers from 1.

    Errors: `SourceError`.
    """
    with open_file(path) as stream:
        is_list = stream.read(64).removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"[")
        stream.seek(0)
        listed = _json(path, stream.read()) if is_list else rows_of_object(stream)
    numbered = read_json_lines(path, rejected) if listed is None else enumerate(listed, 1)
    for number, item in numbered:
        if not isinstance(item, Mapping):
            rejected.put(number, "an object was expected", item)
        elif len(item) > MOST_COLUMNS:
            rejected.put(
                number, f"an object of at most {MOST_COLUMNS:,} keys was expected, not of {len(item):,}"
            )
        else:
            yield number, item


def _refuse_object(
    path: Path, rows: Sequence[tuple[int, Mapping[str, Any]]], rejected: RejectedRows, *, has_columns: bool
) -> None:
    """Errors: `SourceError` where a file of JSON has no row, or is one object in which the rows are.

    An object that has the columns of a row is one, unless all that it holds are lists and objects.
    """
    if not rows:
        first = f" ({rejected.rows[0].row_key}: {rejected.rows[0].reason})" if rejected.rows else ""
        raise SourceError(f"{path}: holds no row: one JSON object a line was expected{first}")
    _, whole = rows[0]
    is_nested = all(isinstance(value, Mapping | list) for value in whole.values())
    if len(rows) > 1 or (has_columns and not is_nested):
        return
    for key, value in whole.items():
        if isinstance(value, list) and value and isinstance(value[0], Mapping):
            raise SourceError(
                f"{path}: is one JSON object in place of rows; they may be in its key {key[:SHOWN]}: jq -c"
                f" '.[\"{key[:SHOWN]}\"][]' <file> > <new file>"
            )
    if is_nested:
        raise SourceError(
            f"{path}: is one JSON object in place of rows, with the keys {list_names(whole)}; write one object a line"
            " (pandas: to_json(orient='records', lines=True))"
        )


def rows_of_object(stream: IO[bytes]) -> list[Any] | None:
    """The rows in a file that is one JSON object; None for JSON lines, of which a line is read."""
    text = stream.readline(LONGEST_LINE).removeprefix(b"\xef\xbb\xbf")
    is_cut = len(text) >= LONGEST_LINE and not text.endswith(b"\n")
    if text.rstrip().endswith((b"{", b"[", b",", b":")) or (is_cut and _PUBLISHED.match(text)):
        text += stream.read()
    elif stream.read(1):
        return None
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        return None
    listed = whole.get("data", whole.get("Data")) if isinstance(whole, Mapping) else None
    if not isinstance(listed, list) or not any(isinstance(item, Mapping) for item in listed):
        return [whole]
    return [row for item in listed for row in _rows_of_item(item)]


def _rows_of_item(item: Any) -> Iterator[Any]:
    """The rows of an article of SQuAD; of anything else, the item itself."""
    if not isinstance(item, Mapping) or not isinstance(item.get("paragraphs"), list):
        yield item
        return
    for paragraph in item["paragraphs"]:
        asked = paragraph.get("qas") if isinstance(paragraph, Mapping) else None
        for row in asked if isinstance(asked, list) else [paragraph]:
            is_question = isinstance(row, Mapping) and row is not paragraph
            yield {"context": paragraph.get("context"), **row} if is_question else row


def _json(path: Path, content: bytes) -> list[Any]:
    try:
        return list(json.loads(content))
    except (ValueError, RecursionError) as error:
        hint = (
            PYTHON_DICTS if is_python(content[:200].decode("utf-8", "replace")) else "the file may be cut off"
        )
        raise SourceError(f"{path}: cannot be read as a JSON list ({str(error)[:200]}); {hint}") from None


def _whole(columns: Mapping[str, str], there: Sequence[str]) -> list[str]:
    """The file's columns that are read: for a path into a nested value, the column that it begins in."""
    begins = {
        next(name for name in (path, *there) if name in there and f"{path}.".startswith(f"{name}."))
        for path in columns.values()
    }
    return sorted(begins)


def is_missing(value: object) -> bool:
    """Whether a value stands for none: null, NaN, an empty text, or a word such as `unknown`."""
    return value is None or value != value or (isinstance(value, str) and value.strip().lower() in _MISSING)


def number_of(text: str, thousands: str | None = None) -> float:
    """The finite number that a text is, with `thousands` between its thousands: a space also if it is unbreakable; a
    full stop, if the comma stands before decimals. Errors: `ValueError`; `1_234` and `inf` are no numbers."""
    plain = text
    if thousands:
        sign, point = (
            ("[ \u00a0\u2009\u202f]" if thousands == " " else re.escape(thousands)),
            ".,"[thousands == "."],
        )
        grouped = re.fullmatch(
            rf"([+-]?\d{{1,3}}(?:{sign}\d{{2,3}})*{sign}\d{{3}})(?:{re.escape(point)}(\d+))?", text
        )
        if grouped:
            plain = f"{re.sub(sign, '', grouped[1])}.{grouped[2] or ''}"
        elif point == ",":
            plain = text.translate({ord("."): "?", ord(","): "."})
    number = float(plain) if _NUMBER.fullmatch(plain) else math.inf
    if math.isinf(number):
        raise ValueError(f"a number was expected, not {text[:SHOWN]!r}")
    return number


def text_of(value: object) -> str:
    """A value as text: numbers as they are written, nothing for a missing value. Errors: `ValueError`."""
    if value is None or value != value:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, float | Decimal):  # DuckDB writes decimals into Parquet, with zeros at their end
        if math.isinf(value):
            return str(float(value))
        text = f"{Decimal(repr(value) if isinstance(value, float) else value):f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    if isinstance(value, bytes):
        return _decode(value)
    if isinstance(value, datetime) and value.time() == time():
        return str(value.date())
    if isinstance(value, int | date | time | timedelta | UUID):  # also truths and points in time
        return str(value)
    if isinstance(value, _Unreadable):
        raise ValueError(value.reason)
    raise ValueError(f"a text was expected, not {str(value)[:SHOWN]!r}")


def fitting(text: str, longest: int) -> str:
    """The text in one line, clean. Errors: `ValueError` where it is longer than `longest` characters."""
    cleaned = clean(text, len(text) or 1)
    if len(cleaned) > longest:
        raise ValueError(f"a text of {len(cleaned):,} characters; at most {longest:,} are allowed")
    return cleaned


def _row(number: int, fields: Mapping[str, Any], columns: Mapping[str, str], thousands: str | None) -> Row:
    values = {meaning: value_at(fields, column) for meaning, column in columns.items()}
    return Row(number, values, columns, thousands)


@dataclass(frozen=True)
class _Unreadable:
    """Stands for a value of a Parquet file that Python cannot hold."""

    reason: str

    def __str__(self) -> str:
        return self.reason


_NOT_HELD = (ValueError, ArithmeticError, LookupError, TypeError, NotImplementedError, pa.ArrowException)
"""What pyarrow raises for such a value: bytes that are no UTF-8, the year 20000, an unknown time zone."""


def _parquet_rows(path: Path, file: pq.ParquetFile, columns: list[str]) -> Iterator[Mapping[str, Any]]:
    with readable_parquet(path):
        for batch in file.iter_batches(batch_size=10_000, columns=columns):
            values = [_values(batch.column(name)) for name in columns]
            for row in zip(*values, strict=True):
                yield dict(zip(columns, row, strict=True))


def _values(column: pa.Array) -> list[Any]:
    """The values of a column; each that Python cannot hold is an `_Unreadable`."""
    if pa.types.is_float16(column.type) or pa.types.is_float32(column.type):
        shortest = column.to_numpy(zero_copy_only=False).astype(str)  # .1, and not .10000000149
        return [
            float(text) if scalar.is_valid else None for text, scalar in zip(shortest, column, strict=True)
        ]
    try:
        values: list[Any] = column.to_pylist()
    except _NOT_HELD:
        values = [_value(scalar) for scalar in column]
    return values


def _value(scalar: pa.Scalar) -> Any:
    try:
        return scalar.as_py()
    except UnicodeDecodeError as error:
        reason = _no_utf_8(error)
    except _NOT_HELD as error:
        reason = f"a value of type {scalar.type} that Python cannot hold ({single_line(str(error))[:100]})"
    if isinstance(scalar, pa.StructScalar):
        with contextlib.suppress(*_NOT_HELD):
            return {name: _value(scalar[name]) for name in scalar}
    return _Unreadable(reason)


def _decode(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise ValueError(_no_utf_8(error)) from None


def _no_utf_8(error: UnicodeDecodeError) -> str:
    return f"byte 0x{error.object[error.start]:02x} is not UTF-8 (is the text Latin-1? write it as UTF-8)"
