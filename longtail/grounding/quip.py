"""QUIP-Score: the share of a text's 25-grams that a portrait has, and the spans that it quotes (SPEC §9)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from longtail.grounding.portrait import Portrait
from longtail.grounding.texts import Hasher, Texts

_ROOM = 1 << 22


@dataclass(frozen=True)
class Quotes:
    """Of n texts: `n_grams` and `n_quoted`, int64[n]; a text under 25 characters has no gram.

    Span i is the characters `starts[i]` to before `ends[i]` of text `texts[i]`, as it was before normalisation: a
    maximal run of grams that the portrait has: the text's grams from number `first_grams[i]`, as many as
    `span_grams[i]`. Spans are in the order of the texts.
    """

    n_grams: np.ndarray
    n_quoted: np.ndarray
    texts: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    first_grams: np.ndarray
    span_grams: np.ndarray

    @property
    def scores(self) -> np.ndarray:
        """QUIP of each text: float64[n], NaN where it is undefined."""
        with np.errstate(invalid="ignore"):
            return np.where(self.n_grams > 0, self.n_quoted / self.n_grams, np.nan)


class Scorer:
    """Scores texts against a portrait, in buffers that it uses again."""

    def __init__(self, portrait: Portrait, room: int = _ROOM) -> None:
        self._hasher = Hasher(portrait.plan.seed, room, has_places=True)
        self._find = portrait.finder(room)
        self._spans = np.empty((5, room), np.int64)

    def quotes(self, texts: Texts) -> Quotes:
        """Scores and spans of all texts."""
        from longtail.grounding import kernels

        n_grams, n_quoted = np.zeros(len(texts), np.int64), np.zeros(len(texts), np.int64)
        spans = [np.empty((5, 0), np.int64)]
        open_run = np.array([-1, -1, 0, 0])
        for piece in self._hasher.pieces(texts):
            found = self._find(piece.hashes)
            own = slice(piece.first_text, piece.first_text + len(piece.counts))
            n_grams[own] += piece.counts
            n_quoted[own] += _sums(found, piece.counts)
            n = kernels.runs(
                found, piece.counts, piece.firsts, piece.lasts, open_run, piece.is_open, self._spans
            )
            some = self._spans[:, :n].copy()
            some[0] += piece.first_text
            spans.append(some)
        return Quotes(n_grams, n_quoted, *np.concatenate(spans, axis=1))


def _sums(found: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The members among the grams of each text."""
    before = np.concatenate([[0], np.cumsum(found, dtype=np.int64)])
    ends = np.cumsum(counts)
    sums: np.ndarray = before[ends] - before[ends - counts]
    return sums
