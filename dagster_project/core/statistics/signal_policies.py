"""Retrieve below a threshold on a signal: which questions, when the threshold is fitted on some of them.

What belongs here: the decisions of every policy for many fits at once, each fit with its own signal. What does not: how
a signal is fitted (`signal_fit`), and what the decisions gain and cost (`adaptive_signals`).

The rule is that of search exact (SPEC §6). The candidates are the distinct values of the fitted questions, and infinity.
The best candidate has the greatest sum of gains below it, and the lowest of several equal ones is taken. So the lowest
fitted value means never.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dagster_project.core.statistics.signal_fit import Features, Values, probabilities

ALL, PER_RELATION = SCOPES = ("all", "per_relation")
NUMBERS = POPULARITY, CONFIDENCE = ("popularity", "confidence")
"""Signals that are numbers of a question and need no fit."""
ALWAYS, NEVER, FIXED = FIXED_POLICIES = ("always", "never", "fixed")

Policy = tuple[str, str]
"""(signal, threshold scope)."""
Decisions = Mapping[Policy, Sequence[Values]]
"""By policy, for each retrieval method fits × questions: whether to retrieve. Fits × 1 if the same for all questions."""


@dataclass(frozen=True)
class Asked:
    """The questions of one model and parametric method (n), in the order of their relations.

    `relation` is empty if a question has none; its threshold is the one for all. `parametric`: 1 if that answer is
    right. `differences`: for each retrieval method 1 if only its answer is right, -1 if only the parametric one is.
    `numbers`: the values of the signals that need no fit. `features`: what each predicted signal knows.
    """

    relation: Values
    numbers: Mapping[str, Values]
    parametric: Values
    differences: tuple[Values, ...]
    features: Mapping[str, Features]

    @property
    def policies(self) -> list[Policy]:
        return [(signal, scope) for signal in (*self.numbers, *self.features) for scope in SCOPES]


def decisions(asked: Asked, weights: Values) -> Decisions:
    """What every policy decides for every question, if fitted on the questions with a weight (fits × n)."""
    found = _fixed(asked, weights)
    gained = [weights * difference for difference in asked.differences]
    for signal in (*asked.numbers, *asked.features):
        values = _values(asked, signal, weights)
        limits = thresholds(values, weights > 0, gained)
        found[signal, ALL] = [values < limit[:, None] for limit in limits]
        found[signal, PER_RELATION] = _per_relation(asked, values, weights > 0, gained, limits)
    return found


def _values(asked: Asked, signal: str, weights: Values) -> Values:
    if signal in asked.numbers:
        return np.broadcast_to(asked.numbers[signal], weights.shape)
    return probabilities(asked.features[signal], asked.parametric, weights)


def relation_rows(relation: Values) -> Iterator[slice]:
    """The rows of each relation; questions without one have no threshold of their own."""
    names, starts = np.unique(relation, return_index=True)
    for name, start, stop in zip(names, starts, np.append(starts[1:], len(relation)), strict=True):
        if name:
            yield slice(start, stop)


def _per_relation(
    asked: Asked, values: Values, is_fitted: Values, gained: Sequence[Values], overall: Sequence[Values]
) -> list[Values]:
    """Decisions by the threshold of the relation; a relation without a fitted question has the one for all."""
    found = [values < limit[:, None] for limit in overall]
    for rows in relation_rows(asked.relation):
        mine, is_known = values[:, rows], is_fitted[:, rows].any(axis=1)
        limits = thresholds(mine, is_fitted[:, rows], [gain[:, rows] for gain in gained])
        for decided, limit, of_all in zip(found, limits, overall, strict=True):
            decided[:, rows] = mine < np.where(is_known, limit, of_all)[:, None]
    return found


def thresholds(values: Values, is_fitted: Values, gained: Sequence[Values]) -> list[Values]:
    """For each of `gained`, the best threshold of each fit. All are fits × n. Without fitted rows nothing is
    below it.

    Only fitted rows may have a gain other than 0.
    """
    distinct = (
        values if values.strides[0] else values[:1]
    )  # one row for all fits where these share their values
    order = np.argsort(distinct, axis=1, kind="stable")
    ascending = np.take_along_axis(distinct, order, axis=1)
    starts = np.ones((len(distinct), values.shape[1] + 1), dtype=bool)
    starts[:, 1:-1] = ascending[:, 1:] != ascending[:, :-1]
    fitted = np.take_along_axis(np.where(is_fitted, values, np.inf), order, axis=1)
    following = np.full((len(values), values.shape[1] + 1), np.inf)
    following[:, :-1] = np.minimum.accumulate(fitted[:, ::-1], axis=1)[:, ::-1]
    following[np.isinf(following[:, 0])] = -np.inf
    return [_best(np.take_along_axis(gain, order, axis=1), starts, following) for gain in gained]


def _best(gain: Values, starts: Values, following: Values) -> Values:
    """The lowest fitted value from the first position on below which the most is gained."""
    below = np.zeros(following.shape)
    np.cumsum(gain, axis=1, out=below[:, 1:])
    place = np.where(starts, below, -np.inf).argmax(axis=1)
    return np.asarray(np.take_along_axis(following, place[:, None], axis=1)[:, 0])


def _fixed(asked: Asked, weights: Values) -> dict[Policy, Sequence[Values]]:
    """The decisions that need no signal, fits × 1: always, never, and the one of them that was better when fitted."""
    always = np.ones((len(weights), 1), dtype=bool)
    better = [(weights @ difference > 0)[:, None] for difference in asked.differences]
    n_methods = len(asked.differences)
    return {(ALWAYS, ALL): [always] * n_methods, (NEVER, ALL): [~always] * n_methods, (FIXED, ALL): better}
