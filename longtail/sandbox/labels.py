"""The names of entities in the sandbox's world: labels, namesakes, titles, aliases, descriptions.

A name has one word stem per slot, and two slots never have the same label. `Labels` decides which entities share one.
"""

from __future__ import annotations

import unicodedata

from longtail.sandbox.population import (
    CLOSED_SETS,
    FEMALE_NAMES,
    FLOWERS,
    MALE_NAMES,
    N_COUNTRIES,
    NAMESAKE,
    SHARED_KINDS,
    TITLE_ADJECTIVES,
    TITLE_NOUNS,
    Permutation,
    Population,
    mix,
    uniform,
)

# A run of consonants is one onset and a run of vowels is one vowel. So a stem has only one reading: different
# syllables give different stems. This also holds with the endings below: their first consonant forms no
# onset with the coda before it.
_WRITTEN_ONSETS = "b br d dr f fl g gl h j k kr l m n p pl r s st t tr v z"
_ONSETS = tuple(_WRITTEN_ONSETS.split())
_VOWELS = ("a", "e", "i", "o", "u", "ai", "ou")
_CODAS = ("n", "l", "r", "s", "t", "m", "k", "d")
_SYLLABLES = len(_ONSETS) * len(_VOWELS)
_CITY_ENDINGS = ("", "ford", "burg", "ville", "gate")
_REGION_ENDINGS = ("ia", "land", "shire")
_COUNTRY_ENDINGS = ("vania", "mark", "gard")
_ACCENTED = {"a": "áäåã", "e": "éèëê", "i": "íïī", "o": "óöøō", "u": "úüūů"}
_CYRILLIC = dict(zip("abcdefghijklmnopqrstuvwxyz", "абкдефгхийклмнопкрстуввкиз", strict=True))

NAMED_KINDS = ("person", "film", "book", "city", "region", "cultivar", "country")

_QUALIFIERS = {
    "person": "person",
    "film": "film",
    "book": "novel",
    "city": "town",
    "region": "province",
    "cultivar": "cultivar",
}
# For each kind: what an article-only namesake of such an entity is.
NAMESAKE_NOUNS = {
    "person": "athlete",
    "film": "television series",
    "book": "play",
    "city": "village",
    "region": "district",
    "cultivar": "shrub",
}


def ascii_fold(text: str) -> str:
    """`text` without diacritics: ø becomes o; letters of other scripts stay."""
    decomposed = unicodedata.normalize("NFKD", text.replace("ø", "o").replace("Ø", "O"))
    return "".join(char for char in decomposed if not unicodedata.combining(char))


def cyrillic(text: str) -> str:
    """`text` in Cyrillic letters: an alias in another script."""
    letters = (_CYRILLIC.get(char.lower(), char) for char in ascii_fold(text))
    return "".join(letters).title()


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


def skewed(size: int, power: float, *keys: int) -> int:
    """An index below `size`; low indexes are more frequent."""
    return int(size * uniform(*keys) ** power)


