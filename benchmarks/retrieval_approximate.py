"""IVF-PQ beside exact search: seconds, bytes and recall, for the retrieval benchmark.

    python -m benchmarks.retrieval_approximate

runs this comparison alone. IVF-PQ is searched twice: with its default `refine_factor`, and with 1, which ranks no more
candidates than it needs to break ties.
"""

from __future__ import annotations

import logging
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.harness import say, table
from benchmarks.retrieval_process import K
from longtail.embedding.settings import IvfPq
from longtail.retrieval.dense import INDEX, Flat, build_approximate, nearest, search_approximate
from longtail.retrieval.passage_vectors import PART_ROWS
from longtail.storage.files import write_array

DIMENSIONS = 384
_LOG = logging.getLogger("longtail.benchmark")
_CENTRES = 300
_QUESTIONS = 500


def compare_approximate(folder: Path, n: int) -> dict[str, float]:
    """Build and search over `n` vectors around centres, as sentence embeddings are; the recall."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((_CENTRES, DIMENSIONS), dtype=np.float32)
    vectors = centres[rng.integers(0, _CENTRES, n)] + rng.standard_normal((n, DIMENSIONS), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    asked = vectors[rng.integers(0, n, _QUESTIONS)] + 0.02 * rng.standard_normal(
        (_QUESTIONS, DIMENSIONS), dtype=np.float32
    )
    exact = nearest(Flat(vectors, "cpu"), asked, K).rows
    say(f"ivf_pq: index of {n:,} vectors …")
    index = folder / "ivf_pq"
    index.mkdir(parents=True)
    for number, start in enumerate(range(0, n, PART_ROWS)):
        write_array(index / f"{number:05}.npy", vectors[start : start + PART_ROWS])
    started = time.time()
    build_approximate(index, IvfPq(), "ivf_pq", _LOG)
    trained = (index / "trained.faiss").stat().st_mtime - started
    added = time.time() - started - trained
    size = (index / INDEX).stat().st_size / n
    recalls, rows = [], []
    for factor in (IvfPq().refine_factor, 1):
        started = time.time()
        found = search_approximate(index, IvfPq(refine_factor=factor), asked, K).rows
        search_s = time.time() - started
        shared = [len(np.intersect1d(one, best)) for one, best in zip(found, exact, strict=True)]
        recalls.append(sum(shared) / exact.size)
        figures = f"{trained:.1f}", f"{added:.1f}", f"{size:,.0f}", f"{_QUESTIONS / search_s:,.0f}"
        rows.append((f"refine_factor {factor}", *figures, f"{recalls[-1]:.3f}"))
    names = ("", "training s", "adding s", "bytes a vector", "questions/s", f"recall@{K} against exact")
    table(f"Approximate search: {n:,} vectors of {DIMENSIONS} around {_CENTRES} centres", names, rows)
    return {"ivf_pq_recall": recalls[0]}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="longtail-approximate-") as folder:
        compare_approximate(Path(folder), 20_000)
