"""The bytes, lines and cells of files of others: plain, gzip or bzip2, whatever their line ends, encoding and quoting.

Lines end in LF or CRLF; a file whose lines end in CR alone is refused.

Some files enclose cells in quotation marks (RFC 4180, as package `csv` and DPR's own file), others were written without
quoting, so that a mark is a character like others. The rows say which it is: `1<tab>"Weird Al" Yankovic` is a row only
without quoting, `1<tab>"a<tab>b"` only with it, and so is a cell over several lines, unless most of these lines are
rows by themselves. The file's beginning decides for all of it: rows that marks enclose wholly outvote a few broken ones.
Where nothing decides, marks enclose cells, and the log says so. The beginning also shows whether the writer put blanks
before the marks (`1, "Who?"`), or a backslash before a mark within a cell. A CR that ends no line is a character like
others.
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
    (rb"(?=.{,256}\0).{257}ustar", "a tar archive; unpack it: tar -xf <file>"),
    (rb"\"?sep=.\"?\r?\n", "a table below a line `sep=` of Excel; delete this line: tail -n +2 <file> > <new file>"),
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
_LONG, _DOUBTFUL, _NEITHER, _CUT = "long", "doubtful", "neither", "cut"
"""A row with a cell over several lines; such a row whose lines may be rows; no row; a file that ends within a cell."""
_EITHER, _WHOLE = "either", "whole"
"""A row in both ways; such a row in which marks enclose two cells at least, and all that are no numbers."""
_BLANKS = "blanks"
_NUMBER = re.compile(r"[-+.\deE]*")
_BEGINNING = 1 << 23  # characters
_INNER_CR = re.compile(r"\r(?!\n?\Z)")
_HIDDEN_CR = "\udc0d"
"""Stands for a CR within a row while csv reads, which would end the row there. No file decodes to it."""
_ESCAPED_MARK = re.compile(r'(?<!\\)((?:\\\\)*)\\"')
_HIDDEN_MARK = "\udc22"
"""Stands for a mark behind a backslash while csv reads."""
_LOG = logging.getLogger(__name__)


class Cells:
    """Rows of cells from lines.

    `block`: the lines of the latest row. `is_plain`: the file is read without quoting. `quoting`: see `AUTO`; None: as
    that, in a format without such a key.
    """

    def __init__(self, path: Path, lines: Iterator[str], delimiter: str, quoting: str | None = None) -> None:
        csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE))
        self._path, self._lines, self._delimiter = path, lines, delimiter
        self._quoting = quoting
        self._returned: deque[str] = deque()
        self._n_columns = self._n_lines = 0
        self._has_enclosed_header = False
        self._marked, sign = f'{delimiter}"', re.escape(delimiter)
        self._marked_behind_blanks = re.compile(rf'(?:^|{sign}) +"')
        self._read_as(skips=True, escapes=False)
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
        if self._escapes:
            line = _ESCAPED_MARK.sub(lambda match: match[1][::2] + _HIDDEN_MARK, line)
        return _INNER_CR.sub(_HIDDEN_CR, line)

    def header(self) -> list[str]:
        """The cells of the first row that is not blank. Errors: `SourceError`."""
        names = list[str]()
        try:
            while not any(map(str.strip, names)):
                names = self._read_enclosed()
                self._n_lines += len(self.block)
        except StopIteration:
            raise SourceError(f"{self._path}: is empty") from None
        except csv.Error as error:
            raise SourceError(f"{self._path}: its header cannot be read ({error})") from None
        self._n_columns = len(names)
        self._has_enclosed_header = len(names) > 1 and all(
            name.startswith('"') for name in self._plain(self.block[0])
        )
        self._read_as(skips=False, escapes=False)
        return names

    def rows(self) -> Iterator[tuple[int, list[str] | str]]:
        """The rows below the header with their numbers from 1: cells, or why it is no row. A blank line has a number.

        Errors: `SourceError` where the file ends within a cell, or where lines may be rows or one cell.
        """
        n_ahead = Counter[str]() if self._quoting == PLAIN else self._look_ahead()
        n, first, row = Counter[str](), dict[str, int](), 0
        for row, (kind, cells, error) in enumerate(self._judged(), 1):
            line = self._n_lines + 1
            self._n_lines += len(self.block)
            n[kind] += 1
            first.setdefault(kind, line)
            if kind == _DOUBTFUL and self._quoting != ENCLOSING and not n_ahead[_LONG] + n[_LONG]:
                raise SourceError(
                    f"{self._path}: lines {line} to {self._n_lines} are rows, or one row with a cell over several lines"
                    f" between quotation marks, and no other cell has several lines; {self._advice(line)}"
                )
            if kind == _CUT:
                raise SourceError(
                    f"{self._path}: row {row} (line {line}) opens a quote that is never closed; the file may be cut off:"
                    " fetch it again, or close the quote"
                )
            if error or cells:
                yield row, f"line {line}: not a row of this format: {error}" if error else cells
        if self._quoting == ENCLOSING:
            return
        is_decided = self._has_enclosed_header or any(
            (n_ahead + n)[kind] for kind in (PLAIN, ENCLOSING, _LONG)
        )
        n_either = n[_EITHER] + n[_WHOLE]
        if self.is_plain and self._quoting != PLAIN:
            n_kept = n_ahead[_EITHER] + n_ahead[_WHOLE]
            unless = f" unless you set quoting: {ENCLOSING}" if self._quoting else ""
            _LOG.log(
                logging.WARNING if self._n_whole(n_ahead) else logging.INFO,
                "%s: cells begin with quotation marks that enclose none: read without quoting%s", self._path,
                f"; marks around whole cells (in {n_kept:,} rows) stay in the text{unless}" if n_kept else "",
            )  # fmt: skip
        elif not is_decided and 0 < n_either < row:
            line = min(first[kind] for kind in (_EITHER, _WHOLE) if kind in first)
            _LOG.warning(
                "%s: in %d rows, the first in line %d, marks enclose cells that need none; they are left out: %s",
                self._path, n_either, line, self._advice(line),
            )  # fmt: skip
        if n[_DOUBTFUL]:
            _LOG.warning(
                "%s: %d cells have several lines that look like rows, the first in line %d: %s",
                self._path, n[_DOUBTFUL], first[_DOUBTFUL], self._advice(first[_DOUBTFUL]),
            )  # fmt: skip

    def _look_ahead(self) -> Counter[str]:
        """Learn from the file's beginning what marks mean and how cells are written; the number of its rows of each
        kind."""
        ahead: list[str] = []
        size = 0
        while size < _BEGINNING and (line := next(self._lines, None)) is not None:
            ahead.append(line)
            size += len(line)
        self._lines = chain(ahead, self._lines)
        n = self._kinds(ahead)
        skips = escapes = False
        if n[_BLANKS] > sum(self._marked in line for line in ahead):
            tried = self._kinds(ahead, skips=True)
            if skips := sum(tried[kind] for kind in (ENCLOSING, _LONG, _EITHER, _WHOLE)) > _n_bad(tried):
                n = tried
                _LOG.info("%s: cells are enclosed behind blanks, which are left out", self._path)
        if any('\\"' in line for line in ahead):
            tried = self._kinds(ahead, skips=skips, escapes=True)
            if escapes := 2 * _n_bad(tried) < _n_bad(n):
                n = tried
                _LOG.info("%s: a quotation mark behind a backslash belongs to the text", self._path)
        self._read_as(skips=skips, escapes=escapes)
        if self._quoting != ENCLOSING and not skips:
            self.is_plain = n[PLAIN] >= n[ENCLOSING] + n[_LONG] + max(1, self._n_whole(n))
        return n

    def _kinds(self, lines: list[str], *, skips: bool = False, escapes: bool = False) -> Counter[str]:
        """The number of rows of each kind if the lines are read so, and of those with blanks and a mark before a cell."""
        tried = Cells(self._path, iter(lines), self._delimiter, ENCLOSING)
        tried._n_columns = self._n_columns
        tried._read_as(skips=skips, escapes=escapes)
        n = Counter[str]()
        for kind, cells, _ in tried._judged():
            n[kind] += 1
            n[_BLANKS] += any(cell[:1] == " " and cell.lstrip(" ")[:1] == '"' for cell in cells)
        return n

    def _read_as(self, *, skips: bool, escapes: bool) -> None:
        """`skips`: blanks before a cell are left out. `escapes`: a mark behind a backslash belongs to the text."""
        self._skips, self._escapes = skips, escapes
        self._csv = csv.reader(self, delimiter=self._delimiter, strict=True, skipinitialspace=skips)

    def _n_whole(self, n: Counter[str]) -> int:
        """The number of rows, with the header, that marks enclose wholly. Below such a header, marks that enclose one
        cell do so on purpose."""
        return n[_WHOLE] + (n[_EITHER] + 1 if self._has_enclosed_header else 0)

    def _opens(self, line: str) -> bool:
        """Whether a cell may begin with a mark."""
        is_tight = line[0] == '"' or self._marked in line
        return is_tight or (self._skips and self._marked_behind_blanks.search(line) is not None)

    def _judged(self) -> Iterator[tuple[str, list[str], str]]:
        """Each row: what it is, its cells, and the error of package csv. What has no marks is of no kind."""
        while (line := self._take()) is not None:
            if self.is_plain or not self._opens(line):
                self.block = [line]
                yield "", self._plain(line), ""
                continue
            self._returned.appendleft(line)
            cells, error = list[str](), ""
            try:
                cells = self._read_enclosed()
            except csv.Error as reason:
                error = str(reason)
            kind = self._kind(cells, error)
            if kind == PLAIN or (error and kind == _NEITHER):
                # The lines behind the first are rows of their own.
                self._returned.extendleft(reversed(self.block[1:]))
                del self.block[1:]
            yield kind, cells, error

    def _kind(self, cells: list[str], error: str) -> str:
        """What the row is that stands in `block`."""
        block, n = self.block, self._n_columns
        plain = self._plain(block[0])
        are_rows = 2 * sum(len(self._plain(line)) == n for line in block) > len(block)
        if not error and len(cells) == n:
            if len(block) > 1:
                return _DOUBTFUL if are_rows else _LONG
            has_doubled = any(
                '"' in cell and raw.startswith('"') for cell, raw in zip(cells, plain, strict=False)
            )
            if has_doubled or not are_rows:
                return ENCLOSING
            n_enclosed = sum(raw.startswith('"') for raw in plain)
            is_whole = all(raw.startswith('"') or _NUMBER.fullmatch(raw) for raw in plain)
            return _WHOLE if is_whole and n_enclosed > 1 else _EITHER
        if "end of data" in error and not (are_rows and (len(block) > 1 or block[0].endswith(("\n", "\r")))):
            return _CUT
        return PLAIN if len(plain) == n and are_rows else _NEITHER

    def _advice(self, line: int) -> str:
        if self._quoting is None:
            return f"look at the quotation marks in line {line}"
        return f"set quoting: {PLAIN} where each line is a row and marks belong to the text, else quoting: {ENCLOSING}"

    def _take(self) -> str | None:
        return self._returned.popleft() if self._returned else next(self._lines, None)

    def _read_enclosed(self) -> list[str]:
        """The cells of the next row, whose lines are then `block`. Errors: `csv.Error`."""
        self.block = []
        return [cell.replace(_HIDDEN_CR, "\r").replace(_HIDDEN_MARK, '"') for cell in next(self._csv)]

    def _plain(self, line: str) -> list[str]:
        body = line.removesuffix("\n").removesuffix("\r")
        cells = body.split(self._delimiter) if body else []
        return [cell.lstrip(" ") for cell in cells] if self._skips else cells


def _n_bad(n: Counter[str]) -> int:
    return n[PLAIN] + n[_NEITHER] + n[_CUT]
