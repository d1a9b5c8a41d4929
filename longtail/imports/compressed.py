"""The bytes of imported files: plain, gzip or bzip2, also of a packed file that breaks off."""

from __future__ import annotations

import bz2
import gzip
import io
import logging
import math
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from longtail.errors import SourceError
from longtail.parsing.line_files import BZIP2, GZIP, beginning

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
def opened(path: Path, accept_cut: bool | None = None) -> Iterator[IO[bytes]]:
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
