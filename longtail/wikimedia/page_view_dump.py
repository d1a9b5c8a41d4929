"""Monthly page views of articles, from the `pageview_complete` dumps of Wikimedia.

A line is `project title page_id device views days`: `en.wikipedia Ada_Lovelace 974 mobile-web 70 A2B68`. The page
id may be `null`. The days (one character per day, A to _, and its views) are not read. Some files leave out the page id
or the days. A title with quotation marks is written as in CSV files: `"\\"Heroes\\""`. An article has one line for each
device and page id that it had; their views are summed. The file's name says which agents are counted:
`pageviews-YYYYMM-user.bz2`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from longtail.errors import SourceError
from longtail.parsing.line_files import MOST_LINES, Chunk, DumpFile, RejectedRows

_FIELDS = 6
PROJECT = b"en.wikipedia"
DEVICES = (b"desktop", b"mobile-web", b"mobile-app")
_START = PROJECT + b" "


@dataclass(frozen=True)
class DumpViews:
    """Views by title (with spaces, not underscores). Titles without a line are absent."""

    views: dict[str, int]
    rejected: RejectedRows
    n_lines: int


def file_name(month: str) -> str:
    """The name of the dump of a month (YYYY-MM), agent user."""
    return f"pageviews-{month.replace('-', '')}-user.bz2"


def address(root: str, month: str) -> str:
    """The address of the dump of a month, relative to the address of all monthly dumps."""
    return f"{root}/{month[:4]}/{month}/{file_name(month)}"


def read_page_views(path: Path, titles: Sequence[str], log: logging.Logger) -> DumpViews:
    """The month's views of `titles`, articles of the English Wikipedia. Errors: `SourceError`."""
    wanted = {form: title for title in titles for form in _forms(title)}
    dump = DumpFile(path)
    rejected = RejectedRows(most=MOST_LINES)
    views: dict[str, int] = {}
    is_empty = True
    for region in filter(None, map(_region, dump.chunks(log))):
        is_empty = False
        for title, n in _rows(region, wanted, rejected):
            views[title] = views.get(title, 0) + n
    if is_empty:
        raise SourceError(f"{path}: holds no line of {PROJECT.decode()}; it is no pageview_complete dump")
    return DumpViews(views, rejected, dump.n_lines)


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
    return Chunk(data[first:end], chunk.line_at(first))


def _rows(region: Chunk, wanted: Mapping[bytes, str], rejected: RejectedRows) -> Iterator[tuple[str, int]]:
    """(title, views) of the project's lines that have wanted titles; unreadable lines are put aside."""
    is_text = _is_text(region.data)
    for number, line in enumerate(region.data.split(b"\n"), region.first_line):
        if not line.startswith(_START):
            continue
        fields = line.split(b" ")
        if len(fields) == _FIELDS and fields[1] not in wanted and is_text:
            continue
        reason = None
        fields[-1] = fields[-1].rstrip(b"\r")
        if len(fields) == _FIELDS - 1:
            fields.insert(*((2, b"null") if fields[2] in DEVICES else (_FIELDS - 1, b"")))
        if not is_text and not _is_text(line):
            reason = "line is not UTF-8"
        elif len(fields) != _FIELDS:
            reason = f"line has {len(fields)} fields, not {_FIELDS}"
        elif fields[1] not in wanted:
            continue
        elif fields[3] not in DEVICES:
            reason = "unknown device"
        elif not (fields[4].isdigit() and len(fields[4]) <= 12):
            reason = "unknown number of views"
        if reason:
            rejected.put(number, reason, line)
        else:
            yield wanted[fields[1]], int(fields[4])


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
