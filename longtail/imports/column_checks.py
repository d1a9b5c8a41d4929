"""The beginning of a file: which columns or keys it has, looked for before a run computes anything.

A file of JSON may have a key only in later rows. So a key is missed only if its first rows lack it, and an optional one
only where enough of them were seen.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from longtail.errors import SourceError, single_line
from longtail.imports.column_names import (
    Columns,
    columns_of_objects,
    is_there,
    list_names,
    near,
    refuse_columns,
)
from longtail.imports.lines import refuse_other_kinds
from longtail.imports.records import check_header, header_of
from longtail.parsing.line_files import open_file

Check = Callable[[Path, Any], object]
"""Looks at the beginning of a file; takes its declaration, too. Errors: `SourceError` naming what is missing."""

PARQUET = b"PAR1"
_FOOTER_END = 8
_LARGEST_FOOTER = 24 << 20
_MOST = 1 << 18
_ESCAPED = re.compile(r"\\u([0-9a-fA-F]{4})")
_ENOUGH = 50
"""Rows that are seen before a key is missed that not every row needs."""


def require_keys(*keys: str) -> Check:
    """That rows of JSON have these keys; `a|b`: either of two."""
    return lambda path, declared: check_keys(path, keys, declared)


def require_columns(delimiter: str, columns: tuple[str, ...]) -> Check:
    """That a file of this delimiter has these columns."""
    return lambda path, declared: check_header(path, delimiter, columns)


def check_keys(path: Path, keys: Sequence[str], declared: Any = None) -> None:
    """Errors: `SourceError` where the rows of JSON at the beginning of a file lack a key."""
    there, _ = _of_objects(_read(path, declared))
    for key in keys:
        if there and not any(is_there(name, there) for name in key.split("|")):
            hint = next(filter(None, (near(name, there) for name in key.split("|"))), "")
            wanted = key.replace("|", " or ")
            raise SourceError(f"{path}: no row has the key {wanted}{hint}; there are: {list_names(there)}")


def columns_at_beginning(path: Path, declared: Any) -> tuple[Columns, bool]:
    """The columns of a table (none: the beginning does not tell), and whether these are all. Errors: `SourceError`."""
    data = _read(path, declared)
    if data.startswith(PARQUET):
        return columns_of_schema(open_parquet(path).schema_arrow), True
    if data[:100].removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"[", b"{"):
        there, n = _of_objects(data)
        return there, n >= _ENOUGH or len(data) < _MOST
    return dict.fromkeys(header_of(path)[1], False), True


def open_parquet(path: Path) -> pq.ParquetFile:
    """A Parquet file, plain or packed. Errors: `SourceError` where it is damaged, or has too many columns for rows."""
    with readable_parquet(path):
        if _is_plain(path):
            # Not mapped: a file that is cut while it is read would kill the process.
            source = pa.OSFile(str(path))
        else:
            with open_file(path) as stream:
                source = pa.BufferReader(stream.read())
        source.seek(max(0, source.size() - _FOOTER_END))
        end = source.read()
        size = int.from_bytes(end[: -len(PARQUET)], "little")
        if end.endswith(PARQUET) and size > _LARGEST_FOOTER:
            raise SourceError(
                f"{path}: has a footer of {size:,} bytes; at most {_LARGEST_FOOTER:,} are read (has it too many columns?)"
            )
        source.seek(0)
        file = pq.ParquetFile(source)
        names = Counter(file.schema_arrow.names)
    refuse_columns(path, file.metadata.num_columns)
    if twice := [name for name, n in names.items() if n > 1]:
        raise SourceError(f"{path}: column {list_names(twice)} appears twice")
    return file


@contextmanager
def readable_parquet(path: Path) -> Iterator[None]:
    """Errors: `SourceError` where a Parquet file is damaged."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise SourceError(f"{path}: cannot be read as Parquet ({single_line(str(error))[:200]})") from None


def columns_of_schema(fields: Any, before: str = "") -> Columns:
    """The columns of a schema, fields of structs as paths."""
    columns: dict[str, bool] = {}
    for field in fields:
        kind = field.type
        if pa.types.is_struct(kind):
            inner = [kind.field(i) for i in range(kind.num_fields)]
            columns |= columns_of_schema(inner, f"{before}{field.name}.")
        else:
            columns[before + field.name] = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    return columns


def _is_plain(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(PARQUET)) == PARQUET


def _read(path: Path, declared: Any) -> bytes:
    if path.is_dir():
        raise SourceError(f"{path}: is a folder; name one file")
    with open_file(path) as stream:
        data = stream.read(_MOST)
    if not data.startswith(PARQUET):
        refuse_other_kinds(path, data[:512])
    return data


def beginning_of_text(path: Path, declared: Any) -> str:
    """The first characters of a file of texts, those that JSON escapes too; empty for Parquet. Errors: `SourceError`."""
    data = _read(path, declared)
    text = "" if data.startswith(PARQUET) else data.decode("utf-8", "replace")
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)


def _of_objects(data: bytes) -> tuple[Columns, int]:
    """The keys of the objects of a list or of lines, and how many objects were seen."""
    objects = list(_objects(data.decode("utf-8", "replace").removeprefix("\ufeff")))
    return columns_of_objects(objects), len(objects)


def _objects(text: str) -> Iterator[Mapping[str, Any]]:
    """Whole objects; the one that is cut at the end is left out, and so are lines that hold none."""
    if not text.lstrip().startswith("["):
        for line in text.split("\n"):
            try:
                loaded = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(loaded, Mapping):
                yield loaded
        return
    decoder, at = json.JSONDecoder(), text.find("{")
    while at >= 0:
        try:
            loaded, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return
        yield loaded
        at = text.find("{", end)
