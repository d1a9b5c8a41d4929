"""Reads a published warehouse whose tables tell a version (`mark` in `test_publish`), and checks that they agree.

`python -m tests.longtail.warehouse.published_version FILE STOP` reads FILE again and again until file STOP exists. It
prints each version when it sees it first, and at the end how often it read. Its pauses leave the processor to the
publisher.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import duckdb

PAUSE_S = 0.02


def read_version(published: Path) -> int:
    """The version of every row and count in the file. Errors: `AssertionError` where two differ."""
    with duckdb.connect(str(published), read_only=True) as connection:
        connection.execute("set enable_progress_bar = false")  # a slow machine would draw one
        versions = connection.sql(
            "select distinct question from (select question from marts.dim_questions"
            " union all select label from marts.dim_entities)"
        ).fetchall()
        ((said,),) = connection.sql("select n_rows from marts.publication").fetchall()
        catalogue = dict(
            connection.sql("select table_name, n_rows from marts.catalogue where kind = 'table'").fetchall()
        )
        ((quarantined,),) = connection.sql("select count(*) from marts.fct_quarantine").fetchall()
    assert len(versions) == 1, versions
    version = int(versions[0][0].split()[1])
    assert quarantined == version % 7 == said["fct_quarantine"] == catalogue["fct_quarantine"]
    return version


def main(published: Path, stop: Path) -> None:
    n, last = 0, -1
    while not stop.exists():
        version = read_version(published)
        n += 1
        if version != last:
            print(version, flush=True)
        last = version
        time.sleep(PAUSE_S)
    print(n)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
