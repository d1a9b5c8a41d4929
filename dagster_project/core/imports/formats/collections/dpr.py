"""Passages as DPR publishes them: a TSV with a header and the columns id, text and title.

What belongs here: the file's columns. What does not: what becomes of the passages (`retrieval.collections`).

The texts are read as DPR's own reader does (facebookresearch/DPR, `dpr/data/retriever_data.py`, class `CsvCtxSrc`):
quotation marks at both ends are taken off, and nothing else is cleaned.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dagster_project.core.imports.column_checks import delimited
from dagster_project.core.imports.format import CUT_KEYS, CollectedText, CollectionFormat
from dagster_project.core.imports.records import RejectedRows, read_delimited

COLUMNS = ("id", "text", "title")


def read_passages(
    path: Path, rejected: RejectedRows, accept_cut_dumps: bool = False
) -> Iterator[CollectedText]:
    """The passages in the file's order. Errors: `SourceError`, as `read_delimited`."""
    for record in read_delimited(path, "\t", COLUMNS, rejected, accept_cut_dumps):
        yield CollectedText(record.row, record.get("id"), record.get("title"), record.get("text").strip('"'))


FORMAT = CollectionFormat(read=read_passages, keys=CUT_KEYS, check=delimited("\t", COLUMNS))
