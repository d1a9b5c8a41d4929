"""The sandbox's world: entities, facts, articles, page views, and the pages of its encyclopaedia, all derived from (seed,
index).

Nothing is stored: any part can be computed alone, and a world of a million facts streams in bounded memory. The shipped
reference models have memorised the default world: a change of the derivation makes their weights useless, so a test
forbids it.

A link in the graph names an earlier title of an article. Some articles were moved to another title since then. The old
title redirects to the new one, and the views up to the month of the move are under the old title. As in Wikimedia's
counts, a reader who follows a redirect counts for the redirect's own title, in addition to the article's.

An article is a few plain sentences that state every fact of their subject. The first sentence names the subject; later
sentences mostly use pronouns, as in encyclopaedias.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from longtail.errors import LongtailError
from longtail.relations.relation import SOURCE_SET, Relation, enumerate_names, relation_set
from longtail.sandbox.labels import Labels, skewed
from longtail.sandbox.population import CLOSED_SETS, NAMESAKE, Permutation, Population, mix, uniform


@dataclass(frozen=True)
class WorldEntity:
    """One entity. `popularity` is the mean number of views per month that its article has or would have."""

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
    """The facts of one question: a subject, a relation, and all objects."""

    subject_id: str
    relation: Relation
    object_ids: tuple[str, ...]


class World:
    """A world of 16 × `facts_per_relation` questions; the same seed gives the same world.

    Reads are safe between threads. Entities and facts stream in bounded memory.
    """

    def __init__(self, seed: int = 0, facts_per_relation: int = 140) -> None:
        if facts_per_relation < 8:
            raise LongtailError(f"facts_per_relation is {facts_per_relation}: a world needs at least 8")
        self.seed = seed
        self.facts_per_relation = facts_per_relation
        self._relations = relation_set(SOURCE_SET)
        self._population = Population(seed, facts_per_relation)
        self._labels = Labels(self._population)
        self._draw = FactDraw(self._population, self._labels, facts_per_relation)

    @property
    def n_entities(self) -> int:
        """The number of identifiers in the world's range; some of them, for possible namesakes, do not exist."""
        return self._population.n_entities

    def _places(self) -> Iterator[tuple[str, int]]:
        """(kind, index) of every entity, in the order of identifiers."""
        for kind, size in self._population.sizes.items():
            for index in range(size):
                if self._labels.exists(kind, index):
                    yield kind, index

    def _locate(self, entity_id: str) -> tuple[str, int]:
        kind, index = self._population.locate(entity_id)
        if not self._labels.exists(kind, index):
            raise LongtailError(f"the sandbox world has no entity {entity_id!r}")
        return kind, index

    def entities(self) -> Iterator[WorldEntity]:
        """All entities, objects included, in the order of identifiers.

        Entities of kind `namesake` share the name of a popular entity and have an article, but no facts: their
        articles state what the graph does not have, since texts always contain more than a graph.
        """
        for kind, index in self._places():
            yield self._entity(kind, index)

    def entity(self, entity_id: str) -> WorldEntity:
        """The entity with that identifier. Errors: `LongtailError` if there is none."""
        return self._entity(*self._locate(entity_id))

    def label_of(self, entity_id: str) -> str:
        """Only the label: cheaper than `entity`."""
        return self._labels.label(*self._locate(entity_id))

    def _entity(self, kind: str, index: int) -> WorldEntity:
        popularity = self._population.popularity(kind, index)
        has_article = self._population.has_article(kind, index)
        spread = 0.7 + 0.7 * uniform(self.seed, 207, self._population.number(kind, index))
        return WorldEntity(
            entity_id=self._population.entity_id(kind, index),
            label=self._labels.label(kind, index),
            aliases=self._labels.aliases(kind, index),
            description=self._labels.description(kind, index),
            kind=kind,
            article_title=self._labels.title(kind, index) if has_article else None,
            popularity=popularity,
            sitelinks=max(1, round(spread * popularity**0.34)) if has_article else 0,
        )

    def facts_about(self, entity_id: str) -> tuple[Fact, ...]:
        """All facts with this subject, in the order of PopQA's relations."""
        kind, index = self._locate(entity_id)
        return tuple(
            self._fact(relation, kind, index)
            for relation in self._relations
            if self._draw.holds(relation, kind, index)
        )

    def facts(self) -> Iterator[Fact]:
        """One fact per (subject, relation): `facts_per_relation` of each relation, relation after relation."""
        for relation in self._relations:
            for kind, index in self._draw.subjects(relation):
                yield self._fact(relation, kind, index)

    def _fact(self, relation: Relation, kind: str, index: int) -> Fact:
        objects = self._draw.objects(relation, kind, index)
        object_ids = tuple(self._population.entity_id(relation.object_kind, other) for other in objects)
        return Fact(self._population.entity_id(kind, index), relation, object_ids)

    def triples(self) -> Iterator[Triple]:
        """One triple per (subject, relation, object)."""
        for fact in self.facts():
            for object_id in fact.object_ids:
                yield Triple(fact.subject_id, fact.relation.property_id, object_id)

    def monthly_views(self, entity_id: str, month: str) -> int | None:
        """Views of the entity's article in `month` (YYYY-MM, any month at all); None without an article."""
        kind, index = self._locate(entity_id)
        return self._population.monthly_views(kind, index, month)

    def article(self, entity_id: str) -> Article | None:
        """The entity's article; None if it has none."""
        kind, index = self._locate(entity_id)
        if not self._population.has_article(kind, index):
            return None
        draw = mix(self.seed, 501, self._population.number(kind, index))
        title = self._labels.title(kind, index)
        noun = None
        stated = self._stated(kind, index)
        if kind == NAMESAKE:
            noun = self._labels.description(kind, index)
            kind, index = self._population.namesake_of(index)
        is_female = kind == "person" and self._labels.is_female(index)
        return Article(
            title, article_text(self._labels.label(kind, index), kind, is_female, stated, draw, noun)
        )

    def _stated(self, kind: str, index: int) -> list[tuple[str, list[str]]]:
        """(relation, object labels) in the article: the entity's facts, or for a namesake the ones drawn for it."""
        is_namesake = kind == NAMESAKE
        if is_namesake:
            kind, index = self._population.namesake_of(index)
        objects = self._draw.stated_objects if is_namesake else self._draw.objects
        return [
            (
                relation.name,
                [self._labels.label(relation.object_kind, other) for other in objects(relation, kind, index)],
            )
            for relation in self._relations
            if self._draw.holds(relation, kind, index)
        ]

    def articles(self) -> Iterator[tuple[str, Article]]:
        """(entity_id, article) of every entity that has an article."""
        for kind, index in self._places():
            entity_id = self._population.entity_id(kind, index)
            article = self.article(entity_id)
            if article is not None:
                yield entity_id, article


