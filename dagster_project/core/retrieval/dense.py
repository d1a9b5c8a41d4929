"""Dense retrieval: a text encoder and exact search by inner product, one part of the vectors after the other.

What belongs here: search and ranking. What does not: encoders (`embedding.declared`), the files of vectors
(`passage_vectors`), and where indexes are kept (`indexes`).

Memory holds one part of the vectors, and the best passages so far. A CPU searches with faiss, a GPU with torch.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dagster_project.core.embedding.declared import DeclaredEncoder
from dagster_project.core.embedding.vectors import placed
from dagster_project.core.progress import Progress
from dagster_project.core.retrieval.base import Context, Hit, Query, Retriever
from dagster_project.core.retrieval.passage_vectors import (
    build_vectors,
    counts_of,
    finite_rows,
    read_vectors,
)
from dagster_project.core.retriever_settings import EncoderSettings
from dagster_project.core.threads import thread_count

# A sum of float32 differs in the seventh digit with the order of its terms: scores equal to six digits are a tie. These
# are six decimals up to 10, and one fewer for each further power of ten.
_DIGITS = 6
_SPARE = 16
_QUERIES_ON_GPU = 4_096


class Dense(Retriever):
    """Nearest passages as a `Retriever`; scores are inner products: cosines of vectors of unit length.

    A passage or a question without a finite vector is never found, or finds nothing.
    """

    def __init__(self, settings: EncoderSettings, name: str) -> None:
        self._encoder = DeclaredEncoder(name, settings)

    def version(self) -> str:
        return self._encoder.version

    def check(self) -> None:
        self._encoder.check()

    def build(self, context: Context) -> None:
        with self._placed(context) as device:
            build_vectors(context.passages, context.folder, context.cache, self._encoder, device, context.log)

    def notes(self, folder: Path) -> Mapping[str, int]:
        return counts_of(folder)

    def search(self, context: Context, queries: Sequence[Query]) -> list[list[Hit]]:
        return self.search_with_vectors(context, queries)[0]

    def search_with_vectors(
        self, context: Context, queries: Sequence[Query]
    ) -> tuple[list[list[Hit]], np.ndarray]:
        import faiss

        faiss.omp_set_num_threads(thread_count())
        with self._placed(context) as device:
            vectors = self._vectors_of(queries, device, context.log)
            is_finite = finite_rows(vectors)
            vectors[~is_finite] = 0
            best = Nearest.none(len(queries))
            title = f"{self._encoder.name}: passages searched"
            with Progress(context.log, title, len(context.passages)) as progress:
                for rows, part in read_vectors(context.folder):
                    found = nearest(Flat(part, device), vectors, context.k)
                    best = best.joined(Nearest(rows[found.rows], found.scores), context.k)
                    progress.add(len(part))
        ids = iter(context.passages.ids(best.rows.ravel()))
        hits = [[Hit(next(ids), float(score)) for score in own] for own in best.scores]
        return [own if found else [] for own, found in zip(hits, is_finite, strict=True)], vectors

    def _vectors_of(self, queries: Sequence[Query], device: str, log: logging.Logger) -> np.ndarray:
        before = self._encoder.settings.query_prefix
        return self._encoder.load(device).encode([before + query.text for query in queries], log)

    def _placed(self, context: Context) -> AbstractContextManager[str]:
        return placed(self._encoder.settings.device or context.device, self._encoder.name)


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

            found: tuple[np.ndarray, np.ndarray] = faiss.knn(
                queries, self._floats, n, metric=faiss.METRIC_INNER_PRODUCT
            )
            return found
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
    return _rounded(scores.astype(np.float64)), rows


def _rounded(scores: np.ndarray) -> np.ndarray:
    sizes = np.abs(scores)
    is_large = sizes > 10
    found: np.ndarray = np.round(scores, _DIGITS)
    steps = 10.0 ** (np.ceil(np.log10(sizes[is_large])) - 1 - _DIGITS)
    found[is_large] = np.round(scores[is_large] / steps) * steps
    return found
