"""Random passages: what a passage does to an answer that has nothing to do with the question (SPEC §4).

The draw is a hash of the study's seed and the question, so that neither the order of the questions nor the other
questions matter. The same passages give the same draw on every machine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from itertools import count, islice

from longtail.methods import CONDITION, RETRIEVAL, Method
from longtail.retrieval.base import Context, Hit, Query, Retriever

RETRIEVER = Method(
    "random",
    "a passage drawn at random stands before the question",
    RETRIEVAL,
    retriever=f"{__name__}:RandomPassages",
    is_seeded=True,
    passages=CONDITION,
)


class RandomPassages(Retriever):
    """`k` distinct passages for each question, each set and order as likely as any other; without a score."""

    def search(self, context: Context, queries: Sequence[Query]) -> list[list[Hit]]:
        import numpy as np

        n = len(context.passages)
        drawn = [
            list(islice(draws(context.seed, query.dataset, query.question_id, n), context.k))
            for query in queries
        ]
        ids = iter(context.passages.ids(np.array([row for rows in drawn for row in rows], dtype=np.int64)))
        return [[Hit(next(ids), None) for _ in rows] for rows in drawn]


def draws(seed: int, dataset: str, question_id: str, n: int) -> Iterator[int]:
    """All `n` rows, one after the other, in the order of the draw."""
    rows: set[int] = set()
    for number in count():
        if len(rows) == n:
            return
        text = f"{seed}\n{dataset}\n{question_id}\n{number}"
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
        row = int.from_bytes(digest[:8], "big") % n
        if row not in rows:
            rows.add(row)
            yield row
