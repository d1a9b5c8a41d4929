"""Monthly page views of articles, from the `pageview_complete` dumps of Wikimedia.

A line is `project title page_id device views days`: `en.wikipedia Ada_Lovelace 974 mobile-web 70 A2B68`. The page
id may be `null`. The days (one character per day, A to _, and its views) are not read. Some files leave out the page id
or the days. A title with quotation marks is written as in CSV files: `"\\"Heroes\\""`. An article has one line for each
device and page id that it had; their views are summed. The file's name says which agents are counted:
`pageviews-YYYYMM-user.bz2`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from longtail.errors import SourceError
from longtail.parsing.line_files import Chunk, DumpFile, RejectedRows

_SPACE, _NEWLINE = b" \n"
_FIELDS = 6
_TABLE_BITS = 20
_MIX = tuple(np.uint64(factor) for factor in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9))

PROJECT = b"en.wikipedia"
DEVICES = (b"desktop", b"mobile-web", b"mobile-app")
_START = PROJECT + b" "


class TitleIndex:
    """Wanted titles of one project, as its dump writes them (underscores, UTF-8), found without a loop over all lines.

    The length and the last 16 bytes of a title are mixed into one number. Different titles may have the same number, so
    the caller must compare the titles that are found.

    `start` is the beginning of the project's lines: 9 to 16 bytes, with a blank at the end.
    """

    def __init__(self, start: bytes, titles: Iterable[bytes]) -> None:
        self._start = start
        lines = [start + title for title in titles]
        ends = np.cumsum([len(line) for line in lines], dtype=np.int64)
        starts = ends - np.array([len(line) - len(start) for line in lines], dtype=np.int64)
        self._keys = np.unique(_keys(_words(b"".join(lines) + b" " * 8), starts, ends))
        # Most titles are not wanted. Reading one entry of a table shows this faster than a search.
        self._may_be = np.zeros(1 << _TABLE_BITS, dtype=bool)
        self._may_be[self._keys >> np.uint64(64 - _TABLE_BITS)] = True
        self._head = int.from_bytes(start[:8], "little"), int.from_bytes(start[-8:], "little")

    def lines(self, data: bytes) -> list[tuple[int, int]]:
        """(start, end) of the project's lines in `data` that may have a wanted title or do not have six fields."""
        bytes_ = np.frombuffer(data, dtype=np.uint8)
        ends = np.flatnonzero(bytes_ == _NEWLINE)
        blanks = np.append(np.flatnonzero(bytes_ == _SPACE), [len(data), len(data)])
        if not len(ends):
            return []
        starts = np.concatenate(([0], ends[:-1] + 1))
        first, n_blanks = _blanks_of_lines(blanks[:-2], starts, ends)
        words = _words(data + b" " * 8)
        is_ours = blanks[first] - starts == len(self._start) - 1
        is_ours &= (words[starts] == self._head[0]) & (n_blanks > 0)
        is_ours[is_ours] = words[blanks[first[is_ours]] - 7] == self._head[1]
        ours = np.flatnonzero(is_ours)
        has_all = n_blanks[ours] == _FIELDS - 1
        keys = _keys(words, blanks[first[ours]] + 1, np.minimum(blanks[first[ours] + 1], ends[ours]))
        is_wanted = self._may_be[keys >> np.uint64(64 - _TABLE_BITS)]
        likely = keys[is_wanted]
        places = np.minimum(np.searchsorted(self._keys, likely), len(self._keys) - 1)
        is_wanted[is_wanted] = self._keys[places] == likely
        found = ours[is_wanted | ~has_all]
        return list(zip(starts[found].tolist(), ends[found].tolist(), strict=True))