class Labels:
    """Names of the entities of a population. Entities 2k and 2k + 1 of a kind may be namesakes."""

    def __init__(self, population: Population) -> None:
        self._population = population
        self._seed = population.seed
        largest = max(population.sizes[kind] for kind in NAMED_KINDS)
        slots = largest * len(NAMED_KINDS)
        self._length = 2
        while _SYLLABLES**self._length * len(_CODAS) < 2 * slots:
            self._length += 1
        self._stems = Permutation(_SYLLABLES**self._length * len(_CODAS), population.seed, 101)
        self._people = Permutation(population.sizes["person"], population.seed, 102)

    def exists(self, kind: str, index: int) -> bool:
        """Whether the entity exists: popular names alone have an article-only namesake, and at most one."""
        if kind != NAMESAKE:
            return True
        kind, first = self._population.namesake_of(index)
        if self._name_owner(kind, first)[1] != first:
            return False
        top = self._population.log_popularity(kind, first)
        if first % 2 == 0 and self._are_namesakes(kind, first):
            top = max(top, self._population.log_popularity(kind, first + 1))
        chance = min(max(0.45 * (top - 3.2), 0.0), 0.9)
        return uniform(self._seed, 208, self._population.number(kind, first)) < chance

    def label(self, kind: str, index: int) -> str:
        if kind == NAMESAKE:
            kind, index = self._population.namesake_of(index)
        kind, index = self._name_owner(kind, index)
        if kind in CLOSED_SETS:
            return CLOSED_SETS[kind][index][0]
        return self._own_label(kind, index)

    def _name_owner(self, kind: str, index: int) -> tuple[str, int]:
        """The entity whose name this one has: usually itself."""
        if kind not in SHARED_KINDS:
            return kind, index
        first = index - index % 2
        if index % 2 and self._are_namesakes(kind, first):
            index = first
        if kind == "film" and index % 2 == 0 and uniform(self._seed, 203, index) < 0.08:
            return "book", index  # the film has the name of the book
        return kind, index

    def _are_namesakes(self, kind: str, first: int) -> bool:
        """Whether `first` and the next entity share a name. This is likelier if the better known of them is more
        popular."""
        if first + 1 >= self._population.sizes[kind]:
            return False
        top = max(
            self._population.log_popularity(kind, first), self._population.log_popularity(kind, first + 1)
        )
        chance = min(max(0.04 + 0.17 * (top - 2.5), 0.03), 0.65)
        return uniform(self._seed, 204, self._population.number(kind, first)) < chance

    def title(self, kind: str, index: int) -> str:
        """The article's title: the label, with an addition in brackets if a namesake is better known."""
        label = self.label(kind, index)
        if kind == NAMESAKE:
            return f"{label} ({self.description(kind, index)})"
        if kind not in SHARED_KINDS:
            return label
        first = index - index % 2
        other = first + (1 - index % 2)
        if self._are_namesakes(kind, first) and self._rank(kind, other) > self._rank(kind, index):
            return f"{label} ({self._qualifier(kind, index)})"
        return f"{label} (film)" if kind == "film" and self._name_owner(kind, index)[0] == "book" else label

    def _rank(self, kind: str, index: int) -> tuple[float, int]:
        return self._population.log_popularity(kind, index), -index

    def _year(self, kind: str, index: int) -> int:
        return 1920 + 2 * (mix(self._seed, 205, self._population.number(kind, index)) % 45) + index % 2

    def _qualifier(self, kind: str, index: int) -> str:
        if kind == "person":
            return f"born {self._year(kind, index)}"
        if kind in ("film", "book"):
            return f"{self._year(kind, index)} {_QUALIFIERS[kind]}"
        return _QUALIFIERS[kind]

    def aliases(self, kind: str, index: int) -> tuple[str, ...]:
        """Other names: without diacritics, shortened, in Cyrillic, or synonyms. The label is not among them."""
        label = self.label(kind, index)
        draw = mix(self._seed, 206, self._population.number(kind, index))
        found = list(CLOSED_SETS[kind][index][1:]) if kind in CLOSED_SETS else [ascii_fold(label)]
        if kind == "person" and draw % 2:
            first, family = label.split(" ", 1)
            found.append(f"{first[0]}. {family}")
        if kind in ("film", "book") and label.startswith("The "):
            found.append(label[4:])
        if kind == "country":
            found.append(f"Republic of {label}")
        if kind == "city" and draw % 4 == 0:
            found.append(f"City of {label}")
        if kind == "region" and draw % 4 == 0:
            found.append(f"{label} Province")
        if kind in NAMED_KINDS and draw % 10 == 0:
            found.append(cyrillic(label))
        return tuple(dict.fromkeys(alias for alias in found if alias != label))

    def description(self, kind: str, index: int) -> str:
        if kind == NAMESAKE:
            return NAMESAKE_NOUNS[self._population.namesake_of(index)[0]]
        if kind in ("film", "book"):
            return f"{self._year(kind, index)} {_QUALIFIERS[kind]}"
        if kind in ("city", "region"):
            return f"{kind} in {self.label('country', self.country_of(index))}"
        return f"person born in {self._year(kind, index)}" if kind == "person" else kind

    def country_of(self, index: int) -> int:
        """The country of city `index`, and of region `index`, whose capital that city is."""
        return skewed(N_COUNTRIES, 1.6, self._seed, 302, index)

    def is_female(self, index: int) -> bool:
        """Whether the person with that index is a woman, as the first name says."""
        return self._people.forward(self._name_owner("person", index)[1]) % 2 == 1

    def _own_label(self, kind: str, index: int) -> str:
        """The label that entity `index` of a named kind has, or would have if it did not share another's."""
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
