"""The sandbox's names: one word stem per slot, from which labels and aliases are made.

Two slots never have the same label. `sandbox.labels` decides which entities share a name, and then asks for another
entity's name.
"""

from __future__ import annotations

import unicodedata

from longtail.sandbox.randomness import Permutation, mix
from longtail.sandbox.vocabulary import (
    FEMALE_NAMES,
    FLOWERS,
    MALE_NAMES,
    TITLE_ADJECTIVES,
    TITLE_NOUNS,
)

# A run of consonants is one onset and a run of vowels is one vowel. So a stem has only one reading: different
# syllables give different stems. This also holds with the endings below: their first consonant forms no
# onset with the coda before it.
_ONSETS = (
    "b",
    "br",
    "d",
    "dr",
    "f",
    "fl",
    "g",
    "gl",
    "h",
    "j",
    "k",
    "kr",
    "l",
    "m",
    "n",
    "p",
    "pl",
    "r",
    "s",
    "st",
    "t",
    "tr",
    "v",
    "z",
)
_VOWELS = ("a", "e", "i", "o", "u", "ai", "ou")
_CODAS = ("n", "l", "r", "s", "t", "m", "k", "d")
_SYLLABLES = len(_ONSETS) * len(_VOWELS)
_CITY_ENDINGS = ("", "ford", "burg", "ville", "gate")
_REGION_ENDINGS = ("ia", "land", "shire")
_COUNTRY_ENDINGS = ("vania", "mark", "gard")
_ACCENTED = {"a": "áäåã", "e": "éèëê", "i": "íïī", "o": "óöøō", "u": "úüūů"}
_CYRILLIC = dict(zip("abcdefghijklmnopqrstuvwxyz", "абкдефгхийклмнопкрстуввкиз", strict=True))

NAMED_KINDS = ("person", "film", "book", "city", "region", "cultivar", "country")


def ascii_fold(text: str) -> str:
    """`text` without diacritics: ø becomes o; letters of other scripts stay."""
    decomposed = unicodedata.normalize("NFKD", text.replace("ø", "o").replace("Ø", "O"))
    return "".join(char for char in decomposed if not unicodedata.combining(char))


def cyrillic(text: str) -> str:
    """`text` in Cyrillic letters: an alias in another script."""
    letters = (_CYRILLIC.get(char.lower(), char) for char in ascii_fold(text))
    return "".join(letters).title()


class Names:
    """Labels of the entities of one world. `sizes` is the number of entities of each named kind."""

    def __init__(self, seed: int, sizes: dict[str, int]) -> None:
        self._seed = seed
        largest = max(sizes[kind] for kind in NAMED_KINDS)
        slots = largest * len(NAMED_KINDS)
        self._length = 2
        while _SYLLABLES**self._length * len(_CODAS) < 2 * slots:
            self._length += 1
        self._stems = Permutation(_SYLLABLES**self._length * len(_CODAS), seed, 101)
        self._people = Permutation(sizes["person"], seed, 102)

    def is_female(self, index: int) -> bool:
        return self._people.forward(index) % 2 == 1

    def label(self, kind: str, index: int) -> str:
        """The label of entity `index` of a named kind."""
        if kind == "person":
            return self._person(index)
        stem = self._stem(kind, index)
        draw = mix(self._seed, 103, NAMED_KINDS.index(kind), index)
        if kind == "city":
            return stem + _CITY_ENDINGS[draw % len(_CITY_ENDINGS)]
        if kind == "region":
            return stem + _REGION_ENDINGS[draw % len(_REGION_ENDINGS)]
        if kind == "country":
            return stem + _COUNTRY_ENDINGS[draw % len(_COUNTRY_ENDINGS)]
        if kind == "cultivar":
            return f"{stem} {FLOWERS[draw % len(FLOWERS)]}"
        return _title(stem, draw)

    def _person(self, index: int) -> str:
        """First name and family name; up to four people of a world share a family name."""
        place = self._people.forward(index)
        family = self._stem("person", place // 4)
        first_names = FEMALE_NAMES if place % 2 else MALE_NAMES
        draw = mix(self._seed, 104, place // 4) + (place // 2 % 2) * 7
        return f"{first_names[draw % len(first_names)]} {family}"

    def _stem(self, kind: str, index: int) -> str:
        slot = index * len(NAMED_KINDS) + NAMED_KINDS.index(kind)
        code = self._stems.forward(slot)
        code, coda = divmod(code, len(_CODAS))
        parts = []
        for _ in range(self._length):
            code, syllable = divmod(code, _SYLLABLES)
            parts.append(_ONSETS[syllable // len(_VOWELS)] + _VOWELS[syllable % len(_VOWELS)])
        draw = mix(self._seed, 105, slot)
        if draw % 4 == 0:  # a longer name: its later syllables already make it unique
            extra = draw // 4 % _SYLLABLES
            parts.append(_ONSETS[extra // len(_VOWELS)] + _VOWELS[extra % len(_VOWELS)])
        stem = "".join(reversed(parts)) + _CODAS[coda]
        return _accent(stem, draw >> 16).capitalize()


def _accent(stem: str, draw: int) -> str:
    """One stem in eight gets a diacritic on its first vowel."""
    if draw % 8:
        return stem
    for place, char in enumerate(stem):
        if char in _ACCENTED:
            marks = _ACCENTED[char]
            return stem[:place] + marks[draw // 8 % len(marks)] + stem[place + 1 :]
    return stem


def _title(stem: str, draw: int) -> str:
    adjective = TITLE_ADJECTIVES[draw // 8 % len(TITLE_ADJECTIVES)]
    noun = TITLE_NOUNS[draw // 1024 % len(TITLE_NOUNS)]
    shapes = (
        f"The {adjective} {stem}",
        f"{stem} {noun}",
        f"The {noun} of {stem}",
        f"{adjective} {stem}",
        stem,
    )
    return shapes[draw % 8 % len(shapes)]
