"""Monthly page views of articles, from the `pageview_complete` dumps of Wikimedia.

What belongs here: the lines of such a dump, and what of them counts. What does not: opening and cutting it
(`dump_files`), the API (`pageviews`), where rows go (`ingest`).

A line is `project title page_id device views days`: `en.wikipedia Ada_Lovelace 974 mobile-web 70 A2B68`; the
page id may be `null`, the days (a letter a day, its views) are not read. An article has a line for each device
and page id it had: they are added up. Which agents are counted is the file's: `pageviews-YYYYMM-user.bz2`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from dagster_project.core.errors import SourceError
from dagster_project.core.wikimedia.dump_files import Aside, Chunk, DumpFile
from dagster_project.core.wikimedia.title_index import TitleIndex

PROJECT = b"en.wikipedia"
DEVICES = (b"desktop", b"mobile-web", b"mobile-app")
_START = PROJECT + b" "
_COLUMNS = ("project", "title", "page_id", "device", "views", "days")
_MOST_VIEWS = 10**12


@dataclass(frozen=True)
class DumpViews:
    """Views by title (spaces, not underscores): a title without a line is absent. `cut`: where the file broke off."""

    views: dict[str, int]
    aside: Aside
    n_lines: int
    cut: str | None


def file_name(month: str) -> str:
    """The name of the dump of a month (YYYY-MM), agent user."""
    return f"pageviews-{month.replace('-', '')}-user.bz2"


def address(root: str, month: str) -> str:
    """Where the dump of a month lies below the address of all monthly dumps."""
    return f"{root}/{month[:4]}/{month}/{file_name(month)}"


def read_page_views(
    path: Path, titles: Sequence[str], log: logging.Logger, accept_cut: bool = False
) -> DumpViews:
    """The month's views of `titles`, articles of the English Wikipedia. Errors: `SourceError`."""
    wanted = frozenset(title.replace(" ", "_").encode() for title in titles)
    index = TitleIndex(_START, wanted)
    dump = DumpFile(path, accept_cut)
    aside = Aside()
    found: dict[str, int] = {}
    is_empty = True
    rows: Iterable[tuple[bytes, bytes, bytes]]
    for chunk in dump.chunks(log):
        region = _region(chunk)
        if region is None:
            continue
        is_empty = False
        readable = _readable(region, aside)
        spans = index.lines(readable)
        if spans is None:
            rows = _rows(readable, region, wanted, aside)
        else:
            rows = ((f[1], f[3], f[4]) for f in (readable[start:end].split(b" ") for start, end in spans))
        _add_up((row for row in rows if row[0] in wanted), region, found, aside)
    if is_empty and not dump.cut:
        raise SourceError(f"{path}: holds no line of {PROJECT.decode()}; it is no pageview_complete dump")
    return DumpViews(found, aside, dump.n_lines, dump.cut)


def _region(chunk: Chunk) -> Chunk | None:
    """From the project's first line in a chunk to its last; None without any."""
    data = chunk.data
    first = 0 if data.startswith(_START) else data.find(b"\n" + _START) + 1
    if not first and not data.startswith(_START):
        return None
    end = data.find(b"\n", max(first, data.rfind(b"\n" + _START) + 1)) + 1
    return Chunk(memoryview(data)[first:end], chunk.line_at(first))


def _rows(
    readable: bytes, region: Chunk, wanted: frozenset[bytes], aside: Aside
) -> list[tuple[bytes, bytes, bytes]]:
    """(title, device, views) of wanted titles where some lines are broken; the project's broken ones go aside."""

    def put_aside(row: csv.InvalidRow) -> str:
        if row.text.startswith(_START.decode()):
            reason = f"line has {row.actual_columns} fields, not {row.expected_columns}"
            aside.add(_line_of(region, re.escape(row.text.encode()) + rb"\r?\n"), reason, row.text)
        return "skip"

    if not readable:
        return []
    table = csv.read_csv(
        pa.BufferReader(readable),
        csv.ReadOptions(use_threads=False, block_size=len(readable) + 1, column_names=list(_COLUMNS)),
        csv.ParseOptions(delimiter=" ", quote_char=False, invalid_row_handler=put_aside),
        csv.ConvertOptions(
            column_types={name: pa.binary() for name in _COLUMNS},
            include_columns=["project", "title", "device", "views"],
            strings_can_be_null=False,
        ),
    )
    titles = pa.array(wanted, pa.binary())
    ours = pc.and_(pc.equal(table["project"], PROJECT), pc.is_in(table["title"], value_set=titles))
    columns = (table.filter(ours)[name].to_pylist() for name in ("title", "device", "views"))
    return list(zip(*columns, strict=True))


def _line_of(chunk: Chunk, pattern: bytes) -> str:
    match = re.search(rb"(?m)^" + pattern, chunk.data)
    return str(chunk.line_at(match.start())) if match else f"after {chunk.first_line - 1}"


def _readable(region: Chunk, aside: Aside) -> bytes:
    """The lines that are UTF-8; the project's others are put aside."""
    data, at = region.data, 0
    good: list[bytes] = []
    while True:
        try:
            str(memoryview(data)[at:], "utf-8")
        except UnicodeDecodeError as error:
            start = data.rfind(b"\n", 0, at + error.start) + 1
            end = data.find(b"\n", at + error.start) + 1
            good.append(data[at:start])
            if data.startswith(_START, start):
                aside.add(str(region.line_at(start)), "line is not UTF-8", data[start:end])
            at = end
        else:
            return b"".join([*good, data[at:]]) if good else data


def _add_up(
    rows: Iterable[tuple[bytes, bytes, bytes]], chunk: Chunk, found: dict[str, int], aside: Aside
) -> None:
    for title, device, views in rows:
        is_number = views.isdigit() and len(views) <= 12
        if device in DEVICES and is_number and int(views) < _MOST_VIEWS:
            name = title.decode().replace("_", " ")
            found[name] = found.get(name, 0) + int(views)
        else:
            what = "device" if device not in DEVICES else "number of views"
            raw = b" ".join((PROJECT, title, device, views))
            pattern = re.escape(_START + title) + rb" [^ \n]* " + re.escape(device + b" " + views) + b" "
            aside.add(_line_of(chunk, pattern), f"unknown {what}", raw)
