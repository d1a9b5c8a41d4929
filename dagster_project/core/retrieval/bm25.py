"""BM25 (Lucene's variant, by bm25s) over title and text.

What belongs here: tokenisation, the index's files, and ranking. What does not: where indexes are kept
(`indexes`).

score(q, d) = Σ over the query's tokens t of ln(1 + (N − n + ½)/(n + ½)) · f/(f + k₁(1 − b + b·|d|/avg|d|)),
where n passages hold t, and f is its count in d; k₁ = 1.5, b = 0.75. Tokens are runs of letters, marks and digits in
NFKC, case-folded. They are not stemmed, and stop words stay: recall@1 is 0.733 on the sandbox's 2,240 questions, and it
moves by less than half a point without stop words or with other usual k₁ and b.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import regex

from dagster_project.core.progress import Progress
from dagster_project.core.retrieval.base import Context, Hit, Query, Retriever

K1 = 1.5
B = 0.75
_TOKEN = regex.compile(r"[\p{L}\p{N}\p{M}]+")


def tokens_of(text: str) -> list[str]:
    """The tokens of a passage or a question."""
    return _TOKEN.findall(unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold()))


class Bm25(Retriever):
    """BM25 as a `Retriever`. A passage that shares no token with the question is no hit."""

    def version(self) -> str:
        import bm25s

        return f"bm25s {bm25s.__version__}, k1 {K1}, b {B}"

    def build(self, context: Context) -> None:
        # Tokens are numbered by first appearance: bm25s would number them in the order of a salted hash. Token ""
        # occurs in no passage. It keeps the matrix valid where no passage has any token.
        vocabulary = {"": 0}
        identifiers = [
            [vocabulary.setdefault(token, len(vocabulary)) for token in tokens_of(passage.indexed_text)]
            for passage in context.passages
        ]
        index = _empty_index()
        with np.errstate(invalid="ignore"):  # 0/0 for "" where all passages are empty
            index.index((identifiers, vocabulary), create_empty_token=False, show_progress=False)
        index.save(context.folder, show_progress=False)
        _check_whole(context.folder)
        context.log.info("bm25: %d passages, %d distinct tokens", len(context.passages), len(vocabulary) - 1)

    def search(self, context: Context, queries: Sequence[Query]) -> list[list[Hit]]:
        index = _load(context.folder)
        found = []
        progress = Progress(context.log, "bm25: questions", len(queries))
        for query in queries:
            scores = index.get_scores_from_ids(index.get_tokens_ids(tokens_of(query.text)))
            rows = best_rows(scores, context.k)
            found.append([Hit(context.passages[row].passage_id, float(scores[row])) for row in rows])
            progress.add(1)
        progress.done()
        return found


def best_rows(scores: np.ndarray, k: int) -> list[int]:
    """Rows of the `k` largest scores above 0, best first; of equal scores the lower row comes first."""
    if k < len(scores):
        least = np.partition(scores, -k)[-k]
        rows = np.flatnonzero((scores >= least) & (scores > 0))
    else:
        rows = np.flatnonzero(scores > 0)
    ordered = rows[np.argsort(-scores[rows], kind="stable")]
    return [int(row) for row in ordered[:k]]


def _check_whole(folder: Path) -> None:
    """Errors: `OSError` where an array is cut: numpy is silent where a disk has no room for a file's last bytes."""
    try:
        _load(folder)
    except (ValueError, EOFError) as error:
        raise OSError(f"the disk is full, an array was cut: {error}") from error


def _load(folder: Path) -> Any:
    import bm25s

    return bm25s.BM25.load(folder, mmap=True, allow_pickle=False, show_progress=False)


def _empty_index() -> Any:
    import bm25s

    return bm25s.BM25(k1=K1, b=B, method="lucene", dtype="float32", backend="numpy", csc_backend="numpy")
