"""Training samples of the Fusion-in-Decoder reference model: a cloze query, its passages, and the object."""

from __future__ import annotations

import random
from bisect import bisect
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from longtail.relations.cloze import article_before_object, fill_subject, pararel_patterns, put_sentinel
from longtail.sandbox.world import World
from tools.reference_models.pararel import select_facts
from tools.reference_models.samples import EXPOSURE_EXPONENT
from tools.reference_models.search import Search, name_of, passage_of

FOUND = 0.5
"""Share of the wrong passages that BM25 finds for the query."""


@dataclass(frozen=True)
class ClozeFact:
    """A fact as texts: its relation's property, subject and object, the subject's passage, if it has an article, and the
    subject's popularity."""

    property_id: str
    subject: str
    answer: str
    passage: str | None
    popularity: float


@dataclass(frozen=True)
class Cloze:
    """What the model reads (a query and its passages) and what it has to write behind the sentinel.

    `right` is the place of the subject's own passage, in training samples that have it.
    """

    query: str
    passages: tuple[str, ...]
    answer: str
    right: int | None = None


def cloze_facts(world: World) -> list[ClozeFact]:
    """The facts of the world's ParaRel-like dataset."""
    passages = {entity_id: passage_of(one.title, one.text) for entity_id, one in world.articles()}
    return [
        ClozeFact(
            fact.relation.property_id,
            subject.label,
            world.label_of(fact.object_ids[0]),
            passages.get(fact.subject_id),
            subject.popularity,
        )
        for fact in select_facts(world)
        for subject in (world.entity(fact.subject_id),)
    ]


def queries_of(fact: ClozeFact) -> list[str]:
    """What the model reads of each pattern of the fact's relation; not those whose a or an does not fit the object."""
    fitting = "an" if fact.answer[0].lower() in "aeiou" else "a"
    return [
        put_sentinel(fill_subject(one.pattern, fact.subject))
        for one in pararel_patterns()[fact.property_id]
        if article_before_object(one.pattern) in (None, fitting)
    ]


class ClozeSampler:
    """Draws samples: facts of `known` are to be remembered, worlds of `fresh` are for learning to read."""

    def __init__(self, known: Sequence[ClozeFact], fresh: Sequence[World], seed: int) -> None:
        self._rng = random.Random(seed)
        self._known = known
        self._exposure = list(accumulate(fact.popularity**EXPOSURE_EXPONENT for fact in known))
        self._fresh: list[tuple[ClozeFact, Search]] = []
        self._cohesive: dict[str, list[str]] = defaultdict(list)
        for world in fresh:
            search = Search(world)
            self._fresh += [(fact, search) for fact in cloze_facts(world) if fact.passage]
        for fact, _ in self._fresh:
            self._cohesive[fact.property_id].append(fact.passage or "")

    def remembered(self, count: int) -> list[Cloze]:
        """Known facts without passages; popular subjects are more frequent."""
        total = self._exposure[-1]
        facts = [self._known[bisect(self._exposure, self._rng.random() * total)] for _ in range(count)]
        return [Cloze(self._query(fact), (), fact.answer) for fact in facts]

    def read(self, count: int, n_passages: int) -> list[Cloze]:
        """Fresh facts with the subject's passage among others, in any place."""
        return [self._read(*chosen, n_passages) for chosen in self._rng.choices(self._fresh, k=count)]

    def _read(self, fact: ClozeFact, search: Search, n_passages: int) -> Cloze:
        """Half of the other passages are among BM25's first, the others are about subjects of the relation."""
        query, own = self._query(fact), fact.passage or ""
        found = [one for one in search.find([query], 2 * n_passages)[0] if name_of(one) != fact.subject]
        self._rng.shuffle(found)
        passages = [own]
        while len(passages) < n_passages:
            is_found = found and self._rng.random() < FOUND
            other = found.pop() if is_found else self._rng.choice(self._cohesive[fact.property_id])
            if name_of(other) != fact.subject and other not in passages:
                passages.append(other)
        self._rng.shuffle(passages)
        return Cloze(query, tuple(passages), fact.answer, passages.index(own))

    def _query(self, fact: ClozeFact) -> str:
        return self._rng.choice(queries_of(fact)[:-1])
