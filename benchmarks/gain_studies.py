"""Simulated studies, each with the interval that the platform gives its gain (`coverage`)."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from benchmarks.gain_worlds import World
from benchmarks.signal_worlds import SignalWorld
from longtail.scoring.intervals import Z
from longtail.statistics.adaptive_gains import (
    N_RESAMPLES,
    Questions,
    Spread,
    Variant,
    bootstrap_pair,
    is_settled,
)
from longtail.statistics.adaptive_thresholds import Fit, fit_pair
from longtail.statistics.resampling import Values
from longtail.statistics.signal_policies import (
    ALL,
    BASELINES,
    FIXED,
    decisions,
    gain_over,
    resample_accuracies,
)
from longtail.statistics.signal_policies import N_RESAMPLES as N_SIGNAL_RESAMPLES

N_SPLITS = 100
N_TRUE = 10
"""Splits of each study whose fits are scored on the whole world."""


@dataclass(frozen=True)
class Study:
    """One simulated study, by one variant: `low` and `high` are None where it has no interval."""

    true_gain: float
    gain: float
    low: float | None
    high: float | None
    undefined: str | None


def simulate(world: World, n: int, seed: int, n_resamples: int = N_RESAMPLES) -> dict[Variant, Study]:
    """One study of `n` questions, by (search, scope)."""
    rng = np.random.default_rng(seed)
    relation, popularity, memory, retrieval, unit = world.draw(n, rng)
    training = training_splits(n, rng)
    edges = {name: _edges(popularity[relation == name]) for name in set(relation)} | {
        "all": _edges(popularity)
    }
    fitted = fit_pair(relation, popularity, memory, retrieval, training, edges)
    questions = Questions(relation, popularity, retrieval - memory, edges, unit)
    spreads = bootstrap_pair(questions, int(rng.integers(2**63)), n_resamples)
    return {
        name: _study(world, questions, ~training, fitted, name, spread) for name, spread in spreads.items()
    }


def simulate_signals(
    world: SignalWorld, n: int, seed: int, n_resamples: int = N_SIGNAL_RESAMPLES
) -> dict[Variant, Study]:
    """One study of `n` questions, by (signal and threshold scope, baseline)."""
    rng = np.random.default_rng(seed)
    places, asked = world.draw(n, rng)
    training = training_splits(n, rng)
    decided = decisions(asked, training.astype(float))
    resampled = resample_accuracies(asked, int(rng.integers(2**63)), n_resamples)
    true = world.true_accuracies(places, asked, training[:N_TRUE])
    found = {}
    for policy, (baseline, other) in itertools.product(asked.policies, BASELINES.items()):
        if policy == other:
            continue
        gained = gain_over(
            decided[policy][0], decided[other][0], asked.differences[0], ~training,
            asked.unit, resampled[policy][0] - resampled[other][0], is_settled(decided[FIXED, ALL][0]),
        )  # fmt: skip
        truth, variance = float((true[policy] - true[other]).mean()), gained.variance_of_splits or 0.0
        found[" ".join(policy), baseline] = _with_interval(
            truth, gained.gain, gained.gain_standard_error, variance, gained.undefined
        )
    return found


def training_splits(n: int, rng: np.random.Generator) -> Values:
    """Splits × n: whether the split trains on the question."""
    return np.array([rng.permutation(n) < round(0.75 * n) for _ in range(N_SPLITS)])


def _edges(popularity: Values) -> Values:
    """Candidates of binned10: the lowest popularity, ten edges, infinity."""
    logs = np.log(popularity)
    inner = np.exp(logs.min() + (logs.max() - logs.min()) * np.arange(1, 10) / 10)
    return np.unique([popularity.min(), *np.clip(inner, popularity.min(), popularity.max()), np.inf])


def _study(
    world: World,
    questions: Questions,
    is_test: Values,
    fitted: dict[Variant, Fit],
    name: Variant,
    spread: Spread,
) -> Study:
    search, scope = name
    overall = fitted["all", search]
    limits = {relation: _limit(overall, search) for relation in world.names}
    if scope == "per_relation":
        for relation in set(questions.relation):
            own = fitted[relation, search]
            limits[relation] = np.where(own["n"] > 0, _limit(own, search), limits[relation])
    is_always = overall["n_retrieval"] > overall["n_parametric"]
    retrieved = np.empty(is_test.shape, dtype=bool)
    for relation in set(questions.relation):
        of = questions.relation == relation
        retrieved[:, of] = questions.popularity[of] < limits[relation][:, None]
    departing = (retrieved.astype(int) - is_always[:, None]) * questions.difference
    gains = (departing * is_test).sum(axis=1) / is_test.sum(axis=1)
    by_relation = np.array([limits[relation] for relation in world.names])
    always = world.gain(np.full(len(world.names), np.inf))
    true = [world.gain(by_relation[:, split]) - always * is_always[split] for split in range(N_TRUE)]
    variance = float(gains.var(ddof=1)) / N_SPLITS
    return _with_interval(
        float(np.mean(true)), float(gains.mean()), spread.gain_standard_error, variance, spread.undefined
    )


def _with_interval(
    truth: float, gain: float, standard_error: float | None, variance_of_splits: float, undefined: str | None
) -> Study:
    if standard_error is None:
        return Study(truth, gain, None, None, undefined)
    half = Z * float(np.sqrt(standard_error**2 + variance_of_splits))
    return Study(truth, gain, gain - half, gain + half, None)


def _limit(fitted: Fit, search: str) -> Values:
    """Thresholds by split. In binned10 never is the lowest popularity of a study: none of its own questions is below.

    Questions of the world may be below. They are not retrieved, because the study decided never to retrieve.
    """
    is_never = (fitted["n_retrieved"] == 0) & (search == "binned10")
    return np.where(is_never, -np.inf, fitted["threshold_popularity"])
