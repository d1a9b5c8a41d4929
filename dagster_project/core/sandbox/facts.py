"""The facts of the sandbox's world: which subject has which relation, and its objects."""

from __future__ import annotations

from collections.abc import Iterator

from dagster_project.core.relations.popqa import RELATIONS
from dagster_project.core.relations.relation import Relation
from dagster_project.core.sandbox.labels import Labels, skewed
from dagster_project.core.sandbox.population import Population
from dagster_project.core.sandbox.randomness import Permutation, mix, uniform
from dagster_project.core.sandbox.vocabulary import CLOSED_SETS

_PLURAL = frozenset(
    ("occupation", "genre", "producer", "director", "screenwriter", "composer", "color", "sport", "author")
)
_SEVERAL_SHARE = 0.17  # share of the questions of plural relations: about 10 % of all questions
_NUMBERS = {relation.name: number for number, relation in enumerate(RELATIONS)}


class FactDraw:
    """Draws the facts of a world: `facts_per_relation` subjects per relation, and the objects of each subject."""

    def __init__(self, population: Population, labels: Labels, facts_per_relation: int) -> None:
        self._population, self._labels, self._count = population, labels, facts_per_relation
        self._seed = population.seed
        self._slots = {
            relation.name: Permutation(
                sum(population.sizes[kind] for kind in relation.subject_kinds), self._seed, 301, number
            )
            for number, relation in enumerate(RELATIONS)
        }

    def subjects(self, relation: Relation) -> Iterator[tuple[str, int]]:
        """The (kind, index) pairs of entities that have the relation."""
        permutation = self._slots[relation.name]
        for place in range(self._count):
            slot = permutation.forward(place)
            for kind in relation.subject_kinds:
                if slot < self._population.sizes[kind]:
                    yield kind, slot
                    break
                slot -= self._population.sizes[kind]

    def holds(self, relation: Relation, kind: str, index: int) -> bool:
        """Whether the entity is one of the relation's subjects."""
        kinds = relation.subject_kinds
        if kind not in kinds:
            return False
        slot = index + sum(self._population.sizes[other] for other in kinds[: kinds.index(kind)])
        return self._slots[relation.name].backward(slot) < self._count

    def objects(self, relation: Relation, kind: str, index: int) -> tuple[int, ...]:
        """Indexes of a question's objects, all of the relation's `object_kind`: at least one, each once."""
        if relation.name in ("capital", "capital of"):
            return (index,)  # region k and city k are each other's capital
        if relation.name == "country":
            return (self._labels.country_of(index),)
        number, key = _NUMBERS[relation.name], self._population.number(kind, index)
        count = 1
        if relation.name in _PLURAL and uniform(self._seed, 303, number, key) < _SEVERAL_SHARE:
            count = 2 + (mix(self._seed, 304, number, key) % 4 == 0)
        found: list[int] = []
        for attempt in range(400):
            candidate = self._candidate(relation, number, key, attempt)
            if candidate not in found and self._fits(relation, kind, index, candidate):
                found.append(candidate)
                if len(found) == count:
                    break
        return tuple(found)

    def stated_objects(self, relation: Relation, kind: str, index: int) -> tuple[int, ...]:
        """The object that an article about a namesake of the entity states instead: one object from another draw."""
        number, key = _NUMBERS[relation.name], self._population.number(kind, index)
        if relation.object_kind in CLOSED_SETS or relation.object_kind == "person":
            return (self._candidate(relation, number, key, 1000),)
        return (mix(self._seed, 307, number, key) % self._population.sizes[relation.object_kind],)

    def _candidate(self, relation: Relation, number: int, key: int, attempt: int) -> int:
        """One candidate object: common values of closed sets come more often; of two entities, the more popular one."""
        kind = relation.object_kind
        size = self._population.sizes[kind]
        if kind in CLOSED_SETS:
            return skewed(size, 1.8, self._seed, 305, number, key, attempt)
        pair = (mix(self._seed, 306, number, key, attempt, side) % size for side in (0, 1))
        return max(pair, key=lambda index: self._population.log_popularity(kind, index))

    def _fits(self, relation: Relation, kind: str, index: int, candidate: int) -> bool:
        if relation.object_kind != "person":
            return True
        if kind == "person" and candidate // 2 == index // 2:
            return False  # no person is their own parent, or the parent of their namesake
        if relation.name in ("father", "mother"):
            return self._labels.is_female(candidate) == (relation.name == "mother")
        return True
