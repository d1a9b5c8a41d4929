"""IVF-PQ and HNSW beside exact search: seconds, bytes and recall, for the retrieval benchmark.

    python -m benchmarks.retrieval_approximate

runs this comparison alone. IVF-PQ is searched twice: with its default `refine_factor`, and with 1, which ranks no more
candidates than it needs to break ties.
"""

from __future__ import annotations

import dataclasses
import logging
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.harness import say, table
from benchmarks.retrieval_process import K
from longtail.embedding.settings import Hnsw, IvfPq
from longtail.retrieval.approximate import build_approximate, index_files, search_approximate
from longtail.retrieval.nearest import Flat, nearest
from longtail.retrieval.passage_vectors import PART_ROWS
from longtail.storage.files import write_array

DIMENSIONS = 384
_LOG = logging.getLogger("longtail.benchmark")
_CENTRES = 300
_QUESTIONS = 500


def compare_approximate(folder: Path, n: int) -> dict[str, float]:
    """Build and search both over `n` vectors around centres, as sentence embeddings are; the recall of each."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((_CENTRES, DIMENSIONS), dtype=np.float32)
    vectors = centres[rng.integers(0, _CENTRES, n)] + rng.standard_normal((n, DIMENSIONS), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    asked = vectors[rng.integers(0, n, _QUESTIONS)] + 0.02 * rng.standard_normal(
        (_QUESTIONS, DIMENSIONS), dtype=np.float32
    )
    exact = nearest(Flat(vectors, "cpu"), asked, K).rows
    recalls: dict[str, float] = {}
    rows = []
    for name, search in (("ivf_pq", IvfPq()), ("hnsw", Hnsw())):
        say(f"{name}: index of {n:,} vectors …")
        own = folder / name
        own.mkdir(parents=True)
        for number, start in enumerate(range(0, n, PART_ROWS)):
            write_array(own / f"{number:05}.npy", vectors[start : start + PART_ROWS])
        started = time.time()
        build_approximate(own, search, name, _LOG)
        trained = (own / "trained.faiss").stat().st_mtime - started
        added = time.time() - started - trained
        size = sum(file.stat().st_size for file in index_files(own)) / n
        for called, searched in _searches(name, search):
            started = time.time()
            found = search_approximate(own, searched, asked, K).rows
            search_s = time.time() - started
            shared = [len(np.intersect1d(one, best)) for one, best in zip(found, exact, strict=True)]
            recall = sum(shared) / exact.size
            recalls.setdefault(f"{name}_recall", recall)
            figures = (
                f"{trained:.1f}",
                f"{added:.1f}",
                f"{size:,.0f}",
                f"{_QUESTIONS / search_s:,.0f}",
            )
            rows.append((called, *figures, f"{recall:.3f}"))
    names = ("", "training s", "adding s", "bytes a vector", "questions/s", f"recall@{K} against exact")
    table(f"Approximate search: {n:,} vectors of {DIMENSIONS} around {_CENTRES} centres", names, rows)
    return recalls


def _searches(name: str, search: IvfPq | Hnsw) -> Iterator[tuple[str, IvfPq | Hnsw]]:
    """The default first; an index serves all of them."""
    yield name, search
    if isinstance(search, IvfPq):
        yield f"{name}, refine_factor 1", dataclasses.replace(search, refine_factor=1)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="longtail-approximate-") as folder:
        compare_approximate(Path(folder), 20_000)
