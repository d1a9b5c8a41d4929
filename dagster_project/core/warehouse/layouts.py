"""Layouts of a query's rows: boxes for a terminal, records one below the other if boxes are too wide, or a format for
other programs.

What belongs here: making text from rows. What does not: connections and queries (`sql`).
"""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
import json
import math
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import IO, Any

import duckdb

from dagster_project.core.errors import printable

FORMATS = ("box", "csv", "json", "markdown")
_ROWS_OF_BOX = 200
_RECORDS_SHOWN = 20
_ROWS_OF_PIPE = 10_000
_ALL = 1_000_000
_BATCH = 10_000
_FEW_DIGITS = (
    "if(isfinite(#{n}) and #{n} <> 0, round(#{n}, greatest(3 - floor(log10(abs(#{n})))::int, 0)), #{n})"
)
_MARKUP = re.compile(r"[\\|<>\[\]*_`]")
_C1 = re.compile(
    "[\x80-\x9f]"
)  # many terminals treat it like ESC; DuckDB's boxes escape the other control characters


def write_box(
    relation: duckdb.DuckDBPyRelation, out: IO[str], width: int | None, upright: bool = False
) -> None:
    """A box with every column. If it is wider than a terminal of `width` characters (or with `upright`), records appear
    one below the other. `width` None means a pipe, where nothing is cut. Fractions have four digits.
    """
    relation = _with_few_digits(relation)
    text = _box(relation, _ROWS_OF_PIPE if width is None else _ROWS_OF_BOX)
    if upright or (width is not None and max(map(len, text.splitlines()), default=0) > width):
        for line in _records(relation, width):
            print(line, file=out)
    else:
        out.write(text)


def _with_few_digits(relation: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
    """The same rows with floating-point numbers of four significant digits, or more before the point."""
    kinds = [str(kind) for kind in relation.types]
    if not {"DOUBLE", "FLOAT"} & set(kinds):
        return relation
    shown = (_FEW_DIGITS if kind in ("DOUBLE", "FLOAT") else "#{n}" for kind in kinds)
    names = (name.replace('"', '""') for name in relation.columns)
    parts = (
        f'{one.format(n=n)} as "{name}"' for n, (one, name) in enumerate(zip(shown, names, strict=True), 1)
    )
    return relation.project(", ".join(parts))


def _box(relation: duckdb.DuckDBPyRelation, n_rows: int) -> str:
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        relation.show(max_width=_ALL, max_rows=n_rows, max_col_width=_ALL)
    return _C1.sub("\ufffd", text.getvalue()).rstrip("\n") + "\n"


def _records(relation: duckdb.DuckDBPyRelation, width: int | None) -> Iterator[str]:
    indent = max((len(name) for name in relation.columns), default=0)
    n_rows = 0
    for n_rows, row in enumerate(_rows(relation), 1):
        if n_rows > _RECORDS_SHOWN:
            yield f"({_RECORDS_SHOWN} records shown, there are more: add a limit, or write to a file with FORMAT=csv)"
            return
        yield f"─[ {n_rows} ]".ljust(min(width or 80, 80), "─")
        for name, value in zip(relation.columns, row, strict=True):
            yield f"{printable(name).rjust(indent)}  {printable(_text(value))}"
    yield f"({n_rows} {'row' if n_rows == 1 else 'rows'})"


def write_csv(relation: duckdb.DuckDBPyRelation, out: IO[str]) -> None:
    """Comma-separated, with a header; null is empty, a list is JSON."""
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(relation.columns)
    writer.writerows(["" if value is None else _text(value) for value in row] for row in _rows(relation))


def write_json(relation: duckdb.DuckDBPyRelation, out: IO[str]) -> None:
    """An array of objects, one per line. Infinity and NaN become texts, because JSON does not have them."""
    out.write("[")
    for number, row in enumerate(_rows(relation)):
        record = dict(zip(relation.columns, map(_jsonable, row), strict=True))
        out.write((",\n " if number else "") + json.dumps(record, ensure_ascii=False, default=str))
    out.write("]\n")


def write_markdown(relation: duckdb.DuckDBPyRelation, out: IO[str]) -> None:
    """A Markdown table whose cells are escaped."""
    for row in itertools.chain([relation.columns, ["---"] * len(relation.columns)], _rows(relation)):
        cells = ("" if value is None else _text(value) for value in row)
        print(f"| {' | '.join(_cell(cell) for cell in cells)} |", file=out)


WRITERS: dict[str, Callable[[duckdb.DuckDBPyRelation, IO[str]], None]] = {
    "csv": write_csv,
    "json": write_json,
    "markdown": write_markdown,
}


def _rows(relation: duckdb.DuckDBPyRelation) -> Iterator[tuple[Any, ...]]:
    relation.execute()
    while batch := relation.fetchmany(_BATCH):
        yield from batch


def _text(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(_jsonable(value), ensure_ascii=False, default=str) if _is_nested(value) else str(value)


def _jsonable(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, (list, tuple)):
        return [_jsonable(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _jsonable(item) for key, item in value.items()}
    return value


def _is_nested(value: object) -> bool:
    return isinstance(value, (list, tuple, dict))


def _cell(text: str) -> str:
    return text if text == "---" else _MARKUP.sub(r"\\\g<0>", " ".join(printable(text).split()))
