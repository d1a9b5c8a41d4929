"""Passages whose vectors stay as they are while the retriever's queries are trained."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
import pyarrow.compute as pc

from longtail.errors import LakeError
from longtail.generation.prompts.build import text_apart, text_as_read
from longtail.methods import VERBALISED, Method
from longtail.retrieval.base import load_retriever
from longtail.retrieval.indexes import Index
from longtail.retrieval.nearest import Flat, Nearest, nearest
from longtail.retrieval.passage_vectors import finite_rows, read_vectors
from longtail.retrieval.stored_passages import open_passages
from longtail.storage.lake import Lake
from longtail.study.study import Study
from longtail.threads import thread_count


class FixedIndex:
    """The stored index of a dense retriever. Its vectors are mapped, not read.

    Errors: `IndexMissingError` where the index is not built over the present passages.
    """

    def __init__(self, study: Study, lake: Lake, method: Method, log: logging.Logger) -> None:
        index = Index.of(method, load_retriever(method), lake.content("passages"), study.home.indexes)
        index.require()
        self._parts = list(read_vectors(index.folder))
        self._passages = open_passages(lake, study.home.indexes, log)
        self._method = method
        whole = lake.read("passages", columns=["passage_id"], only=pc.field("source") == VERBALISED)
        self._verbalised = frozenset(whole["passage_id"].to_pylist())

    def search(self, vectors: np.ndarray, k: int, device: str) -> np.ndarray:
        """The rows of the nearest passages, best first: (queries, k), or fewer columns where there are fewer passages.

        Errors: `LakeError` where a query has no finite vector.
        """
        if not finite_rows(vectors).all():
            raise LakeError(
                f"retriever {self._method.name}: a query's vector is not finite; its training failed"
            )
        import faiss

        faiss.omp_set_num_threads(thread_count())
        best = Nearest.none(len(vectors))
        for rows, part in self._parts:
            found = nearest(Flat(part, device), vectors, k)
            best = best.joined(Nearest(rows[found.rows], found.scores), k)
        return best.rows

    def texts(self, rows: Sequence[int]) -> list[str]:
        """The passages as a model reads them apart from the question."""
        passages = [self._passages[int(row)] for row in rows]
        sources = [VERBALISED if own.passage_id in self._verbalised else "" for own in passages]
        return [
            text_apart(own.title, text_as_read(own.text, source, self._method))
            for own, source in zip(passages, sources, strict=True)
        ]

    def vectors(self, rows: np.ndarray) -> np.ndarray:
        """float32 vectors, one for each row, with the shape of `rows` before the dimensions."""
        starts = [own[0] for own, _ in self._parts if len(own)]
        parts = [part for part in self._parts if len(part[0])]
        found = np.empty((rows.size, parts[0][1].shape[1]), dtype=np.float32)
        for place, row in enumerate(rows.ravel()):
            own, vectors = parts[int(np.searchsorted(starts, row, side="right")) - 1]
            found[place] = vectors[int(np.searchsorted(own, row))]
        return found.reshape(*rows.shape, -1)
