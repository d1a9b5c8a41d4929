"""How often a threshold breaks the risk that it promises, in worlds where the risk of every threshold is known.

A world is a population of questions. Each has a signal for memory's answer and one for the answer with a passage, and
the probabilities that they are wrong. A study draws questions, and takes the laxest threshold that promises a risk of at
most α. The promise is broken if more than α of the answers are wrong that this threshold gives in the whole world.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from longtail.statistics.resampling import Values
from longtail.statistics.risk_coverage import curve

N_POPULATION = 20_000

ALPHAS = (0.05, 0.1, 0.2)

Setting = tuple[str, str, float]
"""How the risk depends on the signal, who answers, and α."""


@dataclass(frozen=True)
class RiskWorld:
    """Arrays by question: signals between 0 and 1, and the probabilities that the answers are wrong."""

    memory: Values
    wrong: Values
    passage: Values
    wrong_with: Values

    def study(self, n: int, alpha: float, seed: int) -> tuple[float, float] | None:
        """`n` new questions: the coverage of their threshold and its true risk; None if none promises `alpha`."""
        rng = np.random.default_rng(seed)
        places = rng.integers(0, len(self.memory), n)
        wrong, wrong_with = (rng.random(n) < chance[places] for chance in (self.wrong, self.wrong_with))
        steps = curve(self.memory[places], wrong, self.passage[places], wrong_with, np.arange(n))
        kept = [step for step in steps if (step["promised_risk"] or 1) <= alpha]
        if not kept:
            return None
        threshold = -np.inf if kept[-1]["threshold"] is None else kept[-1]["threshold"]
        given = np.maximum(self.memory, self.passage) > threshold
        chances = np.where(self.memory > threshold, self.wrong, self.wrong_with)
        return kept[-1]["n_answered"] / n, float(chances[given].mean())


def _world(risk: Callable[[Values], Values], factors: tuple[float, float] | None) -> RiskWorld:
    """`factors` of memory's risk and the passage's, whose signals are alike; None: memory answers alone."""
    first, second = np.random.default_rng(1).normal(size=(2, N_POPULATION))
    memory, passage = ndtr(first), ndtr((first + second) / np.sqrt(2))
    if factors is None:
        return RiskWorld(memory, risk(memory), memory, risk(memory))
    return RiskWorld(memory, factors[0] * risk(memory), passage, factors[1] * risk(passage))


_RISKS: Mapping[str, Callable[[Values, float], Values]] = {
    "everywhere a little above α": lambda signal, alpha: np.full_like(signal, 1.001 * alpha),
    "a cliff": lambda signal, alpha: np.where(signal > 0.5, 0.4 * alpha, 3 * alpha),
    "falls with the signal": lambda signal, alpha: 3 * alpha * (1 - signal),
}
_WHO = {"memory": None, "else a worse passage": (0.8, 1.2), "else a better passage": (1.2, 0.8)}
RISK_WORLDS: Mapping[Setting, RiskWorld] = {
    (name, who, alpha): _world(lambda signal, name=name, alpha=alpha: _RISKS[name](signal, alpha), _WHO[who])  # type: ignore[misc]
    for name, who, alpha in itertools.product(_RISKS, _WHO, ALPHAS)
}


@dataclass(frozen=True)
class Broken:
    """Of `n` studies of one setting: how many promise anything, how many of these break it; their mean coverage."""

    n: int
    n_promised: int
    n_broken: int
    coverage: float | None


def broken(setting: Setting, n: int, n_studies: int, seed: int) -> Broken:
    """Studies of `n` questions each."""
    seeds = np.random.SeedSequence([seed, [*RISK_WORLDS].index(setting), n]).generate_state(n_studies)
    studies = [RISK_WORLDS[setting].study(n, setting[2], int(one)) for one in seeds]
    found = [study for study in studies if study]
    return Broken(
        n_studies, len(found), sum(risk > setting[2] for _, risk in found),
        float(np.mean([coverage for coverage, _ in found])) if found else None,
    )  # fmt: skip


def promises(
    sizes: Mapping[int, int], seed: int, jobs: int, part: str
) -> Iterator[tuple[Setting, int, Broken]]:
    """All settings with `part` in their name. `sizes`: the number of studies for each number of questions."""
    chosen = [one for one in itertools.product(_RISKS, _WHO) if part in ", ".join(one)]
    asked = [((*one, alpha), n, sizes[n], seed) for one in chosen for n in sizes for alpha in ALPHAS]
    with ProcessPoolExecutor(jobs) as pool:
        for (setting, n, *_), found in zip(asked, pool.map(broken, *zip(*asked, strict=True)), strict=True):
            yield setting, n, found
