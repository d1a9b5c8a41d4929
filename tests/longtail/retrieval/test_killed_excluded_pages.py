"""kill -9 while a dump's passages and excluded pages are written: neither table is ever half there, nor are they lost."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable

from longtail.retrieval.passages import build_passages
from longtail.storage.files import STAGING
from longtail.storage.lake import Lake
from longtail.study.study import Study
from tests.longtail.retrieval.test_excluded_pages import DECLARED, write_wiki

OLD = {"Ada": "A weaver.", "Lodz": "#REDIRECT [[Ada]]"}
NEW = {f"Article {number}": f"Text {number}." for number in range(100)} | {
    f"Old title {number}": f"#REDIRECT [[Article {number % 100}]]" for number in range(300)
}
WHERE = {  # where a writer is killed, and how many excluded pages and passages the lake then has
    "page 7": (1, 1),
    "page 290": (1, 1),
    "part 2": (1, 1),
    "excluded_pages": (1, 1),
    "passages": (300, 1),
}
KILLED_WRITERS = """
# Each argument is a writer in a process of its own, which kills itself when it meets its n-th excluded page, before it
# writes the table's n-th part, or before a table's file appears. A line for each: how it ended, the rows of both tables.
import logging, os, signal, sys
from pathlib import Path
import pyarrow.parquet as pq
from longtail.storage import files
from longtail.storage.lake import Lake
from longtail.retrieval import excluded_pages
from longtail.retrieval.passages import build_passages
from longtail.study.file import load_study

excluded_pages._AT_ONCE, excluded_pages.PART_ROWS = 20, 100
study = load_study(Path(sys.argv[1]))
lake, seen = Lake(study.home.lake), 0

def die_in(owner, name, when):
    own = getattr(owner, name)
    def killed(*args, **kwargs):
        global seen
        seen += when(*args)
        if seen == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return own(*args, **kwargs)
    setattr(owner, name, killed)

for argument in sys.argv[2:]:
    where, _, number = argument.partition(" ")
    number = int(number or 1)
    pid = os.fork()
    if not pid:
        if where == "page":
            die_in(excluded_pages.ExcludedPages, "add", lambda *_: True)
        elif where == "part":
            die_in(pq.ParquetWriter, "write_table", lambda writer, *_: "target_title" in writer.schema.names)
        else:
            die_in(files.os, "replace", lambda _, target: target.parent.name == where)
        build_passages(study, lake, logging.getLogger())
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    print(code, *(lake.stamp(table).n_rows for table in ("excluded_pages", "passages")))
"""


def test_the_next_writer_makes_both_tables_whole(
    make_study: Callable[[str], Study], rdf_text: str, hand_lake: Lake, log: logging.Logger
) -> None:
    study = make_study(f"{rdf_text}\ncollections:\n  - {DECLARED}\n")

    def rows() -> list[list[dict[str, object]]]:
        build_passages(study, hand_lake, log)
        return [hand_lake.read(table).to_pylist() for table in ("excluded_pages", "passages")]

    write_wiki(study, NEW)
    whole = rows()
    assert [len(table) for table in whole] == [300, 100]
    write_wiki(study, OLD)
    assert [len(table) for table in rows()] == [1, 1]
    write_wiki(study, NEW)
    done = subprocess.run(
        [sys.executable, "-c", KILLED_WRITERS, str(study.path), *WHERE],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    expected = [f"{-signal.SIGKILL} {n_pages} {n_passages}" for n_pages, n_passages in WHERE.values()]
    assert done.stdout.splitlines() == expected, done.stderr[-2_000:]
    assert rows() == whole
    hand_lake.ensure_schemas()
    assert list((hand_lake.root / STAGING).iterdir()) == []
