"""Lines of N-Triples as arrays: tests many lines at once for the bytes at a position, without a Python loop.

Eight bytes are compared at once, as one number. Eight digits are parsed at once, by arithmetic on the number that
their bytes form (the first digit in the lowest byte).
"""

from __future__ import annotations

import numpy as np

from longtail.parsing.line_files import Chunk

ENTITY = "http://www.wikidata.org/entity/"
ITEM = f"<{ENTITY}Q".encode()
_WORD = 8
_HIGH_BITS, _ONE_LESS = np.uint64(0x8080808080808080), np.uint64(0x7F7F7F7F7F7F7F7F)
_ZEROS, _PAST_NINE = np.uint64(0x3030303030303030), np.uint64(0x7676767676767676)
_MOST_DIGITS = 16
_DOT, _BLANK, _TAB, _CARRIAGE, _NEWLINE, _LESS, _UNDERSCORE = b". \t\r\n<_"


class Lines:
    """The lines of a chunk. `starts` and `ends` hold each line's limits without its line break (CR LF is one)."""

    def __init__(self, chunk: Chunk) -> None:
        self.bytes = chunk.array
        self._last_word = max(0, len(self.bytes) - _WORD)
        padded = chunk.view if len(self.bytes) >= _WORD else bytes(chunk.view) + bytes(_WORD)
        self._words = np.ndarray((max(1, len(self.bytes) - _WORD + 1),), "<u8", padded, 0, (1,))
        self.breaks = chunk.line_breaks
        self.starts = np.concatenate(([0], self.breaks[:-1] + 1)) if len(self.breaks) else self.breaks
        self.ends = self.breaks
        before = self.bytes[np.maximum(self.breaks - 1, 0)]
        if (has_return := (before == _CARRIAGE) & (self.breaks > self.starts)).any():
            self.ends = self.breaks - has_return

    def words(self, at: np.ndarray) -> np.ndarray:
        """The eight bytes from each position on, as a number; near the end of the chunk, its last eight bytes."""
        return self._words[np.minimum(at, self._last_word)]

    def holds(self, at: np.ndarray, text: bytes, last_only: bool = False) -> np.ndarray:
        """Whether `text`, of at least eight bytes, is at each position; `last_only`: compare only its last eight
        bytes."""
        found = at + len(text) <= len(self.bytes)
        for offset in (*(() if last_only else range(0, len(text) - _WORD, _WORD)), len(text) - _WORD):
            found &= self.words(at + offset) == int.from_bytes(text[offset : offset + _WORD], "little")
        return found

    def end_with(self, text: bytes, which: np.ndarray | slice = slice(None)) -> np.ndarray:
        """Whether each line, or each of `which`, ends with `text`, of at most eight bytes."""
        ends = self.ends[which]
        shift = np.uint64(8 * (_WORD - len(text)))
        tails = self._words[np.clip(ends - _WORD, 0, self._last_word)] >> shift
        return (tails == int.from_bytes(text, "little")) & (ends - self.starts[which] >= _WORD)

    def numbers(self, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(number, count of its digits) at each position. The count is 0 for no number, a leading 0, or too many
        digits."""
        first = self.words(at) ^ _ZEROS
        n_first = _leading_digits(first)
        values, widths = _value(first, n_first), n_first
        longer = np.flatnonzero(n_first == _WORD)
        if len(longer):
            second = self.words(at[longer] + _WORD) ^ _ZEROS
            n_second = _leading_digits(second)
            values[longer] = values[longer] * 10**n_second + _value(second, n_second)
            widths[longer] += n_second
        is_number = ((first & np.uint64(0xFF)) != 0) & (widths < _MOST_DIGITS)
        is_number &= at + _MOST_DIGITS <= len(self.bytes)  # beyond this, the bytes belong to another position
        return values, np.where(is_number, widths, 0)

    def odd(self) -> np.ndarray:
        """Indexes of the lines that do not start like a triple or do not end in a blank and a dot."""
        if not len(self.starts):
            return self.starts
        begins = self.bytes[self.starts]
        last = self.bytes[np.maximum(self.ends - 1, 0)]
        blank = self.bytes[np.maximum(self.ends - 2, 0)]
        before = self.bytes[np.maximum(self.ends - 3, 0)]
        is_plain = (begins == _LESS) | (begins == _UNDERSCORE)
        is_plain &= (last == _DOT) & (blank == _BLANK) & (before != _BLANK) & (before != _TAB)
        is_plain &= self.ends - self.starts > _WORD
        return np.flatnonzero(~is_plain)


def _leading_digits(words: np.ndarray) -> np.ndarray:
    """The number of leading bytes that are 0 to 9."""
    no_digit = (((words & _ONE_LESS) + _PAST_NINE) | words) & _HIGH_BITS
    lowest = no_digit & (~no_digit + np.uint64(1))
    return (np.bitwise_count(lowest - np.uint64(1)) >> 3).astype(np.int64)


def _value(words: np.ndarray, n_digits: np.ndarray) -> np.ndarray:
    """The number in the first `n_digits` bytes of each word."""
    digits = words << (np.uint64(8) * (_WORD - n_digits).astype(np.uint64))
    pairs = digits * np.uint64(10) + (digits >> np.uint64(8)) & np.uint64(0x00FF00FF00FF00FF)
    fours = pairs * np.uint64(100) + (pairs >> np.uint64(16)) & np.uint64(0x0000FFFF0000FFFF)
    eights = fours * np.uint64(10_000) + (fours >> np.uint64(32)) & np.uint64(0x00000000FFFFFFFF)
    return eights.astype(np.int64)
