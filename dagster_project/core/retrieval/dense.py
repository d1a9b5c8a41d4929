"""Dense retrieval: a sentence encoder and exact search by inner product of unit vectors (faiss).

What belongs here: the index's file and ranking. What does not: the encoder (`embedding.encoder`), and where
indexes are kept (`indexes`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dagster_project.core.embedding.encoder import ENCODER, check_files, load_encoder
from dagster_project.core.retrieval.base import Context, Hit, Query, Retriever
from dagster_project.core.threads import thread_count

_FILE = "vectors.faiss"
# A sum of float32 differs in the seventh digit with the order of its terms: scores equal to six digits are a tie.
_DIGITS = 6
_SPARE = 16


class Dense(Retriever):
    """Nearest passages by cosine as a `Retriever`; scores are cosines in [-1, 1]."""

    def version(self) -> str:
        return ENCODER.version

    def check(self) -> None:
        check_files()

    def build(self, context: Context) -> None:
        import faiss

        texts = [passage.indexed_text for passage in context.passages]
        vectors = load_encoder().encode(texts, context.log)
        index = faiss.IndexFlatIP(vectors.shape[1])
        index.add(vectors)
        # Not faiss.write_index: on a full disk it raises a RuntimeError without the system's reason.
        (context.folder / _FILE).write_bytes(faiss.serialize_index(index).data)

    def search(self, context: Context, queries: Sequence[Query]) -> list[list[Hit]]:
        import faiss

        faiss.omp_set_num_threads(thread_count())
        index = faiss.read_index(str(context.folder / _FILE))
        vectors = load_encoder().encode([query.text for query in queries], context.log)
        return [
            [Hit(context.passages[row].passage_id, score) for row, score in hits]
            for hits in nearest(index, vectors, context.k)
        ]


def nearest(index: Any, vectors: np.ndarray, k: int) -> list[list[tuple[int, float]]]:
    """(row, score) of the `k` nearest to each vector, best first; of equal scores the lower row first."""
    wanted = min(k, index.ntotal)
    if not wanted or not len(vectors):
        return [[] for _ in vectors]
    taken = min(wanted + _SPARE, index.ntotal)
    scores, rows = index.search(vectors, taken)
    scores = np.round(scores.astype(np.float64), _DIGITS)
    found: list[list[tuple[int, float]]] = []
    for number in range(len(vectors)):
        own_scores, own_rows = scores[number], rows[number]
        while own_scores[-1] == own_scores[wanted - 1] and len(own_rows) < index.ntotal:
            # More passages than were taken may share the score at rank k: take more before choosing by passage_id.
            more_scores, more_rows = index.search(
                vectors[number : number + 1], min(2 * len(own_rows), index.ntotal)
            )
            own_scores, own_rows = np.round(more_scores[0].astype(np.float64), _DIGITS), more_rows[0]
        order = np.lexsort((own_rows, -own_scores))[:wanted]
        found.append([(int(own_rows[i]), float(own_scores[i])) for i in order])
    return found
