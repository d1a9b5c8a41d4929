"""Random passages: what a passage does to an answer that has nothing to do with the question (SPEC §4).

What belongs here: the draw. It is a hash of the study's seed and the question, so that neither the order of the
questions nor the other questions matter. The same passages give the same draw on every machine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import count

import numpy as np

from dagster_project.core.retrieval.base import Context, Hit, Query, Retriever


class RandomPassages(Retriever):
    """`k` distinct passages for each question, each set and order as likely as any other; without a score."""

    def search(self, context: Context, queries: Sequence[Query]) -> list[list[Hit]]:
        n = len(context.passages)
        drawn = [
            drawn_rows(context.seed, query.dataset, query.question_id, n, context.k) for query in queries
        ]
        ids = iter(context.passages.ids(np.array([row for rows in drawn for row in rows], dtype=np.int64)))
        return [[Hit(next(ids), None) for _ in rows] for rows in drawn]


def drawn_rows(seed: int, dataset: str, question_id: str, n: int, k: int) -> list[int]:
    """`k` distinct rows of `n` (all of them where k is larger), in the order of the draw."""
    rows: dict[int, None] = {}
    for number in count():
        if len(rows) >= min(n, k):
            break
        text = f"{seed}\n{dataset}\n{question_id}\n{number}"
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
        rows.setdefault(int.from_bytes(digest[:8], "big") % n)
    return list(rows)
