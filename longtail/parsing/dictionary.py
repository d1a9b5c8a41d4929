"""Finds names of entities in a text by exact match: the longest match on word boundaries, ignoring letter case.

One pass over a text finds any number of names (Aho and Corasick, 1975).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import ahocorasick_rs

SHORTEST_NAME = 3  # characters; shorter texts ("It", "A") are usually words, not names
_WORDS = (
    "a about after again all also an and any are as at be been before but by can could did do does during each for"
    " from get got had has have he her him his how i if in into is it its just last made make many me more most much"
    " my new no not now of off on one only or other our out over own same she should so some than that the their them"
    " then there these they this those through to too two under until up us was we were what when where which while"
    " who whom whose why will with would year you your"
)
FUNCTION_WORDS = frozenset(_WORDS.split())
"""Words of questions. A name that has only such words (the band The Who) is not searched for: it looks like a
question."""


@dataclass(frozen=True)
class Mention:
    """A name in a text, as offsets in characters, with the ids of all entities that have this name, sorted."""

    start: int
    end: int
    spot: str
    ids: tuple[str, ...]


class Dictionary:
    """Names and the ids of the entities that have them, prepared for searching."""

    def __init__(self, names: Mapping[str, Iterable[str]]) -> None:
        folded: dict[str, set[str]] = {}
        for name, ids in names.items():
            if _is_name(text := _fold(name)[0]):
                folded.setdefault(text, set()).update(ids)
        self._ids = [tuple(sorted(ids)) for ids in folded.values()]
        self._automaton = ahocorasick_rs.AhoCorasick(list(folded)) if folded else None

    def __len__(self) -> int:
        return len(self._ids)

    def mentions(self, text: str) -> list[Mention]:
        """The names in `text` from left to right. Where names overlap, the one that starts first wins, then the
        longest."""
        if self._automaton is None:
            return []
        folded, places = _fold(text)
        found = self._automaton.find_matches_as_indexes(folded, overlapping=True)
        whole = (match for match in found if _is_whole(folded, match[1], match[2]))
        return [
            Mention(
                places[start], places[end - 1] + 1, text[places[start] : places[end - 1] + 1], self._ids[i]
            )
            for i, start, end in _leftmost_longest(whole)
        ]


def _leftmost_longest(matches: Iterable[tuple[int, int, int]]) -> Iterator[tuple[int, int, int]]:
    taken = 0
    for match in sorted(matches, key=lambda match: (match[1], -match[2])):
        if match[1] >= taken:
            taken = match[2]
            yield match


def _is_name(folded: str) -> bool:
    """Whether a name differs from the words of a question."""
    words = folded.split()
    return len(folded) >= SHORTEST_NAME and not all(word in FUNCTION_WORDS for word in words)


def _fold(text: str) -> tuple[str, list[int]]:
    """The text without letter case, and for each character its position in the original."""
    pieces = [char.casefold() for char in text]
    return "".join(pieces), [place for place, piece in enumerate(pieces) for _ in piece]


def _is_whole(text: str, start: int, end: int) -> bool:
    """Whether [start, end) neither starts nor ends inside a word."""
    before = start > 0 and _is_word(text[start - 1]) and _is_word(text[start])
    after = end < len(text) and _is_word(text[end]) and _is_word(text[end - 1])
    return not before and not after


def _is_word(char: str) -> bool:
    return char.isalnum() or bool(unicodedata.combining(char))
