"""The bytes and lines of files of others: plain, gzip or bzip2, whatever their line ends and encoding.

Lines end in LF or CRLF; a file whose lines end in CR alone is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
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
