"""What `longtail compare A B` does: two published warehouses side by side, as one page and one table."""

from __future__ import annotations

import sys
from pathlib import Path

from longtail.errors import LongtailError, PublishError, printable, single_line
from longtail.report.comparison import write_comparison

_PLACES = ("", "warehouse.duckdb", "published/warehouse.duckdb")
_ADVICE = "name a home, a published warehouse, or a file of published/versions"


def main(a: str = "", b: str = "", output: str = "") -> int:
    """Compare the publications `a` and `b`; write to `output` or the present folder; return the exit code."""
    try:
        for name, place in (("A", a), ("B", b)):
            if not place:
                raise PublishError(f"{name} is missing: {_ADVICE}")
        first, second = warehouse_of(a), warehouse_of(b)
        print(f"A: {first}, B: {second}", file=sys.stderr)
        print("\n".join(map(printable, write_comparison(first, second, Path(output or ".")))))
    except LongtailError as error:
        print(f"error: {single_line(str(error))}", file=sys.stderr)
        return 1
    return 0


def warehouse_of(place: str) -> Path:
    """The published file of a home, of its folder `published`, or the file or kept version itself.

    Errors: `PublishError` if there is none, with the studies of the home.
    """
    folder = Path(place).expanduser()
    for file in (folder / name for name in _PLACES):
        if file.is_file():
            return file
    studies = ", ".join(str(file.parents[1]) for file in sorted(folder.glob(f"*/{_PLACES[-1]}")))
    known = f"it has the homes {studies}" if studies else _ADVICE
    raise PublishError(f"{place}: nothing is published there; {known}")
