"""Worlds in which the gain of a signal over another one is known, to test its interval (`coverage`).

A world is a population of questions with the relations of PopQA. Memory is right with a probability that depends on
relation, popularity and consistency; certainty says nothing. Retrieval is right with the same probability everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from longtail.relations.relation import relation_set
from longtail.statistics.resampling import Values
from longtail.statistics.signal_policies import POPULARITY, Asked, Policy, decisions
from longtail.statistics.signal_quality import Features

N_POPULATION = 10_000
_RETRIEVAL = 0.6


@dataclass(frozen=True)
class SignalWorld:
    """Arrays by question of the population: `relation` (a number, ascending), `predictors` (× 3: log popularity,
    consistency, certainty) and `memory`, the probability that memory is right.
    """

    relation: Values
    predictors: Values
    memory: Values

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Values, Asked]:
        """`n` new questions: their places in the population, and their answers."""
        places = np.sort(rng.integers(0, len(self.memory), n))
        memory = (rng.random(n) < self.memory[places]).astype(float)
        retrieval = (rng.random(n) < _RETRIEVAL).astype(float)
        return places, self._asked(places, memory, retrieval - memory)

    def true_accuracies(self, places: Values, asked: Asked, is_training: Values) -> dict[Policy, Values]:
        """By policy, for each split of drawn questions: its accuracy in the world minus that of never retrieving.

        The population is asked together with the questions. No fit gives it a weight.
        """
        both = np.concatenate([places, np.arange(len(self.memory))])
        order = np.argsort(both, kind="stable")
        n, none = len(places), np.zeros(len(self.memory))
        both_asked = self._asked(
            both[order],
            np.append(asked.parametric, none)[order],
            np.append(asked.differences[0], none)[order],
        )
        weights = np.zeros((len(is_training), len(both)))
        weights[:, :n] = is_training
        gained = np.where(order < n, 0.0, (_RETRIEVAL - self.memory[both[order]]) / len(self.memory))
        return {
            policy: np.asarray((decided * gained).sum(axis=1))
            for policy, (decided,) in decisions(both_asked, weights[:, order]).items()
        }

    def _asked(self, places: Values, memory: Values, difference: Values) -> Asked:
        predictors, relation = self.predictors[places], self.relation[places]
        n_relations = int(self.relation.max()) + 1
        features = {
            "popularity_relation": Features(predictors[:, :1], relation, n_relations),
            "consistency": Features(predictors[:, 1:]),
            "all": Features(predictors, relation, n_relations),
        }
        names = np.array([f"relation {number:02}" for number in range(n_relations)])
        numbers = {POPULARITY: np.exp(predictors[:, 0])}
        return Asked(names[relation], numbers, memory, (difference,), features, np.arange(len(places)))


def _world(by_popularity: float, by_consistency: float) -> SignalWorld:
    """The arguments say how much a standard deviation changes the logit of memory's probability."""
    rng = np.random.default_rng(1)
    shares = np.array([relation.published_questions for relation in relation_set("popqa")], dtype=float)
    relation = np.sort(rng.choice(len(shares), N_POPULATION, p=shares / shares.sum()))
    known = rng.normal(0, 0.5, len(shares))[relation]
    popularity, consistency, certainty = rng.normal(size=(3, N_POPULATION))
    memory = expit(known + by_popularity * popularity + by_consistency * consistency)
    return SignalWorld(relation, np.column_stack([3 + popularity, consistency, certainty]), memory)


SIGNAL_WORLDS: Mapping[str, SignalWorld] = {
    "consistency decides": _world(0.3, 1.5),
    "popularity decides": _world(2.5, 0.0),
    "popularity, a little consistency": _world(2.5, 0.4),
    "both decide": _world(1.0, 1.0),
}
