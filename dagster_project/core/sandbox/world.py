"""The sandbox's world: entities, facts, page views and articles, all derived from (seed, index).

Here: which entities there are, how popular they are, who shares a name with whom, and which facts hold.
Nothing is stored: any part can be asked for at once, and a world of a million facts streams in bounded
memory. Not here: names (`names.py`), article texts (`articles.py`), N-Triples (`rdf.py`), the services that
serve the world (`server.py`). The shipped reference models know the default world by heart: a change of what
this module derives makes their weights worthless (`tests/core/sandbox/test_world.py` holds it fixed).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import exp, pi, sin
from pathlib import Path

from dagster_project.core.errors import LongtailError
from dagster_project.core.questions.relations import RELATIONS, Relation
from dagster_project.core.sandbox.articles import Article, article_text
from dagster_project.core.sandbox.names import NAMED_KINDS, Names, ascii_fold, cyrillic
from dagster_project.core.sandbox.randomness import Permutation, mix, normal, uniform
from dagster_project.core.sandbox.vocabulary import CLOSED_SETS

# Far above every identifier that Wikidata has given out, so that the two can never be mistaken.
FIRST_ENTITY_NUMBER = 9_000_000_000
N_COUNTRIES = 30
SHARED_KINDS = ("person", "film", "book", "city", "region", "cultivar")  # kinds that know namesakes
_PLURAL = frozenset(("occupation", "genre", "producer", "director", "screenwriter", "composer", "color", "sport",
                     "author"))
_KIND_NAMES = {"person": "person", "film": "film", "book": "novel", "city": "town", "region": "province",
               "cultivar": "cultivar"}


@dataclass(frozen=True)
class WorldEntity:
    """One entity. `popularity` is the mean number of views a month that its article has or would have."""

    entity_id: str
    label: str
    aliases: tuple[str, ...]
    description: str
    kind: str
    article_title: str | None
    popularity: float
    sitelinks: int


@dataclass(frozen=True)
class Triple:
    """One fact, by identifiers."""

    subject_id: str
    property_id: str
    object_id: str


@dataclass(frozen=True)
class Fact:
    """One question's worth of facts: a subject, a relation, and every object that holds of them."""

    subject_id: str
    relation: Relation
    object_ids: tuple[str, ...]


