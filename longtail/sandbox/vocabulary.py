"""The sandbox's fixed words: closed sets of answers, first names, and parts of titles.

Closed sets are ordered from common to rare; each entry is a label with its aliases.
"""

from __future__ import annotations

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
