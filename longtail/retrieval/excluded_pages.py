"""The redirects and disambiguation pages of collections: lake table `excluded_pages`.

One pass over a dump gives passages and excluded pages. These wait in a nameless file, so that memory holds a few
thousand of millions, and a killed writer leaves nothing. The table appears before the passages of the same pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from tempfile import TemporaryFile
from typing import Any

import pyarrow as pa

from longtail.errors import LakeError
from longtail.imports.records import RejectedRows
from longtail.imports.wiki import ExcludedPage
from longtail.parsing.terms import clean_term
from longtail.storage.files import STAGING
from longtail.storage.lake import Computed, Lake, Outcome, Streamed
from longtail.storage.lake_files import PART_ROWS
from longtail.tables import TABLES

TABLE = "excluded_pages"
LONGEST_TITLE = 255
_SCHEMA = TABLES[TABLE].schema
_AT_ONCE = 5_000


class ExcludedPages:
    """The pages of the collections that are being read, in their order."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._waiting: list[dict[str, Any]] = []
        self.clear()

    def clear(self) -> None:
        """Forget all pages. Errors: `LakeError` where no file can be made."""
        folder = self._lake.root / STAGING
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = TemporaryFile(dir=folder)  # noqa: SIM115 it is closed with its last reader
        except OSError as error:
            raise self._failure(error) from error
        self._stream = pa.ipc.new_stream(self._file, _SCHEMA)
        self._waiting.clear()

    def add(self, collection: str, page: ExcludedPage, rejected: RejectedRows) -> None:
        """Keep a page, its titles without control characters; one without a title of use is put aside.

        Errors: `LakeError` where the disk has no room.
        """
        title, target, section = (_clean(text) for text in (page.title, page.target, page.section))
        if title is None or len(title) > LONGEST_TITLE:
            reason = f"title: 1 to {LONGEST_TITLE} characters were expected, not {len(title or ''):,}"
            rejected.put(page.row, f"{page.kind}: {reason}", page.title)
            return
        self._waiting.append({
            "collection": collection, "page_number": page.row, "title": title, "kind": page.kind,
            "target_title": target, "target_section": section,
        })  # fmt: skip
        if len(self._waiting) == _AT_ONCE:
            self._flush()

    def write(self, stamp: str) -> None:
        """Write the table. Errors: as `Lake.write`."""
        self._flush()
        self._stream.close()
        self._file.seek(0)
        with pa.ipc.open_stream(self._file) as batches:
            self._lake.write(TABLE, Streamed(_parts(batches)), fingerprint=stamp)
        self._file.close()

    def _flush(self) -> None:
        try:
            self._stream.write_batch(pa.RecordBatch.from_pylist(self._waiting, _SCHEMA))
        except OSError as error:
            raise self._failure(error) from error
        self._waiting.clear()

    def _failure(self, error: OSError) -> LakeError:
        folder = self._lake.root / STAGING
        return LakeError(f"{folder}: {TABLE} could not be written ({error.strerror or error})")


def _clean(text: str | None) -> str | None:
    return clean_term(text, len(text)).text or None if text else None


def _parts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Tables of `PART_ROWS` rows; the last one may have fewer."""
    while some := list(islice(batches, PART_ROWS // _AT_ONCE)):
        yield pa.Table.from_batches(some)


def discard_unless_paired(lake: Lake, stamp: str) -> None:
    """Discard passages of this stamp whose excluded pages are missing: only one pass over the files gives both."""
    if lake.current("passages", stamp) and not lake.current(TABLE, stamp):
        lake.discard("passages")


def write_beside(lake: Lake, passages: Outcome) -> Outcome:
    """The table as it was written with these passages; it is written without rows if they come from no collection."""
    written = lake.materialise(TABLE, passages.stamp.fingerprint, lambda: Computed([]))
    return replace(written, was_current=passages.was_current)
