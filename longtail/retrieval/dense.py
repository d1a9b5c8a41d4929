"""Dense retrieval: a text encoder and search by inner product: exact, or by an index that finds most of the nearest.

Exact search goes through one part of the vectors after the other: memory holds one of them, and the best passages so
far. A CPU searches with faiss, a GPU with torch.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np

from longtail.embedding.declared import DeclaredEncoder
from longtail.embedding.settings import EncoderSettings
from longtail.embedding.vectors import lease_for_encoder
from longtail.errors import BackendError
from longtail.progress import Progress
from longtail.retrieval.approximate import build_approximate, describe, search_approximate, search_settings
from longtail.retrieval.base import Context, Hit, Query, Retriever
from longtail.retrieval.nearest import Flat, Nearest, nearest
from longtail.retrieval.passage_vectors import (
    build_vectors,
    counts_of,
    finite_rows,
    read_vectors,
)
from longtail.threads import thread_count


class Dense(Retriever):
    """Nearest passages as a `Retriever`; scores are inner products: cosines of vectors of unit length.

    A passage or a question without a finite vector is never found, or finds nothing.
    """

    def __init__(self, settings: EncoderSettings, name: str) -> None:
        self._encoder = DeclaredEncoder(name, dataclasses.replace(settings, search=None))
        self._queries = self._encoder.of_queries
        self._search = settings.search

    @property
    def is_approximate(self) -> bool:
        """Whether its search may miss a passage that is nearer than those it finds."""
        return self._search is not None

    def version(self) -> str:
        return self._encoder.version + (f", {describe(self._search)}" if self._search else "")

    def query_version(self) -> str:
        return self._encoder.query_version

    def search_version(self) -> str:
        return search_settings(self._search) if self._search else ""

    def check(self) -> None:
        self._encoder.check()
        self._queries.check()

    def build(self, context: Context) -> None:
        device = self._encoder.settings.device or context.device
        build_vectors(context.passages, context.folder, context.cache, self._encoder, device, context.log)
        if self._search:
            build_approximate(context.folder, self._search, self._encoder.name, context.log)

    def notes(self, folder: Path) -> Mapping[str, int]:
        return counts_of(folder)

    def search(self, context: Context, queries: Sequence[Query]) -> list[list[Hit]]:
        return self.search_with_vectors(context, queries)[0]

    def search_with_vectors(
        self, context: Context, queries: Sequence[Query]
    ) -> tuple[list[list[Hit]], np.ndarray]:
        with self._place(context) as device:
            vectors = self._vectors_of(queries, device, context.log)
            self._check_dimensions(context.folder, vectors)
            is_finite = finite_rows(vectors)
            vectors[~is_finite] = 0
            if self._search:
                best = search_approximate(context.folder, self._search, vectors, context.k)
            else:
                best = self._exact(context, vectors, device)
        is_found = (best.rows >= 0) & is_finite[:, None]
        ids = iter(context.passages.ids(best.rows[is_found]))
        hits = [
            [Hit(next(ids), float(score)) for score in scores[are_found]]
            for scores, are_found in zip(best.scores, is_found, strict=True)
        ]
        return hits, vectors

    def exact_hits(self, context: Context, queries: Sequence[Query]) -> list[list[Hit]]:
        """As `search`, by exact search of the same vectors."""
        exact = Dense(self._encoder.settings, self._encoder.name)
        return exact.search(context, queries)

    def _exact(self, context: Context, vectors: np.ndarray, device: str) -> Nearest:
        import faiss

        faiss.omp_set_num_threads(thread_count())
        best = Nearest.none(len(vectors))
        title = f"{self._encoder.name}: passages searched"
        with Progress(context.log, title, len(context.passages)) as progress:
            for rows, part in read_vectors(context.folder):
                of_part = nearest(Flat(part, device), vectors, context.k)
                best = best.join_with(Nearest(rows[of_part.rows], of_part.scores), context.k)
                progress.add(len(part))
        return best

    def _vectors_of(self, queries: Sequence[Query], device: str, log: logging.Logger) -> np.ndarray:
        before = self._queries.settings.query_prefix
        return self._queries.load(device).encode([before + query.text for query in queries], log)

    def _check_dimensions(self, folder: Path, vectors: np.ndarray) -> None:
        """Errors: `BackendError` where questions and passages have vectors of other lengths."""
        for path in sorted(folder.glob("*.npy"))[:1]:
            n = np.load(path, mmap_mode="r").shape[1]
            if n != vectors.shape[1]:
                raise BackendError(
                    f"retriever {self._encoder.name}: query_path gives vectors of {vectors.shape[1]} numbers, "
                    f"those of its passages have {n}; name two encoders that were trained together"
                )

    def _place(self, context: Context) -> AbstractContextManager[str]:
        return lease_for_encoder(self._encoder.settings.device or context.device, self._encoder.name)