_PLURAL = frozenset(
    ("occupation", "genre", "producer", "director", "screenwriter", "composer", "color", "sport", "author")
)
_SEVERAL_SHARE = 0.17  # share of the questions of plural relations: about 10 % of all questions


class FactDraw:
    """Draws the facts of a world: `facts_per_relation` subjects per relation, and the objects of each subject."""

    def __init__(self, population: Population, labels: Labels, facts_per_relation: int) -> None:
        self._population, self._labels, self._count = population, labels, facts_per_relation
        self._seed = population.seed
        relations = relation_set(SOURCE_SET)
        self._numbers = {relation.name: number for number, relation in enumerate(relations)}
        self._slots = {
            relation.name: Permutation(
                sum(population.sizes[kind] for kind in relation.subject_kinds), self._seed, 301, number
            )
            for number, relation in enumerate(relations)
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
        number, key = self._numbers[relation.name], self._population.number(kind, index)
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
        number, key = self._numbers[relation.name], self._population.number(kind, index)
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


_MOVED_TO = {
    "person": "biography",
    "film": "motion picture",
    "book": "written work",
    "city": "settlement",
    "region": "area",
    "cultivar": "plant",
}
_TOPIC = "topic"
SECTION = "In art"
_ONE_MOVED_OF = 40
_FIRST_MOVE, _MOVE_MONTHS = 2019, 60


@dataclass(frozen=True)
class Redirect:
    """A page that leads to an article, or to one section of it."""

    title: str
    section: str | None = None


class Pages:
    """The pages of a world, all derived from it. Reads are safe between threads.

    Memory holds the titles once one was looked up: about 300 bytes for each entity.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self._lock = threading.Lock()
        self._by_title: dict[str, str] = {}

    def _draw(self, entity: WorldEntity, what: int) -> int:
        return mix(self.world.seed, 601, what, int(entity.entity_id[1:]))

    def moved_in(self, entity: WorldEntity) -> str | None:
        """The month (YYYY-MM) in which the article was moved; None if it never was."""
        if entity.article_title is None or self._draw(entity, 1) % _ONE_MOVED_OF:
            return None
        month = self._draw(entity, 2) % _MOVE_MONTHS
        return f"{_FIRST_MOVE + month // 12}-{month % 12 + 1:02d}"

    def title(self, entity: WorldEntity) -> str | None:
        """The current title of the article."""
        if self.moved_in(entity) is None:
            return entity.article_title
        return f"{entity.article_title} ({_MOVED_TO.get(entity.kind, _TOPIC)})"

    def redirects(self, entity: WorldEntity) -> tuple[Redirect, ...]:
        """The pages that lead to the article; if it was moved, its old title is the first."""
        old = entity.article_title
        if old is None:
            return ()
        draw = self._draw(entity, 3)
        redirects = [Redirect(old)] if self.moved_in(entity) else []
        redirects += [Redirect(f"{old}, {entity.kind}")] if draw % 2 else []
        redirects += [Redirect(f'"{old}"')] if draw % 3 == 0 else []
        return (*redirects, *([Redirect(f"{old} in art", SECTION)] if draw % 8 == 0 else []))

    def counted(self, entity: WorldEntity, month: str) -> Iterator[tuple[str, int]]:
        """(title, views) of every title that leads to the article and was read in `month` (YYYY-MM)."""
        views, title = self.world.monthly_views(entity.entity_id, month), self.title(entity)
        if views is None or title is None:
            return
        moved = self.moved_in(entity)
        is_yet_to_move = moved is not None and month < moved
        yield (entity.article_title if is_yet_to_move else title) or title, views
        for place, redirect in enumerate(self.redirects(entity)):
            share = views * (1 + self._draw(entity, 4 + place) % 12) // 100
            if share and not (is_yet_to_move and redirect.title == entity.article_title):
                yield redirect.title, share

    def views(self, title: str, month: str) -> int | None:
        """Views under exactly this title in `month`; None without a count."""
        entity = self.entity(title)
        return dict(self.counted(entity, month)).get(title) if entity else None

    def entity(self, title: str) -> WorldEntity | None:
        """The entity to whose article the title leads. The first call reads all titles."""
        with self._lock:
            if not self._by_title:
                for entity in self.world.entities():
                    pages = (self.title(entity), *(redirect.title for redirect in self.redirects(entity)))
                    self._by_title |= dict.fromkeys(filter(None, pages), entity.entity_id)
        entity_id = self._by_title.get(title)
        return self.world.entity(entity_id) if entity_id else None

    def lead_to(self, title: str) -> tuple[str, str | None] | None:
        """(title, section) of the page that a reader sees at `title`; None if there is no such page."""
        entity = self.entity(title)
        if entity is None:
            return None
        sections = {redirect.title: redirect.section for redirect in self.redirects(entity)}
        return self.title(entity) or title, sections.get(title)

    def redirects_to(self, title: str) -> tuple[Redirect, ...]:
        """The redirects to the article at `title`."""
        entity = self.entity(title)
        return self.redirects(entity) if entity and self.title(entity) == title else ()


@dataclass(frozen=True)
class Article:
    """One article: `title` is unique in its world, `text` is a few sentences, mostly under 100 words."""

    title: str
    text: str


# {s} subject, {p} its possessive, {m} its object form, {o} the object's label.
_CLAUSES: dict[str, tuple[str, ...]] = {
    "occupation": ("{s} worked as {a} {o}", "{p} occupation was {a} {o}", "{s} became known as {a} {o}"),
    "place of birth": ("{s} was born in {o}", "{p} birthplace is {o}", "{s} came into the world in {o}"),
    "father": ("{p} father is {o}", "{o} is {p} father", "{s} is the child of a father named {o}"),
    "mother": ("{p} mother is {o}", "{o} is {p} mother", "{s} is the child of a mother named {o}"),
    "religion": ("{s} follows {o}", "{p} religion is {o}", "{s} belongs to {o}"),
    "sport": ("{s} competes in {o}", "{p} sport is {o}", "{s} took up {o} early"),
    "genre": ("{p} genre is {o}", "{s} belongs to the genre {o}", "{s} is a work of {o}"),
    "director": ("{s} was directed by {o}", "{o} directed {m}", "{p} director was {o}"),
    "producer": ("{s} was produced by {o}", "{o} produced {m}", "{p} producer was {o}"),
    "screenwriter": ("{p} screenplay was written by {o}", "{o} wrote {p} script", "{p} screenwriter was {o}"),
    "composer": ("{p} music was composed by {o}", "{o} composed {p} music", "{p} composer was {o}"),
    "author": ("{s} was written by {o}", "{o} wrote {m}", "{p} author is {o}"),
    "country": ("{s} is in {o}", "{s} lies in {o}", "{p} country is {o}"),
    "capital of": ("{s} is the capital of {o}", "{s} serves as the capital of {o}", "{s} is the seat of {o}"),
    "capital": ("{p} capital is {o}", "{o} is {p} capital", "{s} has {o} as its capital"),
    "color": ("{p} color is {o}", "{s} is {o}", "{p} flowers are {o}"),
}

_FILLERS: dict[str, tuple[str, ...]] = {
    "person": ("{s} kept a diary from {year} on", "{s} moved house in {year}"),
    "film": ("{s} runs for {number} minutes", "{s} was first shown in {year}"),
    "book": ("{s} has {number} pages", "{s} was first printed in {year}"),
    "city": ("{s} has {number} streets", "{s} was first mentioned in {year}"),
    "region": ("{s} has {number} villages", "{p} borders were drawn in {year}"),
    "cultivar": ("{s} grows to {number} centimetres", "{s} was first grown in {year}"),
}


def article_text(
    label: str,
    kind: str,
    is_female: bool,
    facts: Sequence[tuple[str, Sequence[str]]],
    draw: int,
    noun: str | None = None,
) -> str:
    """Three to five sentences on `label`; `facts` are (relation name, object labels).

    `draw` decides the wording; `noun` names what the subject is, if its kind alone does not.
    """
    noun = noun or ("garden flower" if kind == "cultivar" else kind)
    name = {"s": label, "p": f"{label}'s", "m": label}
    pronoun = {"s": "she", "p": "her", "m": "her"} if is_female else {"s": "he", "p": "his", "m": "him"}
    if kind != "person":
        pronoun = {"s": "it", "p": "its", "m": "it"}
    sentences = [f"{label} is {_article(noun)} {noun}"]
    clauses = [
        _clause(relation, objects, name if mix(draw, place, 1) % 4 == 0 else pronoun, mix(draw, place, 2))
        for place, (relation, objects) in enumerate(facts)
    ]
    if kind in _FILLERS and len(facts) < 4:
        filler = _FILLERS[kind][mix(draw, 3) % 2]
        clauses.insert(
            mix(draw, 4) % (len(clauses) + 1),
            filler.format(**pronoun, year=1900 + mix(draw, 5) % 110, number=20 + mix(draw, 6) % 400),
        )
    if kind not in _FILLERS:
        clauses = ["it is known in many countries", "many people care about it"]
    step = 2 if len(clauses) > 4 else 1
    for start in range(0, len(clauses), step):
        sentence = " and ".join(clauses[start : start + step])
        sentences.append(sentence[0].upper() + sentence[1:])
    return " ".join(f"{sentence}." for sentence in sentences)


def _clause(relation: str, objects: Sequence[str], words: Mapping[str, str], draw: int) -> str:
    shapes = _CLAUSES[relation]
    return shapes[draw % len(shapes)].format(**words, o=enumerate_names(objects), a=_article(objects[0]))


def _article(word: str) -> str:
    return "an" if word[0].lower() in "aeiou" else "a"
