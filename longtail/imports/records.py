"""Files of others as records: CSV and TSV row by row, JSON lines, and their beginnings, looked at before a run.

A bad row is put aside with its reason; a file of another kind is refused.

A file of JSON may have a key only in later rows. So at its beginning a key is missed only if the first rows lack it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from longtail.errors import SourceError, single_line
from longtail.imports.column_names import (
    Columns,
    columns_of_objects,
    is_there,
    list_names,
    near,
    refuse_columns,
)
from longtail.imports.lines import (
    LONGEST_FIELD,
    LONGEST_LINE,
    PYTHON_DICTS,
    Cells,
    escape,
    is_python,
    is_shortened,
    lines_of,
    refuse_cut,
    refuse_other_encodings,
    refuse_other_kinds,
)
from longtail.parsing.line_files import RejectedRows, open_file
from longtail.storage.lake import QuarantinedRow

MOST_ASIDE = 100_000
"""Bad rows of a kind that are kept of a table of questions or answers; the others are counted."""
_DELIMITERS = ",;\t"
_ONE_A_LINE = "this is a list; write one object a line: jq -c '.[]' <file>"
_NOT_UTF_8 = re.compile("[\udc80-\udcff]")
_AROUND_A_NAME = ' \t\r\n\ufeff"'


def first_reason(rows: Sequence[QuarantinedRow]) -> str:
    """What the end of a message says of rows that were put aside: the first one's key and reason; empty without rows."""
    return f"; {rows[0].row_key}: {rows[0].reason}" if rows else ""


@dataclass(frozen=True)
class Record:
    """One row: its number, its fields by column name, and whether quotation marks enclose no cells in its file."""

    row: int
    fields: dict[str, str]
    is_plain: bool = False

    def get(self, column: str) -> str:
        return self.fields.get(column, "")


def file_hashes(paths: Iterable[Path]) -> list[tuple[str, str]]:
    """Name and SHA-256 of each file. Errors: `SourceError` where one cannot be read."""
    hashes = []
    for path in paths:
        try:
            with path.open("rb") as stream:
                hashes.append((path.name, hashlib.file_digest(stream, "sha256").hexdigest()))
        except OSError as error:
            raise SourceError(f"{path}: cannot be read ({error.strerror or error})") from None
    return hashes


def header_of(path: Path) -> tuple[str, list[str]]:
    """The delimiter of a CSV or TSV file, the most frequent one in its first line that is not blank, and its columns.

    Errors: as `read_delimited`.
    """
    with open_file(path) as stream:
        refuse_other_encodings(path, stream)
        start = stream.tell()
        first = next((line for line in lines_of(stream) if line.strip(f"{_DELIMITERS} \r\n")), "")
        outside_quotes = "".join(first.split('"')[::2])
        stream.seek(start)
        delimiter = max(_DELIMITERS, key=outside_quotes.count)
        refuse_columns(path, outside_quotes.count(delimiter) + 1)
        return delimiter, _header(path, Cells(path, lines_of(stream), delimiter), ())


def read_delimited(
    path: Path,
    delimiter: str,
    required: Sequence[str],
    rejected: RejectedRows,
    quoting: str | None = None,
    *,
    is_whole: bool = False,
) -> Iterator[Record]:
    """The rows of a CSV or TSV file with a header; broken ones go to `rejected`. `quoting`: as `Cells`.

    Errors: `SourceError` where the file cannot be read, is not UTF-8 as a whole, lacks a column, ends inside a quoted
    field, or has lines that may be rows or one cell. With `is_whole`, a file whose last row is broken and has no end is
    refused, too.
    """
    with open_file(path) as stream:
        refuse_other_encodings(path, stream)
        cells = Cells(path, lines_of(stream), delimiter, quoting)
        columns = _header(path, cells, required)
        for row, values in cells.rows():
            reason = values if isinstance(values, str) else _fault(values, columns, cells.block)
            if reason:
                if is_whole:
                    refuse_cut(path, row, reason, cells.block[-1])
                rejected.put(row, reason, escape("".join(cells.block).rstrip("\r\n")))
            else:
                yield Record(row, dict(zip(columns, values, strict=True)), cells.is_plain)


