"""Questions whose subject, or subject and answer, stand in a text: one Aho-Corasick pass over it finds all names.

Names and answers are compared word by word, as DPR's rule compares answers (`scoring.match`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import ahocorasick_rs

from longtail.scoring.match import dpr_tokens


@dataclass(frozen=True)
class Asked:
    """A question: names of its entity and its gold answers, each as words joined by spaces, and how it is named."""

    names: frozenset[str]
    answers: frozenset[str]
    named_by: str | None


def as_words(texts: Iterable[str]) -> frozenset[str]:
    """Each text as words joined by spaces; those without a word are left out."""
    return frozenset(words for text in texts if (words := dpr_tokens(text)))


class Phrases:
    """The names and answers of n questions, to be found in texts."""

    def __init__(self, asked: Sequence[Asked]) -> None:
        self._asked = asked
        self._of_name: dict[str, list[int]] = defaultdict(list)
        for place, one in enumerate(asked):
            for name in one.names:
                self._of_name[name].append(place)
        self._phrases = sorted({*self._of_name, *(answer for one in asked for answer in one.answers)})
        self._automaton = ahocorasick_rs.AhoCorasick([f" {phrase} " for phrase in self._phrases])

    def found(self, words: str) -> set[str]:
        """The phrases in a text, which is given as words joined by spaces."""
        matches = self._automaton.find_matches_as_indexes(f" {words} ", overlapping=True)
        return {self._phrases[number] for number, _, _ in matches}

    def named(self, found: Iterable[str]) -> set[int]:
        """The places, in 0 … n - 1, of the questions with a name among these phrases."""
        return {place for phrase in found for place in self._of_name.get(phrase, ())}

    def with_answer(self, named: Iterable[int], found: set[str]) -> list[int]:
        """Those of the places `named` whose question also has an answer among these phrases."""
        return [place for place in named if not self._asked[place].answers.isdisjoint(found)]
