"""Worlds in which the gain of adaptive retrieval is known, to test its interval (`coverage`).

A world has relations with shares of the questions. Each relation has equally frequent levels of popularity. At each
level memory and retrieval are right with known probabilities, independently of each other. A world may have subjects of
one to six questions, of one level, whose answers depend on each other. In a world with a cliff both
probabilities are constant but for one step, where a few per cent of the questions begin or end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit, ndtr, ndtri

from longtail.relations.relation import relation_set
from longtail.statistics.resampling import Values

N_LEVELS = 200


@dataclass(frozen=True)
class World:
    """`names` of the relations and the `share` of each; the other arrays: relations × levels.

    `dependence`: the correlation of the normal deviates behind a method's answers on one subject; None = each question
    has its own subject.
    """

    names: Values
    share: Values
    popularity: Values
    memory: Values
    retrieval: Values
    dependence: float | None = None

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Values, Values, Values, Values, Values]:
        """Relation, popularity, memory right, retrieval right and subject of `n` new questions."""
        relation = rng.choice(len(self.share), n, p=self.share)
        unit = np.arange(n)
        if self.dependence is not None:
            unit = np.repeat(unit, rng.integers(1, 7, n))[:n]
        level = rng.integers(0, N_LEVELS, n)[unit]
        memory = self._chances(unit, rng) < self.memory[relation, level]
        retrieval = self._chances(unit, rng) < self.retrieval[relation, level]
        return (
            self.names[relation],
            self.popularity[relation, level],
            memory.astype(int),
            retrieval.astype(int),
            unit,
        )

    def _chances(self, unit: Values, rng: np.random.Generator) -> Values:
        """Uniform numbers, which depend on each other within a subject."""
        if self.dependence is None:
            return rng.random(len(unit))
        common, own = rng.normal(size=(2, len(unit)))
        return np.asarray(ndtr(np.sqrt(self.dependence) * common[unit] + np.sqrt(1 - self.dependence) * own))

    def gain(self, limits: Values) -> float:
        """The gain of retrieving below `limits` (one per relation) over never retrieving, on the whole world."""
        is_below = self.popularity < limits[:, None]
        return float((self.share[:, None] * (self.retrieval - self.memory) * is_below).sum() / N_LEVELS)


def _world(shares: Values, methods: Callable[[Values, Values], tuple[Values, Values]]) -> World:
    """`methods` gives both probabilities from log10 popularity and a normal random number per relation."""
    rng = np.random.default_rng(1)
    middle, tilt = rng.normal(3, 0.4, len(shares)), rng.normal(0, 1, len(shares))
    logs = middle[:, None] + 0.9 * ndtri((np.arange(N_LEVELS) + 0.5) / N_LEVELS)
    memory, retrieval = methods(logs, tilt[:, None])
    names = np.array([f"relation {number}" for number in range(len(shares))], dtype=object)
    return World(names, shares / shares.sum(), 10**logs, memory, retrieval)


def _both_good(logs: Values, tilt: Values) -> tuple[Values, Values]:
    return expit(1.6 * (logs - 3.3) + 0.5 * tilt), np.full_like(logs, 0.55)


_POPQA = np.array([relation.published_questions for relation in relation_set("popqa")], dtype=float)
WORLDS: dict[str, World] = {
    "both methods good somewhere": _world(_POPQA, _both_good),
    "one always better": _world(_POPQA, lambda logs, _: (expit(1.2 * (logs - 5)), np.full_like(logs, 0.85))),
    "equal": _world(_POPQA, lambda logs, _: (np.full_like(logs, 0.4), np.full_like(logs, 0.4))),
    "tiny relations": _world(np.ones(120), _both_good),
}
WORLDS |= {
    f"{name}, several questions on a subject": replace(WORLDS[name], dependence=0.5)
    for name in ("both methods good somewhere", "equal")
}
"""By structure: relations as large as PopQA's, or 120 of equal size."""


def _cliff(low: float, high: float, memory: tuple[float, float], retrieval: tuple[float, float]) -> World:
    """Both probabilities: outside and inside the part from quantile `low` to `high` of popularity, over all relations."""

    def methods(logs: Values, _: Values) -> tuple[Values, Values]:
        order = np.argsort(logs, axis=None)
        below = np.cumsum(np.repeat(_POPQA / _POPQA.sum() / N_LEVELS, N_LEVELS)[order])
        quantile = np.empty(logs.size)
        quantile[order] = below
        is_inside = ((quantile > low) & (quantile <= high + 1e-9)).reshape(logs.shape)
        return np.where(is_inside, memory[1], memory[0]), np.where(is_inside, retrieval[1], retrieval[0])

    return _world(_POPQA, methods)


_SHARES = (0.02, 0.05, 0.1, 0.2)
_WORSE, _BETTER = (0.2, 0.95), (0.6, 0.1)
CLIFFS: dict[str, World] = {
    **{f"cliff at the top, {share:.0%}": _cliff(1 - share, 1, _WORSE, _BETTER) for share in _SHARES},
    **{f"cliff at the bottom, {share:.0%}": _cliff(0, share, _BETTER, _WORSE) for share in _SHARES},
    **{
        f"cliffs in the middle, {share:.0%}": _cliff(0.5 - share / 2, 0.5 + share / 2, _WORSE, _BETTER)
        for share in _SHARES
    },
    **{
        f"cliff at the top, {share:.0%}, equal elsewhere": _cliff(1 - share, 1, (0.5, 0.9), (0.5, 0.1))
        for share in _SHARES
    },
}
"""By place and share of the questions: there the method that is worse elsewhere is much better than the other."""
