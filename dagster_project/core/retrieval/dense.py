"""Dense retrieval: a sentence encoder and exact search by inner product of unit vectors, one part after the other.

What belongs here: search and ranking. What does not: the encoder (`embedding.encoder`), the files of vectors
(`passage_vectors`), and where indexes are kept (`indexes`).

Memory holds one part of the vectors, and the best passages so far. A CPU searches with faiss, a GPU with torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dagster_project.core.embedding.encoder import ENCODER, check_files, load_encoder
from dagster_project.core.embedding.vectors import placed
from dagster_project.core.progress import Progress
from dagster_project.core.retrieval.base import Context, Hit, Query, Retriever
from dagster_project.core.retrieval.passage_vectors import build_vectors, read_vectors
from dagster_project.core.threads import thread_count

# A sum of float32 differs in the seventh digit with the order of its terms: scores equal to six digits are a tie.
_DIGITS = 6
_SPARE = 16
_QUERIES_ON_GPU = 4_096


class Dense(Retriever):
    """Nearest passages by cosine as a `Retriever`; scores are cosines in [-1, 1]."""

    def version(self) -> str:
        return ENCODER.version

    def check(self) -> None:
        check_files()

    def build(self, context: Context) -> None:
        with placed(context.device) as device:
            build_vectors(context.passages, context.folder, context.cache, device, context.log)

    def search(self, context: Context, queries: Sequence[Query]) -> list[list[Hit]]:
        import faiss

        faiss.omp_set_num_threads(thread_count())
        with placed(context.device) as device:
            vectors = load_encoder(device).encode([query.text for query in queries], context.log)
            best = Nearest.none(len(queries))
            with Progress(context.log, "dense: passages searched", len(context.passages)) as progress:
                for rows, part in read_vectors(context.folder):
                    found = nearest(Flat(part, device), vectors, context.k)
                    best = best.joined(Nearest(rows[found.rows], found.scores), context.k)
                    progress.add(len(part))
        ids = iter(context.passages.ids(best.rows.ravel()))
        return [[Hit(next(ids), float(score)) for score in own] for own in best.scores]


@dataclass(frozen=True)
class Nearest:
    """Rows and scores, both of shape (queries, at most k), best first; of equal scores the lower row first."""

    rows: np.ndarray
    scores: np.ndarray

    @classmethod
    def none(cls, n_queries: int) -> Nearest:
        return cls(np.empty((n_queries, 0), dtype=np.int64), np.empty((n_queries, 0)))

    def joined(self, other: Nearest, k: int) -> Nearest:
        """The best of both."""
        rows, scores = np.hstack([self.rows, other.rows]), np.hstack([self.scores, other.scores])
        order = np.lexsort((rows, -scores), axis=-1)[:, :k]
        return Nearest(np.take_along_axis(rows, order, 1), np.take_along_axis(scores, order, 1))


@dataclass(frozen=True)
class Flat:
    """Vectors that answer as a flat index of faiss does, without a copy of them."""

    vectors: np.ndarray
    device: str

    @property
    def ntotal(self) -> int:
        return len(self.vectors)

    def search(self, queries: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Scores and rows of the `n` nearest."""
        if self.device == "cpu":
            import faiss

            found: tuple[np.ndarray, np.ndarray] = faiss.knn(
                queries, self.vectors, n, metric=faiss.METRIC_INNER_PRODUCT
            )
            return found
        import torch

        vectors = torch.as_tensor(self.vectors, device=self.device)
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
    scores, rows = _taken(index, vectors, min(wanted + _SPARE, index.ntotal))
    found = Nearest.none(len(vectors)).joined(Nearest(rows, scores), wanted)
    if scores.shape[1] < index.ntotal:
        # More passages than were taken may share the score at rank k: take more before choosing by row.
        for number in np.flatnonzero(scores[:, -1] == scores[:, wanted - 1]):
            own = _all_ties(index, vectors[number : number + 1], wanted, scores.shape[1])
            found.rows[number], found.scores[number] = own.rows[0], own.scores[0]
    return found


def _all_ties(index: Any, vector: np.ndarray, wanted: int, n_taken: int) -> Nearest:
    while True:
        n_taken = min(2 * n_taken, index.ntotal)
        scores, rows = _taken(index, vector, n_taken)
        if n_taken == index.ntotal or scores[0, -1] != scores[0, wanted - 1]:
            return Nearest.none(1).joined(Nearest(rows, scores), wanted)


def _taken(index: Any, vectors: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    scores, rows = index.search(vectors, n)
    return np.round(scores.astype(np.float64), _DIGITS), rows
