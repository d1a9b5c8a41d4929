"""The bytes of imported files, plain or gzip, also of a gzip file that breaks off.

What belongs here: decompressing, and saying where a file is damaged. What does not: rows (`records`), and dumps that are
read by several threads (`wikimedia.dumps`).
"""

from __future__ import annotations

import gzip
import logging
import math
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from dagster_project.core.errors import SourceError

ACCEPT_CUT = "accept_cut_dumps"
"""The key of a study that allows a file to break off."""
_GZIP = b"\x1f\x8b"
_PIECE = 1 << 20
_LOG = logging.getLogger(__name__)


class _UpToBreak(gzip.GzipFile):
    """A gzip file that ends where it breaks off (`is_cut`). The line that is broken there is lost."""

    is_cut = False

    def readline(self, size: int | None = -1) -> bytes:
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


@contextmanager
def opened(path: Path, accept_cut: bool | None = None) -> Iterator[IO[bytes]]:
    """The bytes of a file, decompressed if it is gzip. Errors: `SourceError` where they cannot be read.

    With `accept_cut`, a gzip file that breaks off ends there, and the log says so. None: no key of a study allows that.
    """
    try:
        with path.open("rb") as raw:
            is_gzip = raw.read(len(_GZIP)) == _GZIP
            raw.seek(0)
            stream = (_UpToBreak if accept_cut else gzip.GzipFile)(fileobj=raw) if is_gzip else raw
            yield cast(IO[bytes], stream)
            if getattr(stream, "is_cut", False):
                _LOG.warning(
                    "%s: %s; the rows before the break are used, as the study allows", path, _break(path)
                )
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        is_cut = isinstance(error, EOFError)
        hint = (
            f", or set {ACCEPT_CUT} to use the rows before the break"
            if is_cut and accept_cut is False
            else ""
        )
        raise SourceError(
            f"{path}: damaged gzip file ({_break(path) if is_cut else error}); fetch it again{hint}"
        ) from None
    except OSError as error:
        raise SourceError(f"{path}: cannot be read ({error.strerror or error})") from None


def _break(path: Path) -> str:
    size = path.stat().st_size
    return f"breaks off at byte {size:,} of {size:,}: the end of its stream is missing"
