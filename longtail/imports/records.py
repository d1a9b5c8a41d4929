"""Files of others as records: CSV and TSV row by row, JSON lines, plain or packed, whatever their line ends and encoding.

A bad row is put aside with its reason; a file of another kind is refused.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from longtail.errors import SourceError
from longtail.imports.cells import Cells
from longtail.imports.column_names import near, refuse_columns, shown_names
from longtail.imports.compressed import opened
from longtail.imports.excluded_pages import ExcludedPage
from longtail.imports.lines import (
    LONGEST_FIELD,
    LONGEST_LINE,
    PYTHON_DICTS,
    is_python,
    is_shortened,
    lines_of,
    printed,
    refuse_cut,
    refuse_other_encodings,
)
from longtail.storage.lake import QuarantinedRow

MOST_ASIDE = 100_000
"""Bad rows of a kind that are kept of a table of questions or answers; the others are counted."""
_DELIMITERS = ",;\t"
_SHOWN = 2_000
_ONE_A_LINE = "this is a list; write one object a line: jq -c '.[]' <file>"
_OF_THIS_ROW = re.compile(r"[\"'].*[\"']|\d[\d,.]*")
"""What a reason says of one row alone: names and numbers."""
_NOT_UTF_8 = re.compile("[\udc80-\udcff]")


@dataclass
class RejectedRows:
    """Rows put aside while a file is read, and the file's name in their keys.

    `rows` has at most `most` rows of a kind of reason, so that millions of bad rows fit memory (None: all); `n_rows`
    counts all. `left_out` counts rows without a fault. `keep` takes the pages of a wiki among these.
    """

    name: str
    rows: list[QuarantinedRow] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    keep: Callable[[ExcludedPage], None] | None = None
    most: int | None = None
    n_rows: int = 0
    _kinds: Counter[str] = field(default_factory=Counter)

    def put(self, row: int | str, reason: str, raw: object = "") -> None:
        """Put a row aside. `row` is its number in messages: the first row below the header is row 1."""
        kind = _OF_THIS_ROW.sub("…", reason)
        self.n_rows += 1
        self._kinds[kind] += 1
        if self.most is None or self._kinds[kind] <= self.most:
            text = raw if isinstance(raw, str) else json.dumps(raw, ensure_ascii=False, default=str)
            self.rows.append(QuarantinedRow(f"{self.name} row {row}", reason, text[:_SHOWN]))

    def told(self) -> list[QuarantinedRow]:
        """The rows, and one for each kind of which there are more."""
        more = {kind: n - self.most for kind, n in self._kinds.items() if self.most and n > self.most}
        said = [f"{kind}: {n:,} more rows, counted but not kept" for kind, n in more.items()]
        return [*self.rows, *(QuarantinedRow(f"{self.name} more rows", reason, "") for reason in said)]

    def leave_out(self, page: ExcludedPage) -> None:
        """Count a page that has no passages, and hand it on."""
        self.left_out[page.plural] += 1
        if self.keep:
            self.keep(page)


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
    found = []
    for path in paths:
        try:
            with path.open("rb") as stream:
                found.append((path.name, hashlib.file_digest(stream, "sha256").hexdigest()))
        except OSError as error:
            raise SourceError(f"{path}: cannot be read ({error.strerror or error})") from None
    return found


def header_of(path: Path) -> tuple[str, list[str]]:
    """The delimiter of a CSV or TSV file, the most frequent one in its first line, and its columns.

    Errors: as `read_delimited`.
    """
    with opened(path) as stream:
        refuse_other_encodings(path, stream)
        start = stream.tell()
        outside_quotes = "".join(next(lines_of(stream), "").split('"')[::2])
        stream.seek(start)
        delimiter = max(_DELIMITERS, key=outside_quotes.count)
        refuse_columns(path, outside_quotes.count(delimiter) + 1)
        return delimiter, _header(path, Cells(path, lines_of(stream), delimiter), ())


def check_header(path: Path, delimiter: str, required: Sequence[str], accept_cut: bool | None = None) -> None:
    """Look at the header alone. Errors: as `read_delimited`."""
    with opened(path, accept_cut) as stream:
        refuse_other_encodings(path, stream)
        _header(path, Cells(path, lines_of(stream), delimiter), required)


def read_delimited(
    path: Path,
    delimiter: str,
    required: Sequence[str],
    rejected: RejectedRows,
    accept_cut: bool | None = None,
    quoting: str | None = None,
) -> Iterator[Record]:
    """The rows of a CSV or TSV file with a header; broken ones go to `rejected`. `quoting`: as `Cells`.

    Errors: `SourceError` where the file cannot be read, is not UTF-8 as a whole, lacks a column, ends inside a quoted
    field, or has lines that may be rows or one cell. `accept_cut`: as `opened`; the row that is broken then goes to
    `rejected`. If it is False, a file whose last row is broken is refused, too.
    """
    with opened(path, accept_cut) as stream:
        refuse_other_encodings(path, stream)
        cells = Cells(path, lines_of(stream), delimiter, quoting, accept_cut)
        columns = _header(path, cells, required)
        for row, found in cells.rows():
            reason = found if isinstance(found, str) else _fault(found, columns, cells.block)
            if reason:
                refuse_cut(path, row, reason, cells.block[-1], accept_cut=accept_cut)
                rejected.put(row, reason, printed("".join(cells.block).rstrip("\r\n")))
            else:
                yield Record(row, dict(zip(columns, found, strict=True)), cells.is_plain)


def read_json_lines(
    path: Path, rejected: RejectedRows, accept_cut: bool | None = None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line numbers, from 1, and the objects of a JSON lines file. Lines without an object go to `rejected`.

    `accept_cut` and errors: as `read_delimited`.
    """
    with opened(path, accept_cut) as stream:
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
                refuse_cut(path, number, reason, line, accept_cut=accept_cut)
                rejected.put(number, reason, printed(line))
                continue
            if isinstance(loaded, dict):
                yield number, loaded
            else:
                hint = f": {_ONE_A_LINE}" if isinstance(loaded, list) and loaded else ""
                rejected.put(number, f"a JSON object was expected{hint}", printed(line))


