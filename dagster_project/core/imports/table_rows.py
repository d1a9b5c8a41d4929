"""Anybody's files as rows: CSV, TSV, JSON lines, a JSON list or Parquet, plain or packed, with columns of any name.

What belongs here: which kind a file is, and single values. What does not: which column has which meaning
(`column_names`), the meanings of questions (`table`) and of answers (`formats.answers.table`), and lines of text
(`records`).

The file's first bytes say which kind it is, its name does not matter.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dagster_project.core.errors import SourceError
from dagster_project.core.imports.column_checks import PARQUET, columns_at_beginning, columns_of_schema
from dagster_project.core.imports.column_names import chosen_columns, columns_of_object, value_at
from dagster_project.core.imports.compressed import opened
from dagster_project.core.imports.dataset import clean
from dagster_project.core.imports.records import RejectedRows, header_of, read_delimited, read_json_lines
from dagster_project.core.parsing.terms import LONGEST_LABEL
from dagster_project.core.study.reader import Reader

LONGEST_ID = 100
_LARGEST_COUNT = 2**31 - 1
_MISSING = frozenset({"", "nan", "none", "null", "na", "n/a"})


class RefusedError(Exception):
    """A row cannot be used. The text says why."""


@dataclass(frozen=True)
class Row:
    """One row: its number, its values by meaning, and the file's names of the columns by meaning.

    Values that are no such value raise `RefusedError`, which names the file's column.
    """

    number: int
    values: Mapping[str, Any]
    columns: Mapping[str, str]

    def refused(self, meaning: str, why: object) -> RefusedError:
        return RefusedError(f"column {self.columns.get(meaning, meaning)}: {why}")

    def raw_text(self, meaning: str) -> str | None:
        """The text as it is; None if the row has none."""
        value = self.values.get(meaning)
        try:
            return None if value is None else text_of(value)
        except ValueError as error:
            raise self.refused(meaning, error) from None

    def text(self, meaning: str, longest: int = LONGEST_LABEL) -> str | None:
        """The text in one line; None if it is missing. It is never cut, since a part means something else."""
        try:
            return fitting(self.raw_text(meaning) or "", longest) or None
        except ValueError as error:
            raise self.refused(meaning, error) from None

    def amount(self, meaning: str) -> float | None:
        """A number of at least 0; None where it is missing, as NaN and negative numbers are."""
        text = (self.raw_text(meaning) or "").strip()
        if text.lower() in _MISSING:
            return None
        try:
            number = float(text)
        except ValueError:
            number = math.inf
        if math.isinf(number):
            raise self.refused(meaning, f"a number was expected, not {text[:40]!r}")
        return number if number >= 0 else None

    def count(self, meaning: str) -> int | None:
        """A whole number of at least 0; None where it is missing."""
        number = self.amount(meaning)
        if number is not None and (not number.is_integer() or number > _LARGEST_COUNT):
            raise self.refused(meaning, f"a whole number was expected, not {number:g}")
        return None if number is None else int(number)

    def id(self) -> str | None:
        """The row's id; None in a file without ids."""
        if "id" not in self.columns:
            return None
        found = self.text("id", LONGEST_ID)
        if found is None:
            raise self.refused("id", "an id was expected")
        return found


@dataclass(frozen=True)
class Rows:
    """A file's rows; `columns`: meaning → the file's name of the column."""

    columns: Mapping[str, str]
    rows: Iterable[Row]


def columns_key(meanings: Sequence[str]) -> Callable[[Reader, str], tuple[tuple[str, str | None], ...]]:
    """How a format reads its key `columns`: meanings and names of columns, as pairs; None: such a column is not read."""

    def read(reader: Reader, key: str) -> tuple[tuple[str, str | None], ...]:
        if reader.raw.get(key) is None:
            return ()
        named = reader.child(key)
        named.only(*meanings)
        return tuple(
            (meaning, named.optional(meaning, named.text)) for meaning in meanings if meaning in named.raw
        )

    return read


def check_table(
    path: Path,
    declared: Any,
    columns: Iterable[tuple[str, str | None]],
    meanings: Sequence[str],
    required: Sequence[str],
) -> set[str]:
    """Look at a file's columns alone; the meanings that were found. Errors: `SourceError` where one is missing."""
    there, is_all = columns_at_beginning(path, declared)
    wanted = {name: column if is_all or name in required else None for name, column in columns}
    return {*(chosen_columns(path, there, wanted, meanings, required) if there else meanings)}


