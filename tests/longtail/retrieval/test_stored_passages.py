"""Passages as sorted files, and indexes in parts: shards equal the whole, killed builds go on, damage is named."""

from __future__ import annotations

import logging
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from longtail.embedding.declared import ANSWER_ENCODER, DeclaredEncoder
from longtail.errors import LongtailError
from longtail.methods import METHODS
from longtail.retrieval import passage_vectors, stored_passages
from longtail.retrieval.base import Context, Hit, Query, load_retriever
from longtail.retrieval.bm25 import build_shards
from longtail.retrieval.indexes import build_index
from longtail.retrieval.passage_vectors import build_vectors, read_vectors
from longtail.retrieval.retrievers.bm25 import Bm25Settings
from longtail.retrieval.stored_passages import Passage, StoredPassages, open_passages
from longtail.storage.lake import Lake
from longtail.storage.ownership import only_one
from longtail.study.study import Study

LOG = logging.getLogger("longtail-tests")
ENCODER = DeclaredEncoder("dense", METHODS["dense"].settings)
KILLED_BUILD = """
import logging, os, signal, sys
from pathlib import Path
from longtail.retrieval import bm25
from longtail.retrieval.retrievers.bm25 import Bm25Settings
from tests.longtail.retrieval.test_stored_passages import generated
left = int(sys.argv[2])
def dying(text):
    global left
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
    return tokens_of(text)
tokens_of, bm25.tokens_of = bm25.tokens_of, dying
bm25.build_shards(generated(200, 50), Path(sys.argv[1]), logging.getLogger(), Bm25Settings())
"""


def generated(n: int, shard_rows: int) -> StoredPassages:
    """Passages of words whose frequencies fall as Zipf's."""
    rng = random.Random(5)
    words = [f"w{number}" for number in range(80)]
    weights = [1 / (rank + 1) for rank in range(80)]
    texts = [" ".join(rng.choices(words, weights, k=rng.randint(0, 30))) for _ in range(n)]
    return StoredPassages.of(
        [Passage(f"Q{i:04}-0", f"Q{i % 9}", words[i % 80], 0, text) for i, text in enumerate(texts)],
        shard_rows,
    )


def searched(passages: StoredPassages, folder: Path, k: int) -> list[list[Hit]]:
    queries = [Query("d", str(i), f"w{i % 80} w{i % 7} w0 w{i % 3} unseen", None, ()) for i in range(150)]
    return load_retriever(METHODS["bm25"]).search(Context(passages, folder, folder, LOG, k), queries)


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_rows_ids_texts_and_entities_are_those_of_the_list() -> None:
    passages = generated(30, 7)
    rows = list(passages)
    assert [passages[row] for row in range(30)] == rows
    wanted = np.array([29, 0, 13, 13, 7])
    assert passages.ids(wanted) == [rows[row].passage_id for row in wanted]
    assert passages.texts({"Q0003-0", "none"}) == {"Q0003-0": rows[3].text}
    assert list(passages.about({"Q4"})) == [row for row in rows if row.entity_id == "Q4"]


def test_the_lake_s_passages_are_sorted_into_shards(
    rdf_study: Study, searchable: Lake, log: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        {
            "passage_id": f"Ü{i * 7 % 10}",
            "title": f"t\x00{i}",
            "position": i,
            "text": "x",
            "source": "sandbox",
        }
        for i in range(10)
    ]
    searchable.write("passages", rows, fingerprint="f")
    monkeypatch.setattr(stored_passages, "SHARD_ROWS", 4)
    passages = open_passages(searchable, rdf_study.home.indexes, log)
    assert passages.starts == [0, 4, 8]
    ordered = sorted(rows, key=lambda row: str(row["passage_id"]))
    assert [(p.passage_id, p.title, p.position) for p in passages] == [
        (row["passage_id"], row["title"], row["position"]) for row in ordered
    ]
    (shard,) = (rdf_study.home.indexes / "passages").glob("*/00001.arrow")
    shard.unlink()  # an index would name other passages by the rows behind it
    assert len(open_passages(searchable, rdf_study.home.indexes, log)) == 10


