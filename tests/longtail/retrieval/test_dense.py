"""Dense retrieval against brute-force dot products."""

from __future__ import annotations

import logging

import faiss
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from longtail.retrieval.dense import nearest

LOG = logging.getLogger("longtail-tests")


def index_of(vectors: np.ndarray) -> faiss.Index:
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    return index


def test_nearest_equals_brute_force() -> None:
    rng = np.random.default_rng(3)
    passages = rng.standard_normal((200, 16)).astype(np.float32)
    passages /= np.linalg.norm(passages, axis=1, keepdims=True)
    queries = passages[:30] + 0.1
    found = nearest(index_of(passages), queries, 7)
    for rows, scores, products in zip(found.rows, found.scores, queries @ passages.T, strict=True):
        order = sorted(range(200), key=lambda row: (-round(float(products[row]), 6), row))[:7]
        assert rows.tolist() == order
        np.testing.assert_allclose(scores, products[order], atol=2e-6)


@given(st.lists(st.integers(0, 2), min_size=1, max_size=120), st.integers(1, 130))
@settings(max_examples=60)
def test_ties_go_by_row_however_many(kinds: list[int], k: int) -> None:
    vectors = np.eye(3, dtype=np.float32)[kinds]
    query = np.array([[0.5, 0.2, 0.5]], dtype=np.float32)
    scores = [float(query[0, kind]) for kind in kinds]
    expected = sorted(range(len(kinds)), key=lambda row: (-scores[row], row))[:k]
    assert nearest(index_of(vectors), query, k).rows[0].tolist() == expected
