"""Files of others as records: CSV and TSV row by row, JSON lines, plain or packed, whatever their line ends and encoding.

A bad row is put aside with its reason; a file of another kind is refused.

Some files enclose cells in quotation marks (RFC 4180, as package `csv` and DPR's own file), others were written without
quoting, so that a mark is a character like others. The rows say which it is: `1<tab>"Weird Al" Yankovic` is a row only
without quoting, `1<tab>"a<tab>b"` only with it, and so is a cell over several lines, unless most of these lines are
rows by themselves. The file's beginning decides for all of it. Where nothing decides, marks enclose cells, and the log
says so. A CR that ends no line is a character like others.
"""

from __future__ import annotations

import csv
import hashlib
import json
import logging
import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from longtail.errors import SourceError
from longtail.imports.column_names import list_names, near, refuse_columns
from longtail.imports.lines import (
    LONGEST_FIELD,
    LONGEST_LINE,
    PYTHON_DICTS,
    escape,
    is_python,
    is_shortened,
    lines_of,
    refuse_cut,
    refuse_other_encodings,
)
from longtail.imports.wiki import ExcludedPage
from longtail.parsing.line_files import open_file
from longtail.storage.lake import QuarantinedRow

AUTO, PLAIN, ENCLOSING = "auto", "none", "csv"
"""Values of key `quoting`: as the file's rows say; marks are characters like others; marks enclose cells."""
_EITHER, _DOUBTFUL, _NEITHER, _CUT = "either", "doubtful", "neither", "cut"
"""A row in both ways; a cell over several lines that may be rows; no row; a file that ends within a cell."""
_BEGINNING = 1 << 23  # characters
_LONE_CR = "\udc0d"  # stands for a CR within a row while csv reads, which would end the row there; no file decodes to it
_LOG = logging.getLogger(__name__)


class Cells:
    """Rows of cells from lines.

    `block`: the lines of the latest row. `is_plain`: the file is read without quoting. `quoting`: see `AUTO`; None: as
    that, in a format without such a key.
    """

    def __init__(
        self,
        path: Path,
        lines: Iterator[str],
        delimiter: str,
        quoting: str | None = None,
    ) -> None:
        csv.field_size_limit(max(csv.field_size_limit(), LONGEST_FIELD))
        self._path, self._lines, self._delimiter = path, lines, delimiter
        self._quoting, self._marked = quoting, f'{delimiter}"'
        self._returned: deque[str] = deque()
        self._csv = csv.reader(self, delimiter=delimiter, strict=True)
        self._n_columns = self._n_lines = 0
        self._is_open = self._has_long_cells = False
        self._first: dict[str, int] = {}
        self._n: Counter[str] = Counter()
        self.is_plain = quoting == PLAIN
        self.block: list[str] = []

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        """A line, for package csv."""
        line = self._take()
        if line is None:
            raise StopIteration
        self.block.append(line)
        return _hidden_cr(line)

    def header(self) -> list[str]:
        """The cells of the first row. Errors: `SourceError`."""
        try:
            names = self._read_enclosed()
        except StopIteration:
            raise SourceError(f"{self._path}: is empty") from None
        except csv.Error as error:
            raise SourceError(f"{self._path}: its header cannot be read ({error})") from None
        self._n_columns, self._n_lines = len(names), len(self.block)
        return names

    def rows(self) -> Iterator[tuple[int, list[str] | str]]:
        """The rows below the header with their numbers from 1: cells, or why it is no row. A blank line has a number.

        Errors: `SourceError` where the file ends within a cell, or where lines may be rows or one cell.
        """
        if self._quoting in (None, AUTO):
            self._look()
        row = 0
        while (line := self._take()) is not None:
            row += 1
            cells: list[str] | str
            if self._may_enclose(line):
                self._returned.appendleft(line)
                cells = self._enclosing(row)
            else:
                self.block, cells = [line], self._plain(line)
            if cells:
                yield row, cells
            self._n_lines += len(self.block)
        self._say(row)

    def _look(self) -> None:
        """Learn from the file's beginning what marks mean."""
        ahead = list(_beginning(self._lines))
        self._lines = chain(ahead, self._lines)
        looking, n = Cells(self._path, iter(ahead), self._delimiter, ENCLOSING), Counter[str]()
        looking._n_columns = self._n_columns
        while (line := looking._take()) is not None:
            if looking._may_enclose(line):
                looking._returned.appendleft(line)
                kind, _, _ = looking._judge()
                n[kind] += 1
                self._has_long_cells |= kind == ENCLOSING and len(looking.block) > 1
                if kind in (PLAIN, _NEITHER):
                    looking._keep_first()
        self.is_plain = n[PLAIN] > n[ENCLOSING]
        self._is_open = not (n[PLAIN] or n[ENCLOSING])

    def _enclosing(self, row: int) -> list[str] | str:
        """A row in which marks may enclose cells: its cells, or why it is none."""
        kind, values, error = self._judge()
        first, last = self._n_lines + 1, self._n_lines + len(self.block)
        if self._is_open and kind in (PLAIN, ENCLOSING):
            self.is_plain, self._is_open = kind == PLAIN, False
        self._has_long_cells |= kind == ENCLOSING and len(self.block) > 1
        self._n[kind] += 1
        self._first.setdefault(kind, first)
        if kind == _DOUBTFUL and self._quoting != ENCLOSING and not self._has_long_cells:
            raise SourceError(
                f"{self._path}: lines {first} to {last} are rows, or one row with a cell over several lines between"
                f" quotation marks, and no other cell has several lines; {self._advice(first)}"
            )
        if kind == _CUT:
            raise SourceError(
                f"{self._path}: row {row} (line {first}) opens a quote that is never closed; the file may be cut off:"
                " fetch it again, or close the quote"
            )
        if kind == PLAIN or (error and kind == _NEITHER):
            cells = self._keep_first()
            if kind == PLAIN and self.is_plain:
                return cells
        return f"line {first}: not a row of this format: {error}" if error else values

    def _judge(self) -> tuple[str, list[str], str]:
        """What the next row is; its cells where marks enclose them, or the error of package csv."""
        values: list[str] = []
        error = ""
        try:
            values = self._read_enclosed()
        except csv.Error as reason:
            error = str(reason)
        block, n = self.block, self._n_columns
        plain = self._plain(block[0])
        is_row = len(plain) == n
        are_rows = 2 * sum(len(self._plain(line)) == n for line in block) > len(block)
        if not error and len(values) == n:
            if len(block) > 1:
                return (_DOUBTFUL if are_rows else ENCLOSING), values, error
            has_doubled = any(
                '"' in value and cell.startswith('"') for value, cell in zip(values, plain, strict=False)
            )
            return (_EITHER if is_row and not has_doubled else ENCLOSING), values, error
        if "end of data" in error and not (are_rows and (len(block) > 1 or block[0].endswith(("\n", "\r")))):
            return _CUT, values, error
        is_large = "field larger" in error and len(block) == 1
        return (PLAIN if is_row and are_rows and not is_large else _NEITHER), values, error

    def _say(self, n_rows: int) -> None:
        """Log how the marks were read, where a person may see it in another way."""
        n, first = self._n, self._first
        if self.is_plain and self._quoting != PLAIN:
            line = f" (as line {first[PLAIN]})" if PLAIN in first else ""
            _LOG.info(
                "%s: cells begin with quotation marks that enclose none%s: read without quoting",
                self._path,
                line,
            )
        elif self._is_open and 0 < n[_EITHER] < n_rows:
            _LOG.warning(
                "%s: in %d rows, the first in line %d, marks enclose cells that need none; they are left out: %s",
                self._path, n[_EITHER], first[_EITHER], self._advice(first[_EITHER]),
            )  # fmt: skip
        if n[_DOUBTFUL] and self._quoting != ENCLOSING:
            _LOG.warning(
                "%s: %d cells have several lines that look like rows, the first in line %d: %s",
                self._path, n[_DOUBTFUL], first[_DOUBTFUL], self._advice(first[_DOUBTFUL]),
            )  # fmt: skip

    def _advice(self, line: int) -> str:
        if self._quoting is None:
            return f"look at the quotation marks in line {line}"
        return f"set quoting: {PLAIN} where each line is a row and marks belong to the text, else quoting: {ENCLOSING}"

    def _take(self) -> str | None:
        return self._returned.popleft() if self._returned else next(self._lines, None)

    def _may_enclose(self, line: str) -> bool:
        return (line[0] == '"' or self._marked in line) and not self.is_plain

    def _read_enclosed(self) -> list[str]:
        """The cells of the next row, whose lines are then `block`. Errors: `csv.Error`."""
        self.block = []
        values: list[str] = next(self._csv)
        if any("\r" in line for line in self.block):
            return [value.replace(_LONE_CR, "\r") for value in values]
        return values

    def _plain(self, line: str) -> list[str]:
        body = line.removesuffix("\n").removesuffix("\r")
        return body.split(self._delimiter) if body else []

    def _keep_first(self) -> list[str]:
        """Return all lines of the latest row but the first; the plain cells of that."""
        self._returned.extendleft(reversed(self.block[1:]))
        del self.block[1:]
        return self._plain(self.block[0])


