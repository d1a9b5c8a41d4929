"""Texts as bytes, and their 25-grams as hashes, in pieces that fit in memory.

A text of any length is read in pieces: nothing here grows with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

NONE = np.empty(0, np.uint32)
"""An array that a compiled loop need not fill."""


@dataclass(frozen=True)
class Texts:
    """Texts, one after the other. `data`: uint8; `offsets`: int64[n + 1], where each begins."""

    data: np.ndarray
    offsets: np.ndarray

    @classmethod
    def of(cls, texts: Sequence[str]) -> Texts:
        """Texts of Python, also those with lone surrogates, which Arrow cannot hold."""
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
        offsets = np.concatenate([[0], np.cumsum([len(text_bytes) for text_bytes in encoded])]).astype(
            np.int64
        )
        return cls(np.frombuffer(b"".join(encoded), np.uint8), offsets)

    @classmethod
    def of_arrow(cls, column: pa.Array) -> Texts:
        """A column of texts, without a copy of its bytes; null is an empty text."""
        if not len(column):
            return cls.of([])
        column = column.cast(pa.large_string())
        _, offsets, data = column.buffers()
        places = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
        return cls(np.frombuffer(data, np.uint8) if data else np.empty(0, np.uint8), places)

    def __len__(self) -> int:
        return len(self.offsets) - 1


@dataclass(frozen=True)
class Piece:
    """Hashes of some grams, in order. `counts[i]`: the grams of text `first_text` + i among them. `is_open`: the last
    text goes on in the next piece. `firsts`, `lasts`: where a gram's characters are in its text, before normalisation.
    """

    hashes: np.ndarray
    firsts: np.ndarray
    lasts: np.ndarray
    first_text: int
    counts: np.ndarray
    is_open: bool


class Hasher:
    """Hashes grams into buffers of `room` grams, which every piece uses again."""

    def __init__(self, seed: int, room: int, *, has_places: bool = False) -> None:
        self._seed = np.uint64(seed)
        self._hashes = np.empty(room, np.uint64)
        self._firsts = np.empty(room if has_places else 0, np.uint32)
        self._lasts = np.empty(room if has_places else 0, np.uint32)

    def pieces(self, texts: Texts) -> Iterator[Piece]:
        """The grams of texts in their order; at least one piece where there is a text."""
        for begins, text, n, counts, is_open in self._fill_buffer(texts, 0):
            yield Piece(
                self._hashes[:n],
                self._firsts[:n],
                self._lasts[:n],
                begins,
                counts[begins : text + 1],
                is_open,
            )

    def full_pieces(self, batches: Iterable[Texts]) -> Iterator[np.ndarray]:
        """The hashes of all batches, in as few pieces as fit; a piece may hold grams of many batches."""
        n = 0
        for texts in batches:
            for _, _, filled, _, is_full in self._fill_buffer(texts, n):
                n = filled
                if is_full:
                    yield self._hashes[:n]
                    n = 0
        if n:
            yield self._hashes[:n]

    def _fill_buffer(self, texts: Texts, filled: int) -> Iterator[tuple[int, int, int, np.ndarray, bool]]:
        """(first text, last text, hashes in the buffer, grams of each text, whether there is more to read)."""
        from longtail.grounding import kernels

        state = np.zeros(kernels.STATE, np.uint64)
        text, at = 0, int(texts.offsets[0])
        while text < len(texts):
            begins, counts = text, np.zeros(len(texts), np.int64)
            text, at, n = kernels.hash_grams(
                texts.data,
                texts.offsets,
                text,
                at,
                state,
                self._seed,
                self._hashes[filled:],
                self._firsts[filled:],
                self._lasts[filled:],
                counts,
            )
            is_full = text < len(texts)
            yield begins, min(text, len(texts) - 1), filled + n, counts, is_full
            filled = 0