class World:
    """A world of 16 × `facts_per_relation` facts, the same for the same seed. Reads are safe between threads."""

    def __init__(self, seed: int = 0, facts_per_relation: int = 140) -> None:
        if facts_per_relation < 8:
            raise LongtailError(f"facts_per_relation is {facts_per_relation}: a world needs at least 8 per relation")
        self.seed = seed
        self.facts_per_relation = facts_per_relation
        named = {kind: facts_per_relation for kind in NAMED_KINDS}
        named["person"] = facts_per_relation + facts_per_relation // 7
        named["country"] = N_COUNTRIES
        self.sizes = {kind: len(words) for kind, words in CLOSED_SETS.items()}
        self.sizes["country"] = N_COUNTRIES
        self.sizes |= {kind: named[kind] for kind in SHARED_KINDS}
        self._starts: dict[str, int] = {}
        total = 0
        for kind, size in self.sizes.items():
            self._starts[kind] = total
            total += size
        self.n_entities = total
        self._names = Names(seed, named)
        self._slots = {relation.name: self._relation_slots(relation) for relation in RELATIONS}
        self._titles: dict[str, int] | None = None
        self._log_popularity = lru_cache(maxsize=65_536)(self._draw_log_popularity)

    # Identity -----------------------------------------------------------------------------------------------

    def entity_id(self, kind: str, index: int) -> str:
        return f"Q{FIRST_ENTITY_NUMBER + self._starts[kind] + index}"

    def _locate(self, entity_id: str) -> tuple[str, int]:
        digits = entity_id[1:]
        number = int(digits) - FIRST_ENTITY_NUMBER if entity_id[:1] == "Q" and digits.isdecimal() else -1
        if not 0 <= number < self.n_entities:
            raise LongtailError(f"the sandbox world has no entity {entity_id!r}")
        return self._at(number)

    def _at(self, number: int) -> tuple[str, int]:
        for kind, start in self._starts.items():
            if number < start + self.sizes[kind]:
                return kind, number - start
        raise AssertionError(number)

    # Popularity ---------------------------------------------------------------------------------------------

    def _draw_log_popularity(self, kind: str, index: int) -> float:
        draw = normal(self.seed, 201, self._starts[kind] + index)
        if kind in SHARED_KINDS:
            return min(max(3.4 + 1.25 * draw, 0.35), 7.15)
        return min(max(5.2 + 0.5 * draw, 3.5), 7.0)

    def popularity(self, kind: str, index: int) -> float:
        return float(10.0 ** self._log_popularity(kind, index))

    def _has_article(self, kind: str, index: int) -> bool:
        """About 2 % have none, all of them obscure."""
        obscure = self._log_popularity(kind, index) < 3.0
        return not (obscure and uniform(self.seed, 202, self._starts[kind] + index) < 0.06)

    # Names --------------------------------------------------------------------------------------------------

    def _name_owner(self, kind: str, index: int) -> tuple[str, int]:
        """The entity whose name this one bears: mostly itself. Popular names have namesakes more often."""
        if kind not in SHARED_KINDS:
            return kind, index
        first = index - index % 2
        if index % 2 and self._are_namesakes(kind, first):
            index = first
        if kind == "film" and index % 2 == 0 and uniform(self.seed, 203, index) < 0.08:
            return "book", index  # the film of the book
        return kind, index

    def _are_namesakes(self, kind: str, first: int) -> bool:
        if first + 1 >= self.sizes[kind]:
            return False
        top = max(self._log_popularity(kind, first), self._log_popularity(kind, first + 1))
        chance = min(max(0.04 + 0.17 * (top - 2.5), 0.03), 0.65)
        return uniform(self.seed, 204, self._starts[kind] + first) < chance

    def label(self, kind: str, index: int) -> str:
        kind, index = self._name_owner(kind, index)
        if kind in CLOSED_SETS:
            return CLOSED_SETS[kind][index][0]
        return self._names.label(kind, index)

    def _title(self, kind: str, index: int) -> str:
        """The article's title: the label, with what tells it apart in brackets where a namesake is better known."""
        label = self.label(kind, index)
        if kind not in SHARED_KINDS:
            return label
        first = index - index % 2
        other = first + (1 - index % 2)
        if self._are_namesakes(kind, first) and self._rank(kind, other) > self._rank(kind, index):
            return f"{label} ({self._qualifier(kind, index)})"
        return f"{label} (film)" if kind == "film" and self._name_owner(kind, index)[0] == "book" else label

    def _rank(self, kind: str, index: int) -> tuple[float, int]:
        return self._log_popularity(kind, index), -index

    def _year(self, kind: str, index: int) -> int:
        return 1920 + 2 * (mix(self.seed, 205, self._starts[kind] + index) % 45) + index % 2

    def _qualifier(self, kind: str, index: int) -> str:
        if kind == "person":
            return f"born {self._year(kind, index)}"
        if kind in ("film", "book"):
            return f"{self._year(kind, index)} {_KIND_NAMES[kind]}"
        return _KIND_NAMES[kind]

    def _aliases(self, kind: str, index: int) -> tuple[str, ...]:
        label = self.label(kind, index)
        draw = mix(self.seed, 206, self._starts[kind] + index)
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

    # Facts --------------------------------------------------------------------------------------------------

    def _relation_slots(self, relation: Relation) -> tuple[Permutation, tuple[str, ...]]:
        size = sum(self.sizes[kind] for kind in relation.subject_kinds)
        return Permutation(size, self.seed, 301, RELATIONS.index(relation)), relation.subject_kinds

    def _subjects(self, relation: Relation) -> Iterator[tuple[str, int]]:
        permutation, kinds = self._slots[relation.name]
        for place in range(self.facts_per_relation):
            slot = permutation.forward(place)
            for kind in kinds:
                if slot < self.sizes[kind]:
                    yield kind, slot
                    break
                slot -= self.sizes[kind]

    def _holds(self, relation: Relation, kind: str, index: int) -> bool:
        permutation, kinds = self._slots[relation.name]
        if kind not in kinds:
            return False
        slot = index + sum(self.sizes[other] for other in kinds[: kinds.index(kind)])
        return permutation.backward(slot) < self.facts_per_relation

    def _objects(self, relation: Relation, kind: str, index: int) -> tuple[int, ...]:
        """Indexes of the objects of a question, all of the relation's `object_kind`."""
        if relation.object_kind in ("region", "city") and relation.name != "place of birth":
            return (index,)  # region k and city k are each other's capital
        if relation.object_kind == "country":
            return (self._skewed(N_COUNTRIES, 1.6, 302, index),)  # the same for city k and region k
        number = RELATIONS.index(relation)
        key = self._starts[kind] + index
        count = 1
        if relation.name in _PLURAL and uniform(self.seed, 303, number, key) < 0.17:
            count = 2 + (mix(self.seed, 304, number, key) % 4 == 0)
        found: list[int] = []
        for attempt in range(400):
            candidate = self._candidate(relation, number, key, attempt)
            if candidate not in found and self._fits(relation, kind, index, candidate):
                found.append(candidate)
                if len(found) == count:
                    break
        return tuple(found)

    def _candidate(self, relation: Relation, number: int, key: int, attempt: int) -> int:
        kind = relation.object_kind
        if kind in CLOSED_SETS:
            return self._skewed(self.sizes[kind], 1.8, 305, number, key, attempt)
        pair = (mix(self.seed, 306, number, key, attempt, side) % self.sizes[kind] for side in (0, 1))
        return max(pair, key=lambda index: self._log_popularity(kind, index))

    def _skewed(self, size: int, power: float, *keys: int) -> int:
        return int(size * uniform(self.seed, *keys) ** power)

    def _fits(self, relation: Relation, kind: str, index: int, candidate: int) -> bool:
        if relation.object_kind != "person":
            return True
        if kind == "person" and candidate // 2 == index // 2:
            return False  # nobody is their own parent, nor their namesake's
        if relation.name in ("father", "mother"):
            return self._is_female(candidate) == (relation.name == "mother")
        return True

    def _is_female(self, index: int) -> bool:
        return self._names.is_female(self._name_owner("person", index)[1])

    def facts_about(self, entity_id: str) -> tuple[Fact, ...]:
        """Every fact with this subject, in the order of `RELATIONS`."""
        kind, index = self._locate(entity_id)
        return tuple(self._fact(relation, kind, index) for relation in RELATIONS
                     if kind in relation.subject_kinds and self._holds(relation, kind, index))

    def _fact(self, relation: Relation, kind: str, index: int) -> Fact:
        objects = self._objects(relation, kind, index)
        object_ids = tuple(self.entity_id(relation.object_kind, other) for other in objects)
        return Fact(self.entity_id(kind, index), relation, object_ids)

    def facts(self) -> Iterator[Fact]:
        """One per (subject, relation): `facts_per_relation` of each relation, relation after relation."""
        for relation in RELATIONS:
            for kind, index in self._subjects(relation):
                yield self._fact(relation, kind, index)

    def triples(self) -> Iterator[Triple]:
        """One per (subject, relation, object)."""
        for fact in self.facts():
            for object_id in fact.object_ids:
                yield Triple(fact.subject_id, fact.relation.property_id, object_id)

    # Entities -----------------------------------------------------------------------------------------------

    def entities(self) -> Iterator[WorldEntity]:
        """All entities, objects included, in the order of their identifiers."""
        for kind, size in self.sizes.items():
            for index in range(size):
                yield self._entity(kind, index)

    def entity(self, entity_id: str) -> WorldEntity:
        """The entity of that identifier; `LongtailError` where there is none."""
        return self._entity(*self._locate(entity_id))

    def label_of(self, entity_id: str) -> str:
        """The label alone: cheaper than `entity`."""
        return self.label(*self._locate(entity_id))

    def entity_by_title(self, title: str) -> WorldEntity | None:
        """The entity whose article has this title. The first call reads all titles once."""
        if self._titles is None:
            self._titles = {self._title(*self._at(number)): number for number in range(self.n_entities)
                            if self._has_article(*self._at(number))}
        number = self._titles.get(title)
        return None if number is None else self._entity(*self._at(number))

    def _entity(self, kind: str, index: int) -> WorldEntity:
        popularity = self.popularity(kind, index)
        has_article = self._has_article(kind, index)
        spread = 0.7 + 0.7 * uniform(self.seed, 207, self._starts[kind] + index)
        return WorldEntity(
            entity_id=self.entity_id(kind, index),
            label=self.label(kind, index),
            aliases=self._aliases(kind, index),
            description=self._description(kind, index),
            kind=kind,
            article_title=self._title(kind, index) if has_article else None,
            popularity=popularity,
            sitelinks=max(1, round(spread * popularity**0.34)) if has_article else 0,
        )

    def _description(self, kind: str, index: int) -> str:
        if kind in ("film", "book"):
            return f"{self._year(kind, index)} {_KIND_NAMES[kind]}"
        if kind in ("city", "region"):
            country = self._skewed(N_COUNTRIES, 1.6, 302, index)
            return f"{kind} in {self.label('country', country)}"
        return f"person born in {self._year(kind, index)}" if kind == "person" else kind

    # Page views ---------------------------------------------------------------------------------------------

    def monthly_views(self, entity_id: str, month: str) -> int | None:
        """Views of the entity's article in `month` (YYYY-MM, any month at all); None without an article."""
        kind, index = self._locate(entity_id)
        if not self._has_article(kind, index):
            return None
        number = _month_number(month)
        key = self._starts[kind] + index
        season, trend = (2 * pi * uniform(self.seed, 401, key, part) for part in (0, 1))
        drift = 0.2 * sin(2 * pi * number / 12 + season) + 0.25 * sin(2 * pi * number / 41 + trend)
        drift += 0.12 * normal(self.seed, 402, key, number)
        popularity = self.popularity(kind, index)
        if popularity < 60 and uniform(self.seed, 403, key, number) < 0.06:
            return 0
        return round(popularity * exp(drift - 0.03))

    # Articles -----------------------------------------------------------------------------------------------

    def article(self, entity_id: str) -> Article | None:
        """The entity's article; None where it has none."""
        kind, index = self._locate(entity_id)
        if not self._has_article(kind, index):
            return None
        facts = [(fact.relation.name, [self.label_of(object_id) for object_id in fact.object_ids])
                 for fact in self.facts_about(entity_id)]
        is_female = kind == "person" and self._is_female(index)
        draw = mix(self.seed, 501, self._starts[kind] + index)
        return Article(self._title(kind, index), article_text(self.label(kind, index), kind, is_female, facts, draw))

    def articles(self) -> Iterator[tuple[str, Article]]:
        """(entity_id, article) of every entity that has an article."""
        for number in range(self.n_entities):
            entity_id = f"Q{FIRST_ENTITY_NUMBER + number}"
            article = self.article(entity_id)
            if article is not None:
                yield entity_id, article

    def write_ntriples(self, path: Path) -> int:
        """Write the world as N-Triples, in the shapes of Wikidata's RDF; returns the number of lines."""
        from dagster_project.core.sandbox.rdf import write_ntriples

        return write_ntriples(self, path)


def _month_number(month: str) -> int:
    year, _, part = month.partition("-")
    if not (len(year) == 4 and year.isdecimal() and len(part) == 2 and part.isdecimal() and 1 <= int(part) <= 12):
        raise LongtailError(f"month {month!r} is not of the form YYYY-MM")
    return int(year) * 12 + int(part) - 1