@pytest.fixture(scope="module")
def sharded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index in one shard, and one in nine, which two processes have counted."""
    folder = tmp_path_factory.mktemp("bm25")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LONGTAIL_THREADS", "2")
        for rows in (200, 23):
            build_shards(generated(200, rows), folder / str(rows), LOG, Bm25Settings())
    return folder


@pytest.mark.parametrize("k", [1, 5, 300])
def test_bm25_in_shards_finds_what_one_index_finds(sharded: Path, k: int) -> None:
    whole = searched(generated(200, 200), sharded / "200", k)
    assert searched(generated(200, 23), sharded / "23", k) == whole
    assert max(len(hits) for hits in whole) == min(k, max(len(hits) for hits in whole))


def test_a_killed_bm25_build_loses_at_most_one_shard(tmp_path: Path) -> None:
    build_shards(generated(200, 50), tmp_path / "whole", LOG, Bm25Settings())
    folder = tmp_path / "killed"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    for texts, n_counted in ((30, 0), (70, 1), (60, 2), (99, 3)):
        command = [sys.executable, "-c", KILLED_BUILD, str(folder), str(texts)]
        assert subprocess.run(command, env=environment, check=False).returncode == -signal.SIGKILL
        assert len(list(folder.glob("counts-*"))) == n_counted
    build_shards(generated(200, 50), folder, LOG, Bm25Settings())
    assert files_of(folder) == files_of(tmp_path / "whole")


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passage_vectors, "PART_ROWS", 5)


@pytest.mark.usefixtures("small_parts")
def test_vectors_are_encoded_once_shared_and_removed_when_unused(tmp_path: Path) -> None:
    passages, cache = generated(12, 10), tmp_path / "cache"
    for study in "ab":
        (tmp_path / study).mkdir()
        build_vectors(passages, tmp_path / study, cache, ENCODER, "cpu", LOG)
    names = ["00000.npy", "00001.npy", "00002.npy"]  # 5 and 5 rows of the first shard, 2 of the second
    inodes = [(tmp_path / "a" / name).stat().st_ino for name in names]
    assert inodes == [(tmp_path / "b" / name).stat().st_ino for name in names]
    (tmp_path / "a" / names[1]).unlink()
    build_vectors(passages, tmp_path / "a", cache, ENCODER, "cpu", LOG)
    assert inodes == [(tmp_path / "a" / name).stat().st_ino for name in names]
    expected = ANSWER_ENCODER.load("cpu").encode(
        [f"{passage.title}\n{passage.text}" for passage in passages], LOG
    )
    found = np.vstack([vectors for _, vectors in read_vectors(tmp_path / "a")])
    np.testing.assert_allclose(found, expected, atol=1e-6)
    for study in "ab":
        (tmp_path / study / names[2]).unlink()
    build_vectors(generated(10, 10), tmp_path / "a", cache, ENCODER, "cpu", LOG)
    assert len(list(cache.rglob("*.npy"))) == 2


@pytest.mark.usefixtures("small_parts")
def test_dense_in_parts_finds_what_one_index_finds(tmp_path: Path) -> None:
    passages = generated(12, 10)
    (tmp_path / "index").mkdir()
    context = Context(passages, tmp_path / "index", tmp_path / "cache", LOG, k=4)
    queries = [Query("d", str(i), f"w{i} w{i + 1}", None, ()) for i in range(20)]
    retriever = load_retriever(METHODS["dense"])
    retriever.build(context)
    vectors = ANSWER_ENCODER.load("cpu").encode(
        [f"{passage.title}\n{passage.text}" for passage in passages], LOG
    )
    products = ANSWER_ENCODER.load("cpu").encode([query.text for query in queries], LOG) @ vectors.T
    best = [[int(hit.passage_id[1:5]) for hit in hits] for hits in retriever.search(context, queries)]
    assert best == [
        sorted(range(12), key=lambda row: (-round(float(scores[row]), 6), row))[:4] for scores in products
    ]


def test_a_second_build_of_an_index_is_refused_while_the_first_runs(
    rdf_study: Study, searchable: Lake, log: logging.Logger
) -> None:
    with (
        only_one(rdf_study.home.locks / "indexes" / "bm25.lock", "held"),
        pytest.raises(LongtailError, match="another process is building this index"),
    ):
        build_index(rdf_study, searchable, "bm25", log)
