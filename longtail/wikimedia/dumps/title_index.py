"""Finds the lines of wanted titles among millions, without a Python loop over all lines.

The length and the last 16 bytes of a title are mixed into one number. Different titles may have the same number, so
the caller must compare the titles that are found.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

_SPACE, _NEWLINE = b" \n"
_FIELDS = 6
_TABLE_BITS = 20
_MIX = tuple(np.uint64(factor) for factor in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9))


class TitleIndex:
    """Wanted titles of one project, as its dump writes them (underscores, UTF-8).

    `start` is the beginning of the project's lines: 9 to 16 bytes, with a blank at the end.
    """

    def __init__(self, start: bytes, titles: Iterable[bytes]) -> None:
        self._start = start
        lines = [start + title for title in titles]
        ends = np.cumsum([len(line) for line in lines], dtype=np.int64)
        starts = ends - np.array([len(line) - len(start) for line in lines], dtype=np.int64)
        self._keys = np.unique(_keys(_words(b"".join(lines) + b" " * 8), starts, ends))
        # Most titles are not wanted. Reading one entry of a table shows this faster than a search.
        self._may_be = np.zeros(1 << _TABLE_BITS, dtype=bool)
        self._may_be[self._keys >> np.uint64(64 - _TABLE_BITS)] = True
        self._head = int.from_bytes(start[:8], "little"), int.from_bytes(start[-8:], "little")

    def lines(self, data: bytes) -> list[tuple[int, int]]:
        """(start, end) of the project's lines in `data` that may have a wanted title or do not have six fields."""
        bytes_ = np.frombuffer(data, dtype=np.uint8)
        ends = np.flatnonzero(bytes_ == _NEWLINE)
        blanks = np.append(np.flatnonzero(bytes_ == _SPACE), [len(data), len(data)])
        if not len(ends):
            return []
        starts = np.concatenate(([0], ends[:-1] + 1))
        first, n_blanks = _blanks_of_lines(blanks[:-2], starts, ends)
        words = _words(data + b" " * 8)
        is_ours = blanks[first] - starts == len(self._start) - 1
        is_ours &= (words[starts] == self._head[0]) & (n_blanks > 0)
        is_ours[is_ours] = words[blanks[first[is_ours]] - 7] == self._head[1]
        ours = np.flatnonzero(is_ours)
        has_all = n_blanks[ours] == _FIELDS - 1
        keys = _keys(words, blanks[first[ours]] + 1, np.minimum(blanks[first[ours] + 1], ends[ours]))
        is_wanted = self._may_be[keys >> np.uint64(64 - _TABLE_BITS)]
        likely = keys[is_wanted]
        places = np.minimum(np.searchsorted(self._keys, likely), len(self._keys) - 1)
        is_wanted[is_wanted] = self._keys[places] == likely
        found = ours[is_wanted | ~has_all]
        return list(zip(starts[found].tolist(), ends[found].tolist(), strict=True))


def _blanks_of_lines(
    blanks: np.ndarray, starts: np.ndarray, ends: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(index of its first blank, number of its blanks) of each line."""
    if len(blanks) == (_FIELDS - 1) * len(ends):
        rows = blanks.reshape(-1, _FIELDS - 1)
        if ((rows[:, 0] > starts) & (rows[:, -1] < ends)).all():  # nearly always true
            return np.arange(len(ends)) * (_FIELDS - 1), np.full(len(ends), _FIELDS - 1)
    first = np.searchsorted(blanks, starts)
    return first, np.searchsorted(blanks, ends) - first


def _words(data: bytes) -> np.ndarray:
    """The eight bytes from each position on, as a number."""
    return np.ndarray((len(data) - 7,), "<u8", data, 0, (1,))


def _keys(words: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Titles as numbers. The bytes before a short title are its project, which is the same for all titles."""
    lengths = (ends - starts).astype(np.uint64)
    before = np.where(lengths >= 8, words[np.maximum(ends - 16, 0)], np.uint64(0))
    return words[ends - 8] * _MIX[0] ^ before * _MIX[1] ^ lengths * _MIX[2]
