"""The weights of BM25's variants, as bm25s defines them (Kamphuis et al., 2020: Which BM25 Do You Mean?).

score(q, d) = Σ over the query's tokens t of idf(t) · tf(t, d), where n of N passages hold t, and f is its count in d. For
Lucene idf = ln(1 + (N − n + ½)/(n + ½)) and tf = f/(f + k₁(1 − b + b·|d|/avg|d|)). BM25L and BM25+ give a passage without
the token a weight, too. The files hold only what a passage has above that weight, which is the same for all passages.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from longtail.retrieval.retrievers.bm25 import Bm25Settings

_IDF: Mapping[str, Callable[[int, int], float]] = {
    "lucene": lambda n, of: math.log(1 + (of - n + 0.5) / (n + 0.5)),
    "robertson": lambda n, of: math.log(max(1.0, (of - n + 0.5) / (n + 0.5))),
    "atire": lambda n, of: math.log(of / n),
    "bm25l": lambda n, of: math.log((of + 1) / (n + 0.5)),
    "bm25+": lambda n, of: math.log((of + 1) / n),
}


def idf(settings: Bm25Settings, frequencies: np.ndarray, n_passages: int) -> np.ndarray:
    """The weight of tokens by the number of passages that have them, in float32 as bm25s keeps it."""
    distinct, places = np.unique(frequencies, return_inverse=True)
    weights = [_IDF[settings.variant](n, n_passages) for n in distinct.tolist()]
    return np.array(weights, dtype=np.float32)[places]


def share(settings: Bm25Settings, counts: np.ndarray, lengths: np.ndarray, mean: float) -> np.ndarray:
    """tf: by what idf is multiplied, less what a passage without the token has (`share_without`).

    `counts`: of a token in a passage, not 0. `lengths`: of that passage, in tokens; `mean`: that of all passages.
    """
    k1, b, delta = settings.k1, settings.b, settings.delta
    norm = (1 - b) + b * lengths / mean
    if settings.variant == "bm25l":
        scaled = counts / norm + delta
        return (k1 + 1) * scaled / (k1 + scaled) - share_without(settings)
    found: np.ndarray = counts / (k1 * norm + counts)
    return found if settings.variant in ("lucene", "robertson") else (k1 + 1) * found


def share_without(settings: Bm25Settings) -> float:
    """tf of a passage without the token: 0 but for BM25L and BM25+."""
    k1, delta = settings.k1, settings.delta
    if settings.variant == "bm25l":
        return (k1 + 1) * delta / (k1 + delta)
    return delta if settings.variant == "bm25+" else 0.0
