"""The lines of files of others, whatever their line ends and encoding.

All lines end like the file's first line: in LF or CRLF, or in CR if the file begins without an LF.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import IO

from longtail.errors import SourceError
from longtail.imports.compressed import hint_of

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
    stream.seek(len(_BOM) if start.startswith(_BOM) else 0)


def lines_of(stream: IO[bytes]) -> Iterator[str]:
    """The lines with their ends. Bytes that are not UTF-8 are kept as surrogates; of an overlong line only the beginning
    is kept (`is_shortened`)."""
    is_cr = _ends_in_cr(stream)
    lines = _ending_in_cr(stream) if is_cr else iter(partial(stream.readline, LONGEST_LINE), b"")
    end = b"\r" if is_cr else b"\n"
    for line in lines:
        if len(line) >= LONGEST_LINE and not line.endswith(end):
            while (rest := next(lines, b"")) and not rest.endswith(end):
                pass
            line = line[:KEPT_OF_OVERLONG] + end
        yield line.decode("utf-8", "surrogateescape")


def is_shortened(line: str) -> bool:
    """Whether this is the beginning of an overlong line."""
    least = KEPT_OF_OVERLONG // 4  # bytes of a character
    return len(line) > least and len(line.encode("utf-8", "surrogateescape")) == KEPT_OF_OVERLONG + 1


def refuse_cut(path: Path, row: int, reason: str, line: str, *, accept_cut: bool | None) -> None:
    """Errors: `SourceError` where a bad row is the last one and its line has no end; not if the study accepts it."""
    if accept_cut is False and not line.endswith(("\n", "\r")):
        size = path.stat().st_size
        raise SourceError(
            f"{path}: breaks off at byte {size:,} of {size:,}, in row {row} ({reason}); fetch it again"
            f"{hint_of(accept_cut=accept_cut)}"
        )


def _ends_in_cr(stream: IO[bytes]) -> bool:
    """Whether the file's lines end in CR alone: its beginning has some and no LF."""
    place = stream.tell()
    start = stream.read(LONGEST_FIELD)
    stream.seek(place)
    return b"\r" in start and b"\n" not in start


def _ending_in_cr(stream: IO[bytes]) -> Iterator[bytes]:
    """Lines with the CR that ends them; an overlong one in pieces."""
    rest = b""
    while block := stream.read(LONGEST_FIELD):
        *lines, rest = (rest + block).split(b"\r")
        yield from (line + b"\r" for line in lines)
        if len(rest) >= LONGEST_LINE:
            yield rest
            rest = b""
    if rest:
        yield rest


def printed(text: str) -> str:
    """A line for people: bytes that are not UTF-8 as escapes."""
    return text.encode("utf-8", "backslashreplace").decode()
