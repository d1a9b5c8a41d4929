"""The bytes and lines of files of others: plain, gzip or bzip2, whatever their line ends and encoding.

Lines end in LF or CRLF; a file whose lines end in CR alone is refused. With a study's key `accept_cut_dumps`, a packed
file that breaks off is used up to the break.
"""

from __future__ import annotations

import bz2
import gzip
import io
import logging
import math
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any, cast

from longtail.errors import SourceError
from longtail.parsing.line_files import BZIP2, GZIP, beginning
from longtail.parsing.terms import LONGEST_LABEL, clean_term

ACCEPT_CUT = "accept_cut_dumps"
"""The key of a study that allows a file to break off."""
_PIECE = 1 << 20
_BZIP2_DAMAGED = ("Invalid data stream",)
_LOG = logging.getLogger(__name__)


class _UpToBreak(io.BufferedIOBase):
    """A packed file that ends where it breaks off (`is_cut`). The line that is broken there is lost."""

    is_cut = False

    def readline(self, size: Any = -1) -> bytes:
        try:
            return super().readline(size)
        except EOFError:
            self.is_cut = True
            return b""

    def read(self, size: int | None = -1) -> bytes:
        pieces: list[bytes] = []
        missing = math.inf if size is None or size < 0 else size
        try:
            while missing and (piece := self.read1(int(min(missing, _PIECE)))):
                pieces.append(piece)
                missing -= len(piece)
        except EOFError:
            self.is_cut = True
        return b"".join(pieces)


class _GzipUpToBreak(_UpToBreak, gzip.GzipFile):
    pass


class _Bzip2UpToBreak(_UpToBreak, bz2.BZ2File):
    pass


@contextmanager
def open_file(path: Path, accept_cut: bool | None = None) -> Iterator[IO[bytes]]:
    """The bytes of a file, decompressed if it is gzip or bzip2. Errors: `SourceError` where they cannot be read.

    With `accept_cut`, a packed file that breaks off ends there, and the log says so. None: no key of a study allows that.
    """
    kind = "gzip"
    try:
        with path.open("rb") as raw:
            magic = beginning(raw)
            raw.seek(0)
            stream: Any = raw
            if magic.startswith(GZIP):
                stream = (_GzipUpToBreak if accept_cut else gzip.GzipFile)(fileobj=raw)
            elif magic.startswith(BZIP2):
                kind = "bzip2"
                stream = (_Bzip2UpToBreak if accept_cut else bz2.BZ2File)(raw)
            yield cast(IO[bytes], stream)
            if getattr(stream, "is_cut", False):
                _LOG.warning(
                    "%s: %s; the rows before the break are used, as the study allows", path, _break(path)
                )
    except EOFError:
        why = f"damaged {kind} file ({_break(path)})"
        raise SourceError(f"{path}: {why}; fetch it again{hint_of(accept_cut=accept_cut)}") from None
    except (zlib.error, gzip.BadGzipFile) as error:
        raise SourceError(f"{path}: damaged gzip file ({error}); fetch it again") from None
    except OSError as error:
        if error.args == _BZIP2_DAMAGED:
            raise SourceError(f"{path}: damaged bzip2 file; fetch it again") from None
        raise SourceError(f"{path}: cannot be read ({error.strerror or error})") from None


def hint_of(*, accept_cut: bool | None) -> str:
    """What to do about a file that breaks off, beside fetching it again."""
    return f", or set {ACCEPT_CUT} to use the rows before the break" if accept_cut is False else ""


def _break(path: Path) -> str:
    size = path.stat().st_size
    return f"breaks off at byte {size:,} of {size:,}: the end of its stream is missing"


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


def refuse_cut(path: Path, row: int, reason: str, line: str, *, accept_cut: bool | None) -> None:
    """Errors: `SourceError` where a bad row is the last one and its line has no end; not if the study accepts it."""
    if accept_cut is False and not line.endswith(("\n", "\r")):
        size = path.stat().st_size
        raise SourceError(
            f"{path}: breaks off at byte {size:,} of {size:,}, in row {row} ({reason}); fetch it again"
            f"{hint_of(accept_cut=accept_cut)}"
        )


def escape(text: str) -> str:
    """A line for people: bytes that are not UTF-8 as escapes."""
    return text.encode("utf-8", "backslashreplace").decode()


def clean(text: str, longest: int = LONGEST_LABEL) -> str:
    """The text as it is stored: in one line, without control characters, cut at `longest`."""
    return clean_term(text, longest).text
