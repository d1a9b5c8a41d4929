"""Training samples of the Fusion-in-Decoder reference model: a cloze query, its passages, and the object.

What belongs here: which queries meet which passages. What does not: the patterns (`sandbox.pararel`), and the
optimisation (`training.fusion`).
"""

from __future__ import annotations

import random
from bisect import bisect
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from dagster_project.core.cloze import article_before_object, filled, with_sentinel
from dagster_project.core.sandbox.pararel import PATTERNS, asked_facts
from dagster_project.core.sandbox.training.samples import EXPOSURE_EXPONENT
from dagster_project.core.sandbox.world import World


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
    """What the model reads (a query and its passages) and what it has to write behind the sentinel."""

    query: str
    passages: tuple[str, ...]
    answer: str


def passage_of(title: str, text: str) -> str:
    """A passage as a Fusion-in-Decoder reader gets it."""
    return f"title: {title} context: {text}"


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
        for fact in asked_facts(world)
        for subject in (world.entity(fact.subject_id),)
    ]


def queries_of(fact: ClozeFact) -> list[str]:
    """What the model reads of each pattern of the fact's relation; not those whose a or an does not fit the object."""
    fitting = "an" if fact.answer[0].lower() in "aeiou" else "a"
    return [
        with_sentinel(filled(one.pattern, fact.subject))
        for one in PATTERNS[fact.property_id]
        if article_before_object(one.pattern) in (None, fitting)
    ]


class ClozeSampler:
    """Draws samples: facts of `known` are to be remembered, `fresh` is for learning to read."""

    def __init__(self, known: Sequence[ClozeFact], fresh: Sequence[ClozeFact], seed: int) -> None:
        self._rng = random.Random(seed)
        self._known = known
        self._exposure = list(accumulate(fact.popularity**EXPOSURE_EXPONENT for fact in known))
        self._fresh = [fact for fact in fresh if fact.passage]
        self._cohesive: dict[str, list[ClozeFact]] = defaultdict(list)
        self._namely: dict[str, list[ClozeFact]] = defaultdict(list)
        for fact in self._fresh:
            self._cohesive[fact.property_id].append(fact)
            self._namely[_last_word(fact)].append(fact)

    def remembered(self, count: int) -> list[Cloze]:
        """Known facts without passages; popular subjects are more frequent."""
        return [Cloze(self._query(fact), (), fact.answer) for fact in self._draw_known(count)]

    def read(self, count: int, n_passages: int) -> list[Cloze]:
        """The subject's passage among others, in any place."""
        return [
            Cloze(self._query(fact), self._passages(fact, n_passages), fact.answer)
            for fact in self._rng.choices(self._fresh, k=count)
        ]

    def misled(self, count: int, n_passages: int) -> list[Cloze]:
        """Known facts with passages on another subject of the relation and on others like it."""
        found = []
        for fact in self._draw_known(count):
            other = self._rng.choice(self._cohesive[fact.property_id])
            passages = self._passages(other, n_passages)
            found.append(Cloze(self._query(fact), passages, fact.answer))
        return found

    def _draw_known(self, count: int) -> list[ClozeFact]:
        total = self._exposure[-1]
        return [self._known[bisect(self._exposure, self._rng.random() * total)] for _ in range(count)]

    def _query(self, fact: ClozeFact) -> str:
        return self._rng.choice(queries_of(fact)[:-1])

    def _passages(self, fact: ClozeFact, n_passages: int) -> tuple[str, ...]:
        """The fact's passage and others: of subjects of the relation, and of subjects that share the last word."""
        found = [fact.passage or ""]
        while len(found) < n_passages:
            others = self._namely[_last_word(fact)] if self._rng.random() < 0.5 else ()
            other = self._rng.choice(others or self._cohesive[fact.property_id])
            if other.subject == fact.subject:
                other = self._rng.choice(self._cohesive[fact.property_id])
            if other.subject != fact.subject:
                found.append(other.passage or "")
        self._rng.shuffle(found)
        return tuple(found)


def _last_word(fact: ClozeFact) -> str:
    return fact.subject.rsplit(" ", 1)[-1]
