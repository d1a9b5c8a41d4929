"""Hybrid retrieval: the ranks that other retrievers give, fused (SPEC §4).

score(d) = Σ over the fused retrievers that found passage d of 1/(60 + rank of d), ranks from 1 (Cormack, Clarke and
Büttcher, 2009: Reciprocal Rank Fusion). A study keeps `top_k` passages of each retriever, and so that many are fused.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction

from longtail.methods import FUSED, RETRIEVAL, Method
from longtail.retrieval.base import Context, Hit, Query, Retriever

RETRIEVER = Method(
    "hybrid",
    "the best passage by the ranks that the study's other retrievers give stands before the question",
    RETRIEVAL,
    retriever=f"{__name__}:Hybrid",
    passages=FUSED,
)
RANK_OFFSET = 60


class Hybrid(Retriever):
    """Reciprocal rank fusion as a `Retriever`. A passage that no fused retriever found is no hit."""

    def search(self, context: Context, queries: Sequence[Query]) -> list[list[Hit]]:
        others = (context.others or {}).values()
        return [fuse([other.get(query.key, ()) for other in others], context.k) for query in queries]


def fuse(rankings: Sequence[Sequence[str]], k: int) -> list[Hit]:
    """The `k` best passages of several rankings (passage ids, best first); equal scores go by passage_id."""
    scores: dict[str, Fraction] = defaultdict(Fraction)  # exact: a sum of floats depends on its order
    for ranking in rankings:
        for rank, passage_id in enumerate(ranking, start=1):
            scores[passage_id] += Fraction(1, RANK_OFFSET + rank)
    best = sorted(scores, key=lambda passage_id: (-scores[passage_id], passage_id))[:k]
    return [Hit(passage_id, float(scores[passage_id])) for passage_id in best]
