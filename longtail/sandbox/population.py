"""The entities of the sandbox's world: kinds, identifiers, popularity, page views; keyed random numbers, and fixed words.

Closed sets of answers are ordered from common to rare; each entry is a label with its aliases.
"""

from __future__ import annotations

from functools import lru_cache
from math import exp, gcd, pi, sin
from statistics import NormalDist

from longtail.errors import LongtailError

_MASK = (1 << 64) - 1
_NORMAL = NormalDist()


def mix(*keys: int) -> int:
    """64 well-mixed bits from integers (the finaliser of SplitMix64, applied key after key)."""
    state = 0x9E3779B97F4A7C15
    for key in keys:
        state = (state + key * 0xD1342543DE82EF95 + 0x9E3779B97F4A7C15) & _MASK
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
        state ^= state >> 31
    return state


def uniform(*keys: int) -> float:
    """A number in (0, 1), never at either end."""
    return ((mix(*keys) >> 11) + 0.5) / (1 << 53)


def normal(*keys: int) -> float:
    """A standard normal number."""
    return _NORMAL.inv_cdf(uniform(*keys))


class Permutation:
    """A keyed affine permutation of range(size): forwards and backwards in constant time and memory."""

    def __init__(self, size: int, *keys: int) -> None:
        self.size = size
        factor = (int(size * 0.6180339887) + mix(*keys, 1) % max(size // 4, 1)) | 1
        while gcd(factor, size) != 1:
            factor += 1
        self._factor = factor % size or 1
        self._shift = mix(*keys, 2) % size
        self._inverse = pow(self._factor, -1, size) if size > 1 else 0

    def forward(self, index: int) -> int:
        return (index * self._factor + self._shift) % self.size

    def backward(self, index: int) -> int:
        return ((index - self._shift) * self._inverse) % self.size


_CLOSED_SETS = {
    "occupation": (
        "actor / player of roles, politician / statesman, writer / man of letters, singer / vocalist, painter, "
        "journalist / reporter, physician / doctor, lawyer / attorney, engineer, teacher / schoolteacher, "
        "composer, poet, historian, architect, photographer, economist, chemist, pilot / aviator, judge, "
        "farmer, sculptor, botanist, astronomer, diplomat, librarian, geologist, dancer, tailor, watchmaker, "
        "beekeeper"
    ),
    "genre": (
        "drama, comedy, thriller / suspense, romance, horror, science fiction / sci-fi, fantasy, adventure, "
        "mystery / whodunit, western, satire, biography, war, fairy tale, musical, tragedy, ghost story, "
        "travelogue, parody, fable, epic, melodrama, noir, pastoral"
    ),
    "color": (
        "red / crimson, white, yellow, pink, blue / azure, purple / violet, orange, green, black, brown, gray "
        "/ grey, gold / golden"
    ),
    "religion": (
        "Christianity / Christian faith, Islam, Buddhism, Hinduism, Judaism, Sikhism, Taoism / Daoism, Shinto, "
        "Jainism, Confucianism, Zoroastrianism, Animism"
    ),
    "sport": (
        "football / soccer, basketball, tennis, cricket, swimming, boxing, rugby, baseball, chess, golf, "
        "hockey, volleyball, cycling, fencing, rowing, wrestling, skiing, judo, archery, curling"
    ),
}
CLOSED_SETS: dict[str, tuple[tuple[str, ...], ...]] = {
    kind: tuple(tuple(names.split(" / ")) for names in text.split(", "))
    for kind, text in _CLOSED_SETS.items()
}

_FEMALE_NAMES = (
    "Ada Agnes Alma Amina Anita Beate Bella Cecilia Clara Daria Delia Edith Elena Emma Esra Fatima Flora Freya "
    "Greta Hana Hedda Ida Ingrid Iris Jana Julia Karin Keiko Laila Leonor Lucia Maja Maria Mei Mina Nadia Nora "
    "Olga Paula Renée Rosa Sara Selma Sofia Tamar Vera Yara Zoë"
)
_MALE_NAMES = (
    "Adam Ahmed Anton Arne Aron Boris Bruno Carlo Cyril Daniel Diego Edgar Emil Erik Felix Finn Goran Hugo "
    "Ibrahim Igor Ivan Jan Jonas José Kaito Karl Kofi Lars Leo Luca Marco Martin Milan Nils Omar Oscar Pavel "
    "Pedro Rafael Rolf Samuel Simon Søren Tomas Viktor Walter Yusuf Zoltan"
)
_TITLE_ADJECTIVES = (
    "Silent Golden Last Broken Hidden Distant Burning Lost Gentle Frozen Secret Bitter Eternal Empty Bright "
    "Second"
)
_TITLE_NOUNS = (
    "Harbour Garden Shadow Winter River Promise Island Letter Mirror Bridge Night Song Crown Road Tower Storm"
)

FEMALE_NAMES = tuple(_FEMALE_NAMES.split())
MALE_NAMES = tuple(_MALE_NAMES.split())
TITLE_ADJECTIVES = tuple(_TITLE_ADJECTIVES.split())
TITLE_NOUNS = tuple(_TITLE_NOUNS.split())
FLOWERS = ("Rose", "Tulip", "Lily", "Dahlia", "Orchid", "Peony")


# Far above every identifier of Wikidata, so that nobody can confuse the two.
FIRST_ENTITY_NUMBER = 9_000_000_000
N_COUNTRIES = 30
SHARED_KINDS = ("person", "film", "book", "city", "region", "cultivar")  # with questions, may have namesakes
NAMESAKE = "namesake"  # no question is about these: they share a popular name and have an article


class Population:
    """The entities of a world as (kind, index) pairs; `facts_per_relation` sets the size of each kind.

    Every index below a kind's size is an entity. For kind `namesake`, index i either shares the name of the i-th
    entity of `SHARED_KINDS` or does not exist (`sandbox.labels` decides).
    """

    def __init__(self, seed: int, facts_per_relation: int) -> None:
        self.seed = seed
        self.sizes = {kind: len(words) for kind, words in CLOSED_SETS.items()} | {"country": N_COUNTRIES}
        self.sizes |= dict.fromkeys(SHARED_KINDS, facts_per_relation)
        self.sizes["person"] += facts_per_relation // 7
        self.sizes[NAMESAKE] = sum(self.sizes[kind] for kind in SHARED_KINDS)
        self._starts: dict[str, int] = {}
        self.n_entities = 0
        for kind, size in self.sizes.items():
            self._starts[kind] = self.n_entities
            self.n_entities += size
        self.log_popularity = lru_cache(maxsize=65_536)(self._draw_log_popularity)

    def number(self, kind: str, index: int) -> int:
        """The entity's position among all entities of the world, from 0."""
        return self._starts[kind] + index

    def entity_id(self, kind: str, index: int) -> str:
        return f"Q{FIRST_ENTITY_NUMBER + self.number(kind, index)}"

    def locate(self, entity_id: str) -> tuple[str, int]:
        """(kind, index) of an identifier. Errors: `LongtailError` if the world has no such entity."""
        digits = entity_id[1:]
        is_id = entity_id[:1] == "Q" and digits.isascii() and digits.isdecimal()
        number = int(digits) - FIRST_ENTITY_NUMBER if is_id else -1
        if not 0 <= number < self.n_entities:
            raise LongtailError(
                f"the sandbox world has no entity {entity_id!r}: its identifiers are "
                f"Q{FIRST_ENTITY_NUMBER} to Q{FIRST_ENTITY_NUMBER + self.n_entities - 1}"
            )
        return self.at(number)

    def at(self, number: int) -> tuple[str, int]:
        """(kind, index) of the entity at that position."""
        for kind, start in self._starts.items():
            if number < start + self.sizes[kind]:
                return kind, number - start
        raise IndexError(number)

    def namesake_of(self, index: int) -> tuple[str, int]:
        """(kind, index) of the entity whose name the namesake `index` shares."""
        return self.at(self._starts[SHARED_KINDS[0]] + index)

    def _draw_log_popularity(self, kind: str, index: int) -> float:
        """log10 of the mean monthly views: six decades for subjects of questions, high for closed sets."""
        draw = normal(self.seed, 201, self.number(kind, index))
        if kind == NAMESAKE:
            return max(self.log_popularity(*self.namesake_of(index)) - 1 - abs(draw) / 2, 0.35)
        if kind in SHARED_KINDS:
            return min(max(3.4 + 1.25 * draw, 0.35), 7.15)
        return min(max(5.2 + 0.5 * draw, 3.5), 7.0)

    def popularity(self, kind: str, index: int) -> float:
        return float(10.0 ** self.log_popularity(kind, index))

    def has_article(self, kind: str, index: int) -> bool:
        """About 2 % have no article; these are obscure and are not namesakes."""
        is_obscure = kind != NAMESAKE and self.log_popularity(kind, index) < 3.0
        return not (is_obscure and uniform(self.seed, 202, self.number(kind, index)) < 0.06)

    def monthly_views(self, kind: str, index: int, month: str) -> int | None:
        """Views of the article in `month`: seasons, a slow trend, noise, and sometimes none at all."""
        number = month_number(month)
        if not self.has_article(kind, index):
            return None
        key = self.number(kind, index)
        season, trend = (2 * pi * uniform(self.seed, 401, key, part) for part in (0, 1))
        drift = 0.2 * sin(2 * pi * number / 12 + season) + 0.25 * sin(2 * pi * number / 41 + trend)
        drift += 0.12 * normal(self.seed, 402, key, number)
        popularity = self.popularity(kind, index)
        if popularity < 60 and uniform(self.seed, 403, key, number) < 0.06:
            return 0
        return round(popularity * exp(drift - 0.03))


def month_number(month: str) -> int:
    """Months since year 0 of `YYYY-MM`. Errors: `LongtailError` for anything else."""
    year, _, part = month.partition("-")
    is_plain = month.isascii() and year.isdecimal() and part.isdecimal()
    if not (is_plain and len(year) == 4 and len(part) == 2 and 1 <= int(part) <= 12):
        raise LongtailError(f"month {month!r} is not of the form YYYY-MM")
    return int(year) * 12 + int(part) - 1
