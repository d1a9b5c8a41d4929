"""The cells of a CSV or TSV file's rows, and what quotation marks mean in it.

Some files enclose cells in quotation marks (RFC 4180, as package `csv` and DPR's own file), others were written without
quoting, so that a mark is a character like others. The rows say which it is: `1<tab>"Weird Al" Yankovic` is a row only
without quoting, `1<tab>"a<tab>b"` only with it, and so is a cell over several lines, unless most of these lines are
rows by themselves. The file's beginning decides for all of it. Where nothing decides, marks enclose cells, and the log
says so. A CR that ends no line is a character like others where lines end in LF.
"""

from __future__ import annotations

import csv
import logging
from collections import Counter, deque
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from longtail.errors import SourceError
from longtail.imports.compressed import hint_of
from longtail.imports.lines import LONGEST_FIELD

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
    that, in a format without such a key. `accept_cut`: as `compressed.opened`.
    """

    def __init__(
        self,
        path: Path,
        lines: Iterator[str],
        delimiter: str,
        quoting: str | None = None,
        accept_cut: bool | None = None,
    ) -> None:
        csv.field_size_limit(max(csv.field_size_limit(), LONGEST_FIELD))
        self._path, self._lines, self._delimiter = path, lines, delimiter
        self._quoting, self._accept_cut = quoting, accept_cut
        self._marked = f'{delimiter}"'
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
            names = self._enclosed()
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
            found: list[str] | str
            if self._may_enclose(line):
                self._returned.appendleft(line)
                found = self._enclosing(row)
            else:
                self.block, found = [line], self._plain(line)
                if "\n" in line[:-1]:
                    found = "not a row of this format: a line feed in a file whose lines end in CR"
            if found:
                yield row, found
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
                kind, _, _ = looking._judged()
                n[kind] += 1
                self._has_long_cells |= kind == ENCLOSING and len(looking.block) > 1
                if kind in (PLAIN, _NEITHER):
                    looking._keep_first()
        self.is_plain = n[PLAIN] > n[ENCLOSING]
        self._is_open = not (n[PLAIN] or n[ENCLOSING])

    def _enclosing(self, row: int) -> list[str] | str:
        """A row in which marks may enclose cells: its cells, or why it is none."""
        kind, values, error = self._judged()
        first, last = self._n_lines + 1, self._n_lines + len(self.block)
        if self._is_open and kind in (PLAIN, ENCLOSING):
            self.is_plain, self._is_open = kind == PLAIN, False
        self._has_long_cells |= kind == ENCLOSING and len(self.block) > 1
        self._n[kind] += 1
        self._first.setdefault(kind, first)
        if kind == _DOUBTFUL and self._quoting != ENCLOSING and not self._has_long_cells:
            raise SourceError(
                f"{self._path}: lines {first} to {last} are rows, or one row with a cell over several lines between"
                f" quotation marks, and no other cell has several lines; {self._what_to_do(first)}"
            )
        if kind == _CUT and not self._accept_cut:
            raise SourceError(
                f"{self._path}: row {row} (line {first}) opens a quote that is never closed; the file may be cut off:"
                f" fetch it again, or close the quote{hint_of(accept_cut=self._accept_cut)}"
            )
        if kind == _CUT:
            return f"line {first}: opens a quote that is never closed: the file breaks off"
        if kind == PLAIN or (error and kind == _NEITHER):
            cells = self._keep_first()
            if kind == PLAIN and self.is_plain:
                return cells
        return f"line {first}: not a row of this format: {error}" if error else values

    def _judged(self) -> tuple[str, list[str], str]:
        """What the next row is; its cells where marks enclose them, or the error of package csv."""
        values: list[str] = []
        error = ""
        try:
            values = self._enclosed()
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
                self._path, n[_EITHER], first[_EITHER], self._what_to_do(first[_EITHER]),
            )  # fmt: skip
        if n[_DOUBTFUL] and self._quoting != ENCLOSING:
            _LOG.warning(
                "%s: %d cells have several lines that look like rows, the first in line %d: %s",
                self._path, n[_DOUBTFUL], first[_DOUBTFUL], self._what_to_do(first[_DOUBTFUL]),
            )  # fmt: skip

    def _what_to_do(self, line: int) -> str:
        if self._quoting is None:
            return f"look at the quotation marks in line {line}"
        return f"set quoting: {PLAIN} where each line is a row and marks belong to the text, else quoting: {ENCLOSING}"

    def _take(self) -> str | None:
        return self._returned.popleft() if self._returned else next(self._lines, None)

    def _may_enclose(self, line: str) -> bool:
        return (line[0] == '"' or self._marked in line) and not self.is_plain

    def _enclosed(self) -> list[str]:
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
