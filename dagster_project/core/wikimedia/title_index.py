"""Finding the lines of wanted titles among millions, without a look at each line in Python.

What belongs here: the fields of well-formed lines as arrays, and titles as numbers. What does not: what a line
says, and broken ones (`pageview_dumps`).

A title is known by its length and its last 16 bytes, mixed into one number. Different titles may share a number:
whoever asks compares the titles that are found.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

_SPACE, _NEWLINE = b" \n"
_FIELDS = 6
_MIX = tuple(np.uint64(factor) for factor in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9))


class TitleIndex:
    """Wanted titles of one project, as its dump writes them (underscores, UTF-8).

    `start` is what the project's lines begin with: 9 to 16 bytes, a blank at their end.
    """

    def __init__(self, start: bytes, titles: Iterable[bytes]) -> None:
        self._start = start
        lines = [start + title for title in titles]
        ends = np.cumsum([len(line) for line in lines], dtype=np.int64)
        starts = ends - np.array([len(line) - len(start) for line in lines], dtype=np.int64)
        self._keys = np.unique(_keys(_words(b"".join(lines) + b" " * 8), starts, ends))
        self._head = int.from_bytes(start[:8], "little"), int.from_bytes(start[-8:], "little")

    def lines(self, data: bytes) -> list[tuple[int, int]] | None:
        """(start, end) of the lines of `data` that may be of a wanted title; None if not all have six fields."""
        bytes_ = np.frombuffer(data, dtype=np.uint8)
        ends = np.flatnonzero(bytes_ == _NEWLINE)
        all_blanks = np.flatnonzero(bytes_ == _SPACE)
        if len(all_blanks) != (_FIELDS - 1) * len(ends):
            return None
        blanks = all_blanks.reshape(-1, _FIELDS - 1)
        starts = np.concatenate(([0], ends[:-1] + 1))
        if not ((blanks[:, 0] > starts) & (blanks[:, -1] < ends)).all():
            return None
        words = _words(data + b" " * 8)
        is_ours = blanks[:, 0] - starts == len(self._start) - 1
        is_ours &= words[starts] == self._head[0]
        is_ours[is_ours] = words[blanks[is_ours, 0] - 7] == self._head[1]
        ours = np.flatnonzero(is_ours)
        keys = _keys(words, blanks[ours, 0] + 1, blanks[ours, 1])
        places = np.minimum(np.searchsorted(self._keys, keys), max(0, len(self._keys) - 1))
        found = ours[self._keys[places] == keys] if len(self._keys) else ours[:0]
        return list(zip(starts[found].tolist(), ends[found].tolist(), strict=True))


def _words(data: bytes) -> np.ndarray:
    """The eight bytes from each place on, as a number."""
    return np.ndarray((len(data) - 7,), "<u8", data, 0, (1,))


def _keys(words: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Titles as numbers. Before a short title stands its project, which is the same for all."""
    lengths = (ends - starts).astype(np.uint64)
    before = np.where(lengths >= 8, words[np.maximum(ends - 16, 0)], np.uint64(0))
    return words[ends - 8] * _MIX[0] ^ before * _MIX[1] ^ lengths * _MIX[2]
