"""Single bits flipped at random places of a lake: what its readers find in the damaged file, and what Longtail says.

What belongs here: flipping, reading, counting. What does not: the checks (`core/lake`, `core/lake_stamps`). Each flip is
made in a copy of the lake, and undone. The readers: pyarrow reads the partition, as a later stage does; DuckDB reads
the table, as dbt does: all rows, and those of the first row's key, for which it skips parts of a file by their
statistics. All of them are asked without Longtail's checks first, then through these.
"""

from __future__ import annotations

import argparse
import random
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq

from benchmarks.harness import last_line, say, table
from dagster_project.core.errors import LakeError
from dagster_project.core.home import longtail_home
from dagster_project.core.lake import Lake
from dagster_project.core.warehouse.comments import literal

OTHER, SAME, REFUSED = "read as other rows", "read as the same rows", "refused"


def readings(path: Path) -> list[Any]:
    """What readers find in a lake file and in its table."""
    source = f"read_parquet({literal(f'{path.parent}/*.parquet')}, union_by_name=true)"  # as dbt does
    partition = pq.read_table(path, partitioning=None).replace_schema_metadata(None)
    with duckdb.connect() as connection:
        rows = connection.execute(f"from {source}").to_arrow_table()
        key = duckdb.ColumnExpression(rows.column_names[0]) == duckdb.ConstantExpression(rows[0][0].as_py())
        return [partition, rows, connection.sql(f"from {source}").filter(key).to_arrow_table()]


def found(path: Path, whole: list[Any]) -> str:
    """How readers take a file that may be damaged. `whole`: what they find in the file as it was written."""
    try:
        return SAME if readings(path) == whole else OTHER
    except Exception:  # each reader has its own errors for what it cannot read
        return REFUSED


def checked(lake: Lake, path: Path, whole: list[Any]) -> str:
    """The same, but through the lake's checks. A damaged file must be named; any other error is a fault."""
    try:
        lake.ensure_schemas()
        lake.require_intact()
    except LakeError as error:
        if not str(error).startswith(f"{path} "):
            raise
        return "named"
    return found(path, whole)


def flip(path: Path, bit: int) -> None:
    """Flip one bit of a file."""
    with path.open("r+b") as file:
        file.seek(bit // 8)
        (byte,) = file.read(1)
        file.seek(bit // 8)
        file.write(bytes([byte ^ 1 << bit % 8]))


def damage(lake: Lake, n: int, seed: int) -> tuple[Counter[str], Counter[str]]:
    """How often `n` flips were taken how, without the checks and with them. Every bit of the lake is equally likely."""
    files = sorted(path for path in lake.root.glob("*/*.parquet") if _has_rows(path))
    draw = random.Random(seed)
    drawn = draw.choices(files, [path.stat().st_size for path in files], k=n)
    wholes: dict[Path, list[Any]] = {}
    without: Counter[str] = Counter()
    with_checks: Counter[str] = Counter()
    for number, path in enumerate(drawn, 1):
        content = path.read_bytes()
        whole = wholes[path] = wholes.get(path) or readings(path)
        flip(path, draw.randrange(8 * len(content)))
        without[found(path, whole)] += 1
        with_checks[checked(lake, path, whole)] += 1
        path.unlink()
        path.write_bytes(content)
        if number % 50 == 0:
            say(f"{number:,} of {n:,} flips")
    return without, with_checks


def _has_rows(path: Path) -> bool:
    return pq.read_metadata(path).num_rows > 0


def main() -> None:
    """Print how flips were taken, and the counts as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--lake", type=Path, default=longtail_home() / "lake", help="a finished lake; only read"
    )
    parser.add_argument("--flips", type=int, default=600)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        lake = Lake(Path(shutil.copytree(asked.lake, Path(folder) / "lake", symlinks=True)))
        counts = dict(zip(("without", "with"), damage(lake, asked.flips, asked.seed), strict=True))
    taken = sorted({one for own in counts.values() for one in own})
    rows = [[one, *(own[one] for own in counts.values())] for one in taken]
    table(
        f"{asked.flips:,} flipped bits in {asked.lake}",
        ["a damaged file is", *(f"{one} checks" for one in counts)],
        rows,
    )
    last_line({f"{name}_checks_other_rows": float(own[OTHER]) for name, own in counts.items()})


if __name__ == "__main__":
    main()
