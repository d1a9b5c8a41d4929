"""Dense retrieval against brute-force dot products."""

from __future__ import annotations

import logging
from pathlib import Path

import faiss
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from longtail.embedding.declared import ANSWER_ENCODER
from longtail.methods import METHODS
from longtail.retrieval.base import Context, Query, load_retriever
from longtail.retrieval.nearest import nearest
from longtail.retrieval.stored_passages import Passage, StoredPassages

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


def test_namesakes_and_unicode(tmp_path: Path) -> None:
    texts = [
        "Ada Quill was born in Łódź.",
        "Ada Quill was born in Łódź.",
        "عربية 👩‍🚀",
        "Steel is an alloy of iron.",
    ]
    passages = [Passage(f"Q{i}-0", f"Q{i}", "", 0, text) for i, text in enumerate(texts)]
    context = Context(StoredPassages.of(passages), tmp_path / "index", tmp_path / "cache", LOG, k=3)
    retriever = load_retriever(METHODS["dense"])
    retriever.build(context)
    questions = ["In what city was Ada Quill born?", "What is steel made of?", "", "\u200f\x00"]
    queries = [Query("d", str(i), text, "", ()) for i, text in enumerate(questions)]
    hits = retriever.search(context, queries)
    assert [hit.passage_id for hit in hits[0][:2]] == [
        "Q0-0",
        "Q1-0",
    ]  # the same text: the order of passage_id
    assert hits[1][0].passage_id == "Q3-0"
    assert [len(own) for own in hits] == [3, 3, 3, 3]
    vectors = ANSWER_ENCODER.load("cpu").encode([p.text_to_index for p in passages] + questions, LOG)
    products = vectors[4:] @ vectors[:4].T
    for own, expected in zip(hits, products, strict=True):
        for hit in own:
            assert abs(float(expected[int(hit.passage_id[1])]) - (hit.score or 0.0)) < 2e-6
