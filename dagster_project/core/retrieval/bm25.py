"""BM25 (Lucene's variant, by bm25s) over title and text.

What belongs here: tokenisation, and ranking by all shards. What does not: the shards' files (`bm25_shards`), and where
indexes are kept (`indexes`).

score(q, d) = Σ over the query's tokens t of ln(1 + (N − n + ½)/(n + ½)) · f/(f + k₁(1 − b + b·|d|/avg|d|)),
where n passages hold t, and f is its count in d; k₁ = 1.5, b = 0.75. Tokens are runs of letters, marks and digits in
NFKC, case-folded. They are not stemmed, and stop words stay: recall@1 is 0.733 on the sandbox's 2,240 questions, and it
moves by less than half a point without stop words or with other usual k₁ and b.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import regex

from dagster_project.core.progress import Progress
from dagster_project.core.retrieval.base import Context, Hit, Query, Retriever
from dagster_project.core.retrieval.bm25_shards import K1, B, Shard, build_shards, open_shard
from dagster_project.core.threads import thread_count

_TOKEN = regex.compile(r"[\p{L}\p{N}\p{M}]+")
_BLOCK = 512  # scores whose maximum bounds the best k from below
_AT_ONCE = 64  # questions that one thread takes


def tokens_of(text: str) -> list[str]:
    """The tokens of a passage or a question."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    else:
        text = text.lower()
    return _TOKEN.findall(text)


class Bm25(Retriever):
    """BM25 as a `Retriever`. A passage that shares no token with the question is no hit."""

    def version(self) -> str:
        import bm25s

        return f"bm25s {bm25s.__version__}, k1 {K1}, b {B}"

    def build(self, context: Context) -> None:
        build_shards(context.passages, context.folder, tokens_of, context.log)

    def search(self, context: Context, queries: Sequence[Query]) -> list[list[Hit]]:
        tokens = [tokens_of(query.text) for query in queries]
        distinct = list(dict.fromkeys(token for own in tokens for token in own))
        place = {token: number for number, token in enumerate(distinct)}
        asked = [np.array([place[token] for token in own], dtype=np.int64) for own in tokens]
        best = [_Best.none() for _ in queries]
        starts = context.passages.starts
        with (
            Progress(context.log, "bm25: questions in shards", len(queries) * len(starts)) as progress,
            ThreadPoolExecutor(thread_count()) as threads,
        ):
            for number, start in enumerate(starts):
                shard = open_shard(context.folder, number, distinct, asked)

                def some(first: int, shard: Shard = shard, start: int = start) -> None:
                    scores = np.empty(shard.n_passages, dtype=np.float32)
                    for place in range(first, min(first + _AT_ONCE, len(queries))):
                        shard.score(asked[place], scores)
                        best[place] = best[place].joined(scores, start, context.k)
                        progress.add(1)

                for _ in threads.map(some, range(0, len(queries), _AT_ONCE)):
                    pass
        return _hits(context, best)


@dataclass(frozen=True)
class _Best:
    """The best passages of one question in the shards so far: rows of all passages, and scores, best first."""

    rows: np.ndarray
    scores: np.ndarray

    @classmethod
    def none(cls) -> _Best:
        return cls(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32))

    def joined(self, scores: np.ndarray, start: int, k: int) -> _Best:
        """With the scores of the next shard, whose rows begin at `start`. Of equal scores the lower row comes first."""
        floor = float(self.scores[-1]) if len(self.scores) == k else 0.0
        rows = best_rows(scores, k, floor)
        if not len(rows):
            return self
        all_rows = np.concatenate([self.rows, rows + start])
        all_scores = np.concatenate([self.scores, scores[rows]])
        order = np.argsort(-all_scores, kind="stable")[:k]
        return _Best(all_rows[order], all_scores[order])


def best_rows(scores: np.ndarray, k: int, floor: float = 0.0) -> np.ndarray:
    """Rows of the `k` largest scores above `floor`, best first; of equal scores the lower row comes first."""
    bound = _bound(scores, k)
    rows = np.flatnonzero(scores >= bound if bound > floor else scores > floor)
    if len(rows) > k:
        least = np.partition(scores[rows], -k)[-k]
        rows = rows[scores[rows] >= least]
    return rows[np.argsort(-scores[rows], kind="stable")][:k]


def _bound(scores: np.ndarray, k: int) -> float:
    """A score that at least `k` rows reach, as fast as reading all; -1 where blocks do not tell."""
    n_blocks = len(scores) // _BLOCK
    if n_blocks < k:
        return -1.0
    largest = scores[: n_blocks * _BLOCK].reshape(n_blocks, _BLOCK).max(axis=1)
    return float(np.partition(largest, -k)[-k])


def _hits(context: Context, best: Sequence[_Best]) -> list[list[Hit]]:
    rows = np.concatenate([one.rows for one in best]) if best else np.empty(0, dtype=np.int64)
    ids = iter(context.passages.ids(rows))
    return [[Hit(next(ids), float(score)) for score in one.scores] for one in best]