def read_json_lines(
    path: Path, rejected: RejectedRows, *, is_whole: bool = False
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line numbers, from 1, and the objects of a JSON lines file. Lines without an object go to `rejected`.

    `is_whole` and errors: as `read_delimited`.
    """
    with open_file(path) as stream:
        refuse_other_encodings(path, stream)
        for number, line in enumerate(lines_of(stream), 1):
            if not line.strip():
                continue
            data = line.encode("utf-8", "surrogateescape")
            try:
                loaded = json.loads(data)
            except (ValueError, RecursionError) as error:
                reason = (
                    f"not JSON: {PYTHON_DICTS if is_python(line) else ' '.join(str(error).split())[:200]}"
                )
                if is_shortened(line):
                    reason = f"a line of at most {LONGEST_LINE:,} bytes was expected"
                if is_whole:
                    refuse_cut(path, number, reason, line)
                rejected.put(number, reason, escape(line))
                continue
            if isinstance(loaded, dict):
                yield number, loaded
            else:
                hint = f": {_ONE_A_LINE}" if isinstance(loaded, list) and loaded else ""
                rejected.put(number, f"a JSON object was expected{hint}", escape(line))


def text_of_key(row: Mapping[str, Any], key: str) -> str | None:
    """The text of a key; a whole number is one, too. None where there is none."""
    value = row.get(key)
    return str(value) if isinstance(value, (str, int)) and not isinstance(value, bool) else None


def read_texts(
    path: Path, keys: Sequence[str], rejected: RejectedRows
) -> Iterator[tuple[int, list[str], dict[str, Any]]]:
    """The rows of a JSON lines file: number, texts of `keys`, and the object. Those without a text go to `rejected`.

    Errors: as `read_json_lines`; a file whose last line is broken and has no end is refused.
    """
    for number, loaded in read_json_lines(path, rejected, is_whole=True):
        texts = {key: text for key in keys if (text := text_of_key(loaded, key)) is not None}
        if missing := [key for key in keys if key not in texts]:
            rejected.put(number, f"key {missing[0]}: a text was expected", loaded)
        else:
            yield number, [*texts.values()], loaded


def optional_text(row: Mapping[str, Any], key: str, rejected: RejectedRows) -> str | None:
    """The text of a key that a row need not have. Anything else is counted, and does not cost the row."""
    value = row.get(key)
    if value is not None and not isinstance(value, str):
        rejected.left_out[f"values of key {key} that are no text"] += 1
        return None
    return value or None


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a text file. Errors: as `open_file`; `SourceError` where it is not UTF-8 as a whole."""
    with open_file(path) as stream:
        refuse_other_encodings(path, stream)
        yield from map(escape, lines_of(stream))


def json_texts(text: str) -> list[str] | None:
    """The texts of a JSON list; None if the column has something else."""
    try:
        loaded = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(loaded, list) or not all(isinstance(item, str) for item in loaded):
        return None
    return loaded


def _header(path: Path, cells: Cells, required: Sequence[str]) -> list[str]:
    columns = [name.strip() for name in cells.header()]
    refuse_columns(path, len(columns))
    if any("\0" in name for name in columns):
        raise SourceError(f"{path}: is no table: its first line holds a NUL character")
    missing = [name for name in required if name not in columns]
    if missing:
        raise SourceError(
            f"{path}: column {', '.join(missing)} is missing{near(missing[0], columns)}; expected"
            f" {', '.join(required)}; its header has: {list_names(columns)}"
        )
    doubled = {name for name in required if columns.count(name) > 1}
    if doubled:
        raise SourceError(f"{path}: column {', '.join(sorted(doubled))} appears twice")
    return columns


def _fault(values: Sequence[str], columns: Sequence[str], lines: Sequence[str]) -> str | None:
    """Why the row that stands in `lines` cannot be used, whatever its columns mean; None if it can."""
    if len(values) != len(columns):
        has_cr = any("\r" in value.replace("\r\n", "") for value in values)
        hint = "; a CR in it is no end of a row, as the file's rows end in LF" if has_cr else ""
        return f"{len(values)} fields where the header has {len(columns)}{hint}"
    if columns[0] in values[0] and [value.strip(_AROUND_A_NAME) for value in values] == columns:
        return "repeats the header"
    if any(map(is_shortened, lines)):
        return f"a line of at most {LONGEST_LINE:,} bytes was expected"
    for column, value in zip(columns, values, strict=True):
        if len(value) > LONGEST_FIELD:
            return f"column {column}: field larger than field limit ({LONGEST_FIELD:,})"
        if "\0" in value:
            return f"column {column}: holds a NUL character"
        if not value.isascii() and (bad := _NOT_UTF_8.search(value)):
            byte = ord(bad[0]) - 0xDC00
            return f"column {column}: byte 0x{byte:02x} is not UTF-8 (is the file Latin-1? save it as UTF-8)"
    return None


Check = Callable[[Path, Any], object]
"""Looks at the beginning of a file; takes its declaration, too. Errors: `SourceError` naming what is missing."""

PARQUET = b"PAR1"
_FOOTER_END = 8
_LARGEST_FOOTER = 24 << 20
_MOST = 1 << 18
_ESCAPED = re.compile(r"\\u([0-9a-fA-F]{4})")


def require_keys(*keys: str) -> Check:
    """That rows of JSON have these keys; `a|b`: either of two."""
    return lambda path, declared: check_keys(path, keys, declared)


def require_columns(delimiter: str, columns: tuple[str, ...]) -> Check:
    """That a file of this delimiter has these columns."""

    def check(path: Path, _declared: Any) -> None:
        with open_file(path) as stream:
            refuse_other_encodings(path, stream)
            _header(path, Cells(path, lines_of(stream), delimiter), columns)

    return check


def check_keys(path: Path, keys: Sequence[str], declared: Any = None) -> None:
    """Errors: `SourceError` where the rows of JSON at the beginning of a file lack a key."""
    text = _read(path, declared).decode("utf-8", "replace").removeprefix("\ufeff")
    there = columns_of_objects(_objects(text))
    for key in keys:
        if there and not any(is_there(name, there) for name in key.split("|")):
            hint = next(filter(None, (near(name, there) for name in key.split("|"))), "")
            wanted = key.replace("|", " or ")
            raise SourceError(f"{path}: no row has the key {wanted}{hint}; there are: {list_names(there)}")


def open_parquet(path: Path) -> pq.ParquetFile:
    """A Parquet file, plain or packed. Errors: `SourceError` where it is damaged, or has too many columns for rows."""
    with readable_parquet(path):
        with path.open("rb") as stream:
            is_plain = stream.read(len(PARQUET)) == PARQUET
        if is_plain:
            # Not mapped: a file that is cut while it is read would kill the process.
            source = pa.OSFile(str(path))
        else:
            with open_file(path) as stream:
                source = pa.BufferReader(stream.read())
        source.seek(max(0, source.size() - _FOOTER_END))
        end = source.read()
        size = int.from_bytes(end[: -len(PARQUET)], "little")
        if end.endswith(PARQUET) and size > _LARGEST_FOOTER:
            raise SourceError(
                f"{path}: has a footer of {size:,} bytes; at most {_LARGEST_FOOTER:,} are read (has it too many columns?)"
            )
        source.seek(0)
        file = pq.ParquetFile(source)
        names = Counter(file.schema_arrow.names)
    refuse_columns(path, file.metadata.num_columns)
    if twice := [name for name, n in names.items() if n > 1]:
        raise SourceError(f"{path}: column {list_names(twice)} appears twice")
    return file


@contextmanager
def readable_parquet(path: Path) -> Iterator[None]:
    """Errors: `SourceError` where a Parquet file is damaged."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise SourceError(f"{path}: cannot be read as Parquet ({single_line(str(error))[:200]})") from None


def columns_of_schema(fields: Any, before: str = "") -> Columns:
    """The columns of a schema, fields of structs as paths."""
    columns: dict[str, bool] = {}
    for column in fields:
        kind = column.type
        if pa.types.is_struct(kind):
            inner = [kind.field(i) for i in range(kind.num_fields)]
            columns |= columns_of_schema(inner, f"{before}{column.name}.")
        else:
            columns[before + column.name] = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    return columns


def _read(path: Path, declared: Any) -> bytes:
    if path.is_dir():
        raise SourceError(f"{path}: is a folder; name one file")
    with open_file(path) as stream:
        data = stream.read(_MOST)
    if not data.startswith(PARQUET):
        refuse_other_kinds(path, data[:512])
    return data


def beginning_of_text(path: Path, declared: Any) -> str:
    """The first characters of a file of texts, those that JSON escapes too; empty for Parquet. Errors: `SourceError`."""
    data = _read(path, declared)
    text = "" if data.startswith(PARQUET) else data.decode("utf-8", "replace")
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)


def _objects(text: str) -> Iterator[Mapping[str, Any]]:
    """Whole objects; the one that is cut at the end is left out, and so are lines that hold none."""
    if not text.lstrip().startswith("["):
        for line in text.split("\n"):
            try:
                loaded = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(loaded, Mapping):
                yield loaded
        return
    decoder, at = json.JSONDecoder(), text.find("{")
    while at >= 0:
        try:
            loaded, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return
        yield loaded
        at = text.find("{", end)
