"""The nearest vectors by inner product: exact, in one part of the vectors, and the best of several parts."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

# A sum of float32 differs in the seventh digit with the order of its terms: scores equal to six digits are a tie. These
# are six decimals up to 10, and one fewer for each further power of ten.
_DIGITS = 6
SPARE = 16
"""How many more than `k` are looked at, so that ties at rank k go by row."""
_QUERIES_ON_GPU = 4_096


@dataclass(frozen=True)
class Nearest:
    """Rows and scores, both of shape (queries, at most k), best first; of equal scores the lower row first."""

    rows: np.ndarray
    scores: np.ndarray

    @classmethod
    def none(cls, n_queries: int) -> Nearest:
        return cls(np.empty((n_queries, 0), dtype=np.int64), np.empty((n_queries, 0)))

    def join_with(self, other: Nearest, k: int) -> Nearest:
        """The best of both."""
        rows, scores = np.hstack([self.rows, other.rows]), np.hstack([self.scores, other.scores])
        order = np.lexsort((rows, -scores), axis=-1)[:, :k]
        return Nearest(np.take_along_axis(rows, order, 1), np.take_along_axis(scores, order, 1))


@dataclass(frozen=True)
class Flat:
    """Vectors, float32 or float16, that answer as a flat index of faiss does; float32 vectors are not copied."""

    vectors: np.ndarray
    device: str

    @property
    def ntotal(self) -> int:
        return len(self.vectors)

    @functools.cached_property
    def _floats(self) -> np.ndarray:
        return self.vectors.astype(np.float32, copy=False)

    def search(self, queries: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Scores and rows of the `n` nearest."""
        if self.device == "cpu":
            import faiss

            nearest_rows: tuple[np.ndarray, np.ndarray] = faiss.knn(
                queries, self._floats, n, metric=faiss.METRIC_INNER_PRODUCT
            )
            return nearest_rows
        import torch

        vectors = torch.as_tensor(self.vectors, device=self.device).float()
        parts = [
            (torch.as_tensor(queries[start : start + _QUERIES_ON_GPU], device=self.device) @ vectors.T).topk(
                n
            )
            for start in range(0, len(queries), _QUERIES_ON_GPU)
        ]
        scores, rows = (torch.cat([part[place] for part in parts]).cpu().numpy() for place in (0, 1))
        return scores, rows


def nearest(index: Any, vectors: np.ndarray, k: int) -> Nearest:
    """The `k` nearest to each vector in a flat index of faiss, or one like it. Scores have six digits."""
    wanted = min(k, index.ntotal)
    if not wanted or not len(vectors):
        return Nearest.none(len(vectors))
    scores, rows = _taken(index, vectors, min(wanted + SPARE, index.ntotal))
    best = Nearest.none(len(vectors)).join_with(Nearest(rows, scores), wanted)
    if scores.shape[1] < index.ntotal:
        # More passages than were taken may share the score at rank k: take more before choosing by row.
        for number in np.flatnonzero(scores[:, -1] == scores[:, wanted - 1]):
            all_ties = _all_ties(index, vectors[number : number + 1], wanted, scores.shape[1])
            best.rows[number], best.scores[number] = all_ties.rows[0], all_ties.scores[0]
    return best


def _all_ties(index: Any, vector: np.ndarray, wanted: int, n_taken: int) -> Nearest:
    while True:
        n_taken = min(2 * n_taken, index.ntotal)
        scores, rows = _taken(index, vector, n_taken)
        if n_taken == index.ntotal or scores[0, -1] != scores[0, wanted - 1]:
            return Nearest.none(1).join_with(Nearest(rows, scores), wanted)


def _taken(index: Any, vectors: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    scores, rows = index.search(vectors, n)
    return round_scores(scores.astype(np.float64)), rows


def round_scores(scores: np.ndarray) -> np.ndarray:
    """float64 scores to six digits."""
    sizes = np.abs(scores)
    is_large = sizes > 10
    rounded: np.ndarray = np.round(scores, _DIGITS)
    steps = 10.0 ** (np.ceil(np.log10(sizes[is_large])) - 1 - _DIGITS)
    rounded[is_large] = np.round(scores[is_large] / steps) * steps
    return rounded