def read_table(
    path: Path,
    declared: Mapping[str, str | None],
    meanings: Sequence[str],
    required: Sequence[str],
    rejected: RejectedRows,
    quoting: str | None = None,
) -> Rows:
    """The rows of a file. Those that are broken go to `rejected` while the rows are taken. `quoting`: of CSV and TSV.

    Errors: `SourceError` where the file cannot be read, or lacks a column that is required or declared.
    """
    if path.is_dir():
        raise SourceError(f"{path}: is a folder; name one file")
    with opened(path) as stream:
        start = stream.read(64).removeprefix(b"\xef\xbb\xbf").lstrip()
    found: Iterable[tuple[int, Mapping[str, Any]]]
    if start.startswith(PARQUET):
        file = _parquet(path)
        columns = chosen_columns(path, columns_of_schema(file.schema_arrow), declared, meanings, required)
        found = enumerate(_parquet_rows(path, file, _whole(columns, file.schema_arrow.names)), 1)
    elif start.startswith((b"{", b"[")):
        found = list(numbered_objects(path, rejected))
        there: dict[str, bool] = {}
        for name, is_list in (column for _, row in found for column in columns_of_object(row)):
            there[name] = there.get(name, True) and is_list
        columns = chosen_columns(path, there, declared, meanings, required)
    else:
        delimiter, header = header_of(path)
        columns = chosen_columns(path, dict.fromkeys(header, False), declared, meanings, required)
        records = read_delimited(path, delimiter, _whole(columns, header), rejected, quoting=quoting)
        found = ((record.row, record.fields) for record in records)
    return Rows(columns, (_row(number, fields, columns) for number, fields in found))


def numbered_objects(path: Path, rejected: RejectedRows) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The objects of a JSON list, or of JSON lines, with their numbers from 1. Errors: `SourceError`."""
    with opened(path) as stream:
        is_list = stream.read(64).removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"[")
        stream.seek(0)
        listed = _json(path, stream.read()) if is_list else None
    if listed is None:
        yield from read_json_lines(path, rejected)
        return
    for number, one in enumerate(listed, 1):
        if isinstance(one, Mapping):
            yield number, one
        else:
            rejected.put(number, "an object was expected", one)


def _json(path: Path, content: bytes) -> list[Any]:
    try:
        return list(json.loads(content))
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{path}: is no JSON list ({str(error)[:200]}); the file may be cut off") from None


def _whole(columns: Mapping[str, str], there: Sequence[str]) -> list[str]:
    """The file's columns that are read: for a path into a nested value, the column that it begins in."""
    begins = {
        next(name for name in (path, *there) if name in there and f"{path}.".startswith(f"{name}."))
        for path in columns.values()
    }
    return sorted(begins)


def text_of(value: object) -> str:
    """A value as text: numbers as they are written, nothing for a missing value. Errors: `ValueError`."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, Decimal):  # DuckDB writes them into Parquet, with zeros at their end
        if not value.is_finite():
            return text_of(float(value))
        return f"{value:f}".rstrip("0").rstrip(".") if "." in f"{value:f}" else f"{value:f}"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    raise ValueError(f"a text was expected, not {str(value)[:40]!r}")


def fitting(text: str, longest: int) -> str:
    """The text in one line, clean. Errors: `ValueError` where it is longer than `longest` characters."""
    cleaned = clean(text, len(text) or 1)
    if len(cleaned) > longest:
        raise ValueError(f"a text of {len(cleaned):,} characters; at most {longest:,} are allowed")
    return cleaned


def _row(number: int, fields: Mapping[str, Any], columns: Mapping[str, str]) -> Row:
    return Row(number, {meaning: value_at(fields, column) for meaning, column in columns.items()}, columns)


def _parquet(path: Path) -> pq.ParquetFile:
    with opened(path) as stream, _readable(path):
        return pq.ParquetFile(pa.BufferReader(stream.read()))


def _parquet_rows(path: Path, file: pq.ParquetFile, columns: list[str]) -> Iterator[Mapping[str, Any]]:
    with _readable(path):
        for batch in file.iter_batches(batch_size=10_000, columns=columns):
            yield from batch.to_pylist()


@contextlib.contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Errors: `SourceError` where a Parquet file is damaged."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise SourceError(
            f"{path}: is no Parquet file that can be read ({' '.join(str(error).split())[:200]})"
        ) from None