def _blanks_of_lines(
    blanks: np.ndarray, starts: np.ndarray, ends: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(index of its first blank, number of its blanks) of each line."""
    if len(blanks) == (_FIELDS - 1) * len(ends):
        rows = blanks.reshape(-1, _FIELDS - 1)
        if ((rows[:, 0] > starts) & (rows[:, -1] < ends)).all():  # nearly always true
            return np.arange(len(ends)) * (_FIELDS - 1), np.full(len(ends), _FIELDS - 1)
    first = np.searchsorted(blanks, starts)
    return first, np.searchsorted(blanks, ends) - first


def _words(data: bytes) -> np.ndarray:
    """The eight bytes from each position on, as a number."""
    return np.ndarray((len(data) - 7,), "<u8", data, 0, (1,))


def _keys(words: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Titles as numbers. The bytes before a short title are its project, which is the same for all titles."""
    lengths = (ends - starts).astype(np.uint64)
    before = np.where(lengths >= 8, words[np.maximum(ends - 16, 0)], np.uint64(0))
    return words[ends - 8] * _MIX[0] ^ before * _MIX[1] ^ lengths * _MIX[2]


@dataclass(frozen=True)
class DumpViews:
    """Views by title (with spaces, not underscores). Titles without a line are absent. `cut`: where a truncated file
    ended."""

    views: dict[str, int]
    rejected: RejectedRows
    n_lines: int
    cut: str | None


def file_name(month: str) -> str:
    """The name of the dump of a month (YYYY-MM), agent user."""
    return f"pageviews-{month.replace('-', '')}-user.bz2"


def address(root: str, month: str) -> str:
    """The address of the dump of a month, relative to the address of all monthly dumps."""
    return f"{root}/{month[:4]}/{month}/{file_name(month)}"


def read_page_views(
    path: Path, titles: Sequence[str], log: logging.Logger, accept_cut: bool = False
) -> DumpViews:
    """The month's views of `titles`, articles of the English Wikipedia. Errors: `SourceError`."""
    wanted = {form: title for title in titles for form in _forms(title)}
    index = TitleIndex(_START, wanted)
    dump = DumpFile(path, accept_cut)
    rejected = RejectedRows()
    found: dict[str, int] = {}
    is_empty = True
    for chunk in dump.chunks(log):
        region = _region(chunk)
        if region is None:
            continue
        is_empty = False
        unreadable = set(_unreadable(region, rejected))
        spans = [span for span in index.lines(region.data) if span[0] not in unreadable]
        for title, views in _rows(region, spans, wanted, rejected):
            found[title] = found.get(title, 0) + views
    if is_empty and not dump.cut:
        raise SourceError(f"{path}: holds no line of {PROJECT.decode()}; it is no pageview_complete dump")
    return DumpViews(found, rejected, dump.n_lines, dump.cut)


def _forms(title: str) -> Iterator[bytes]:
    """The spellings of a title in a dump."""
    written = title.replace(" ", "_")
    yield written.encode()
    if '"' in written:
        yield '"{}"'.format(written.replace('"', '\\"')).encode()
        if "\\" in written:
            yield '"{}"'.format(written.replace("\\", "\\\\").replace('"', '\\"')).encode()


def _region(chunk: Chunk) -> Chunk | None:
    """The part of a chunk from the project's first line to its last; None without any."""
    data = chunk.data
    first = 0 if data.startswith(_START) else data.find(b"\n" + _START) + 1
    if not first and not data.startswith(_START):
        return None
    end = data.find(b"\n", max(first, data.rfind(b"\n" + _START) + 1)) + 1
    return Chunk(memoryview(data)[first:end], chunk.line_at(first))


def _unreadable(region: Chunk, rejected: RejectedRows) -> Iterator[int]:
    """The starts of lines that are not UTF-8; lines of the project are put aside."""
    data, at = region.data, 0
    while True:
        try:
            str(region.view[at:], "utf-8")
        except UnicodeDecodeError as error:
            start = data.rfind(b"\n", 0, at + error.start) + 1
            at = data.find(b"\n", at + error.start) + 1
            if data.startswith(_START, start):
                rejected.add(str(region.line_at(start)), "line is not UTF-8", data[start:at])
                yield start
        else:
            return


def _rows(
    region: Chunk, spans: Sequence[tuple[int, int]], wanted: Mapping[bytes, str], rejected: RejectedRows
) -> Iterator[tuple[str, int]]:
    """(title, views) of the lines in `spans` that have wanted titles; unreadable lines are put aside."""
    for start, end in spans:
        line = region.data[start:end]
        fields = line.rstrip(b"\r").split(b" ")
        if len(fields) == _FIELDS - 1:
            fields.insert(*((2, b"null") if fields[2] in DEVICES else (_FIELDS - 1, b"")))
        reason = None
        if len(fields) != _FIELDS:
            reason = f"line has {len(fields)} fields, not {_FIELDS}"
        elif fields[1] not in wanted:
            continue
        elif fields[3] not in DEVICES:
            reason = "unknown device"
        elif not (fields[4].isdigit() and len(fields[4]) <= 12):
            reason = "unknown number of views"
        if reason:
            rejected.add(str(region.line_at(start)), reason, line)
        else:
            yield wanted[fields[1]], int(fields[4])
