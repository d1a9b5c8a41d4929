"""Approximate search: an index of faiss finds candidates, and the stored vectors give their exact scores.

Indexes and vectors stay in their files, which are mapped into memory. An index compares codes, which are coarser than the
vectors. So it gives more candidates than are wanted, and their order and scores come from the vectors (faiss calls this
refinement; IndexRefine, `k_factor`).
"""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np

from longtail.embedding.settings import SEARCH_KEYS, Hnsw, IvfPq
from longtail.retrieval.approximate import index_files
from longtail.retrieval.nearest import SPARE, Nearest, rounded
from longtail.retrieval.passage_vectors import read_rows
from longtail.threads import thread_count

_QUESTIONS_AT_ONCE = 4_096


def searched_with(search: IvfPq | Hnsw) -> str:
    """What decides the hits beside the index: the settings that only a search reads."""
    own = dataclasses.asdict(search)
    return ", ".join(f"{name} {own[name]}" for name in SEARCH_KEYS if name in own)


def search_approximate(folder: Path, search: IvfPq | Hnsw, vectors: np.ndarray, k: int) -> Nearest:
    """The `k` nearest that are found to each vector, with exact scores; row -1 where fewer are found."""
    import faiss

    faiss.omp_set_num_threads(thread_count())
    found = []
    for start in range(0, max(len(vectors), 1), _QUESTIONS_AT_ONCE):
        asked = vectors[start : start + _QUESTIONS_AT_ONCE]
        found.append(_with_exact_scores(folder, _candidates(folder, search, asked, k), asked, k))
    return Nearest(*(np.concatenate([getattr(one, name) for one in found]) for name in ("rows", "scores")))


def default_nprobe(nlist: int) -> int:
    """Lists that a question looks at."""
    return max(8, round(math.sqrt(nlist)))


def _candidates(folder: Path, search: IvfPq | Hnsw, vectors: np.ndarray, k: int) -> Nearest:
    """What the index finds, by the scores of its codes."""
    wanted = (k * search.refine_factor if isinstance(search, IvfPq) else k) + SPARE
    best = Nearest.none(len(vectors))
    for path in index_files(folder):
        index = _open(path, search)
        if index.ntotal and len(vectors):
            scores, rows = index.search(vectors, min(wanted, index.ntotal))
            best = best.joined(Nearest(rows, np.where(rows < 0, -np.inf, scores)), wanted)
    return best


def _with_exact_scores(folder: Path, found: Nearest, vectors: np.ndarray, k: int) -> Nearest:
    """The `k` best of `found` by the inner products of the stored vectors, of which a few are in memory."""
    questions, places = np.nonzero(found.rows >= 0)
    rows = found.rows[questions, places]
    by_row = np.argsort(rows, kind="stable")
    scores = np.full(found.rows.shape, -np.inf)
    for own, stored in read_rows(folder, rows[by_row]):
        pairs = by_row[own]
        asked = questions[pairs]
        products = np.einsum("ij,ij->i", stored.astype(np.float32, copy=False), vectors[asked])
        scores[asked, places[pairs]] = rounded(products.astype(np.float64))
    return Nearest.none(len(vectors)).joined(Nearest(found.rows, scores), k)


def _open(path: Path, search: IvfPq | Hnsw) -> Any:
    """An index whose codes are mapped into memory."""
    import faiss

    if isinstance(search, IvfPq):
        lists: Any = faiss.read_index(str(path), faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY)
        lists.nprobe = min(search.nprobe or default_nprobe(lists.nlist), lists.nlist)
        return lists
    index: Any = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
    graph: Any = faiss.downcast_index(index.index)
    graph.hnsw.efSearch = search.ef_search
    return index
