"""The bytes, lines and cells of files of others: plain, gzip or bzip2, whatever their line ends, encoding and quoting.

Lines end in LF or CRLF; a file whose lines end in CR alone is refused.

Some files enclose cells in quotation marks (RFC 4180, as package `csv` and DPR's own file), others were written without
quoting, so that a mark is a character like others. The rows say which it is: `1<tab>"Weird Al" Yankovic` is a row only
without quoting, `1<tab>"a<tab>b"` only with it, and so is a cell over several lines, unless most of these lines are
rows by themselves. The file's beginning decides for all of it. Where nothing decides, marks enclose cells, and the log
says so. A CR that ends no line is a character like others.
"""

from __future__ import annotations

import csv
import logging
import re
from collections import Counter, deque
from collections.abc import Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO

from longtail.errors import SourceError
from longtail.parsing.terms import LONGEST_LABEL, clean_term

LONGEST_FIELD = 1 << 20
LONGEST_LINE = 1 << 24
KEPT_OF_OVERLONG = 2 * LONGEST_FIELD
_BOM = b"\xef\xbb\xbf"
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_KINDS = (
    (rb"version https://git-lfs\.github\.com/", "a Git LFS pointer; fetch the file itself: git lfs pull"),
    (rb"(\.\./)*(\.git)?/annex/objects/", "a pointer of git-annex; fetch the file itself: git annex get"),
    (rb"(?i)(<!--.*?-->\s*)?<(!doctype html|html|head|body)\b", "a web page (HTML); fetch the file that it shows"),
    (rb"<\?xml|<[A-Za-z]\w*[ />]", "XML, not rows"),
    (rb"\xd0\xcf\x11\xe0", "an old Excel workbook; save the sheet as CSV"),
    (rb"PAR1", "a Parquet file, which format: table reads"),
    (rb"ARROW1|\xff\xff\xff\xff.\x00\x00\x00\x10", "an Arrow file; write Parquet: pyarrow.parquet.write_table"),
    (rb"SQLite format 3", "a database of SQLite; export the table as CSV"),
    (rb"%PDF|\x89PNG|\xff\xd8\xff|GIF8", "a document or a picture"),
    (rb"\x80[\x02-\x05][\x80-\xff}\](]", "a pickle of Python; write CSV, JSON or Parquet"),
)  # fmt: skip
"""How files of other kinds begin, what they are, and what to do."""
PYTHON_DICTS = "these are Python dicts, not JSON; write them by json.dumps"


def is_python(text: str) -> bool:
    """Whether a text begins like a dict, or a list of them, that Python printed."""
    return text.lstrip("[ \n").startswith("{'")


def refuse_other_kinds(path: Path, start: bytes) -> None:
    """Errors: `SourceError` where a file that begins so is no text of rows. Never shows what the file holds."""
    start = start.removeprefix(_BOM).lstrip()
    for begins, what in _KINDS:
        if re.match(begins, start, re.DOTALL):
            raise SourceError(f"{path}: is {what}")


def refuse_other_encodings(path: Path, stream: IO[bytes]) -> None:
    """Go to the first line, behind a byte order mark.

    Errors: `SourceError` where the file is empty, no UTF-8, or of a kind that has no rows.
    """
    start = stream.read(512)
    refuse_other_kinds(path, start)
    if start.startswith(_UTF_16) or start[:64].count(b"\0") > len(start[:64]) // 4:
        raise SourceError(
            f"{path}: is not UTF-8 but looks like UTF-16; convert it first:"
            " iconv -f UTF-16 -t UTF-8 <file> > <new file>"
        )
    if not start:
        raise SourceError(f"{path}: is empty")
    if b"\r" in start and b"\n" not in start and b"\n" not in stream.read(LONGEST_FIELD):
        raise SourceError(
            f"{path}: its lines end in CR alone; convert them: tr '\\r' '\\n' < <file> > <new file>"
        )
    stream.seek(len(_BOM) if start.startswith(_BOM) else 0)


def lines_of(stream: IO[bytes]) -> Iterator[str]:
    """The lines with their ends. Bytes that are not UTF-8 are kept as surrogates; of an overlong line only the beginning
    is kept (`is_shortened`)."""
    lines = iter(partial(stream.readline, LONGEST_LINE), b"")
    for line in lines:
        if len(line) >= LONGEST_LINE and not line.endswith(b"\n"):
            while (rest := next(lines, b"")) and not rest.endswith(b"\n"):
                pass
            line = line[:KEPT_OF_OVERLONG] + b"\n"
        yield line.decode("utf-8", "surrogateescape")


def is_shortened(line: str) -> bool:
    """Whether this is the beginning of an overlong line."""
    least = KEPT_OF_OVERLONG // 4  # bytes of a character
    return len(line) > least and len(line.encode("utf-8", "surrogateescape")) == KEPT_OF_OVERLONG + 1


def refuse_cut(path: Path, row: int, reason: str, line: str) -> None:
    """Errors: `SourceError` where a bad row is the last one and its line has no end."""
    if not line.endswith(("\n", "\r")):
        size = path.stat().st_size
        raise SourceError(
            f"{path}: breaks off at byte {size:,} of {size:,}, in row {row} ({reason}); fetch it again"
        )


def escape(text: str) -> str:
    """A line for people: bytes that are not UTF-8 as escapes."""
    return text.encode("utf-8", "backslashreplace").decode()


def clean(text: str, longest: int = LONGEST_LABEL) -> str:
    """The text as it is stored: in one line, without control characters, cut at `longest`."""
    return clean_term(text, longest).text


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