def text_of_key(row: Mapping[str, Any], key: str) -> str | None:
    """The text of a key; a whole number is one, too. None where there is none."""
    value = row.get(key)
    return str(value) if isinstance(value, (str, int)) and not isinstance(value, bool) else None


def optional_text(row: Mapping[str, Any], key: str, rejected: RejectedRows) -> str | None:
    """The text of a key that a row need not have. Anything else is counted, and does not cost the row."""
    value = row.get(key)
    if value is not None and not isinstance(value, str):
        rejected.left_out[f"values of key {key} that are no text"] += 1
        return None
    return value or None


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a text file. Errors: as `opened`; `SourceError` where it is not UTF-8 as a whole."""
    with opened(path) as stream:
        refuse_other_encodings(path, stream)
        yield from map(printed, lines_of(stream))


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
            f" {', '.join(required)}; its header has: {shown_names(columns)}"
        )
    doubled = {name for name in required if columns.count(name) > 1}
    if doubled:
        raise SourceError(f"{path}: column {', '.join(sorted(doubled))} is there twice")
    return columns


def _fault(values: Sequence[str], columns: Sequence[str], lines: Sequence[str]) -> str | None:
    """Why the row that stands in `lines` cannot be used, whatever its columns mean; None if it can."""
    if len(values) != len(columns):
        has_cr = any("\r" in value.replace("\r\n", "") for value in values)
        hint = "; a CR in it is no end of a row, as the file's rows end in LF" if has_cr else ""
        return f"{len(values)} fields where the header has {len(columns)}{hint}"
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