def _beginning(lines: Iterator[str]) -> Iterator[str]:
    n = 0
    for line in lines:
        yield line
        n += len(line)
        if n >= _BEGINNING:
            return


def _hidden_cr(line: str) -> str:
    """The line with every CR replaced that does not end it."""
    if "\r" not in line:
        return line
    end = len(line) - len(line.rstrip("\n"))
    end += line[: len(line) - end].endswith("\r")
    return line[: len(line) - end].replace("\r", _LONE_CR) + line[len(line) - end :]


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

    def list_rows(self) -> list[QuarantinedRow]:
        """The rows, and one for each kind of which there are more."""
        more = {kind: n - self.most for kind, n in self._kinds.items() if self.most and n > self.most}
        said = [f"{kind}: {n:,} more rows, counted but not kept" for kind, n in more.items()]
        return [*self.rows, *(QuarantinedRow(f"{self.name} more rows", reason, "") for reason in said)]

    def leave_out(self, page: ExcludedPage) -> None:
        """Count a page that has no passages, and hand it on."""
        self.left_out[page.plural] += 1
        if self.keep:
            self.keep(page)


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
    """The delimiter of a CSV or TSV file, the most frequent one in its first line, and its columns.

    Errors: as `read_delimited`.
    """
    with open_file(path) as stream:
        refuse_other_encodings(path, stream)
        start = stream.tell()
        outside_quotes = "".join(next(lines_of(stream), "").split('"')[::2])
        stream.seek(start)
        delimiter = max(_DELIMITERS, key=outside_quotes.count)
        refuse_columns(path, outside_quotes.count(delimiter) + 1)
        return delimiter, _header(path, Cells(path, lines_of(stream), delimiter), ())


def check_header(path: Path, delimiter: str, required: Sequence[str]) -> None:
    """Look at the header alone. Errors: as `read_delimited`."""
    with open_file(path) as stream:
        refuse_other_encodings(path, stream)
        _header(path, Cells(path, lines_of(stream), delimiter), required)


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
