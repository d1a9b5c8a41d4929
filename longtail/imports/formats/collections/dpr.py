"""Passages as DPR publishes them: a TSV with a header and the columns id, text and title.

DPR's own file (`psgs_w100.tsv`) encloses texts in quotation marks, and doubles the marks within. Its texts are read as
DPR's own reader does (facebookresearch/DPR, `dpr/data/retriever_data.py`, class `CsvCtxSrc`): quotation marks that are
then left at both ends are taken off, and nothing else is cleaned. Files of others may be written without quoting
(`imports.records`): their marks stay.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from longtail.imports.format import CollectedText, CollectionFormat, Quoting
from longtail.imports.lines import AUTO
from longtail.imports.records import read_delimited, require_columns
from longtail.parsing.line_files import RejectedRows
from longtail.study.parts import Part

COLUMNS = ("id", "text", "title")


def read_passages(path: Path, rejected: RejectedRows, quoting: str = AUTO) -> Iterator[CollectedText]:
    """The passages in the file's order. Errors: `SourceError`, as `read_delimited`."""
    for record in read_delimited(path, "\t", COLUMNS, rejected, quoting, is_whole=True):
        fields = record.fields
        text = fields["text"] if record.is_plain else fields["text"].strip('"')
        yield CollectedText(record.row, fields["id"], fields["title"], text)


@dataclass(frozen=True)
class DprKeys(Part):
    quoting: Quoting = AUTO


FORMAT = CollectionFormat(read=read_passages, keys=DprKeys, check=require_columns("\t", COLUMNS))
