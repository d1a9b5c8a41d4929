"""How often the interval of the adaptive gain contains the true gain, in worlds where the true gain is known.

What belongs here: simulated studies, each with the interval that the platform gives it. What does not: the worlds
(`gain_worlds`) and the computation of the interval (`core/statistics/adaptive_gains.py`).

A study draws questions from a world, splits them a hundred times, fits thresholds on each split like the warehouse, and
puts the interval around the mean held-out gain. Each fit also has a gain on the whole world: that of its thresholds
over the fixed method that looks better on the same questions. The true gain is the mean of these gains over the fits of
all studies of the same kind.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.gain_worlds import WORLDS, World
from benchmarks.harness import last_line, machine, say, table
from dagster_project.core.statistics.adaptive_gains import N_RESAMPLES, bootstrap_pair, questions_of
from dagster_project.core.statistics.adaptive_thresholds import Fitted, PairRows, fit_pair
from dagster_project.core.statistics.held_out_gains import Variant

N_SPLITS = 100
_N_TRUE = 10
"""Splits of each study whose thresholds are scored on the whole world."""
_Z = 1.959963984540054

Values = npt.NDArray[Any]


@dataclass(frozen=True)
class Study:
    """One simulated study, by one search and scope: `low` and `high` are None where it has no interval."""

    true_gain: float
    gain: float
    low: float | None
    high: float | None
    undefined: str | None


@dataclass(frozen=True)
class Coverage:
    """Over studies of one kind: the true gain, the number of intervals, and how many of them contain the true gain."""

    true_gain: float
    mean_gain: float
    n: int
    n_intervals: int
    n_holding: int
    mean_width: float | None
    reasons: dict[str, int]

    @property
    def share(self) -> float | None:
        """The share of the intervals that contain the true gain."""
        return self.n_holding / self.n_intervals if self.n_intervals else None


def simulate(world: World, n: int, seed: int, n_resamples: int = N_RESAMPLES) -> dict[Variant, Study]:
    """One study of `n` questions, by (search, scope)."""
    rng = np.random.default_rng(seed)
    relation, popularity, memory, retrieval = world.draw(n, rng)
    training = np.array([rng.permutation(n) < round(0.75 * n) for _ in range(N_SPLITS)])
    edges = {name: _edges(popularity[relation == name]) for name in set(relation)} | {
        "all": _edges(popularity)
    }
    pair = PairRows(relation, popularity, memory, retrieval, training, edges)
    fitted = {(found.relation, found.search): found for found in fit_pair(pair)}
    questions = questions_of(relation, popularity, retrieval - memory, edges)
    spreads = bootstrap_pair(questions, int(rng.integers(2**63)), n_resamples)
    return {name: _study(world, pair, fitted, name, spread) for name, spread in spreads.items()}


def _edges(popularity: Values) -> Values:
    """Candidates of binned10: the lowest popularity, ten edges, infinity."""
    logs = np.log(popularity)
    inner = np.exp(logs.min() + (logs.max() - logs.min()) * np.arange(1, 10) / 10)
    return np.unique([popularity.min(), *np.clip(inner, popularity.min(), popularity.max()), np.inf])


def _study(world: World, pair: PairRows, fitted: dict[Variant, Fitted], name: Variant, spread: Any) -> Study:
    search, scope = name
    difference = pair.retrieval - pair.parametric
    overall = fitted["all", search]
    limits = {relation: _limit(overall, search) for relation in world.names}
    if scope == "per_relation":
        for relation in set(pair.relation):
            own = fitted[relation, search]
            limits[relation] = np.where(own.n > 0, _limit(own, search), limits[relation])
    is_always = overall.n_retrieval > overall.n_parametric
    is_test = ~pair.training
    retrieved = np.empty(is_test.shape, dtype=bool)
    for relation in set(pair.relation):
        of = pair.relation == relation
        retrieved[:, of] = pair.popularity[of] < limits[relation][:, None]
    departing = (retrieved.astype(int) - is_always[:, None]) * difference
    gains = (departing * is_test).sum(axis=1) / is_test.sum(axis=1)
    by_relation = np.array([limits[relation] for relation in world.names])
    always = world.gain(np.full(len(world.names), np.inf))
    true = [world.gain(by_relation[:, split]) - always * is_always[split] for split in range(_N_TRUE)]
    gain = float(gains.mean())
    if spread.standard_error is None:
        return Study(float(np.mean(true)), gain, None, None, spread.undefined)
    half = _Z * float(np.sqrt(spread.standard_error**2 + gains.var(ddof=1) / N_SPLITS))
    return Study(float(np.mean(true)), gain, gain - half, gain + half, None)


def _limit(fitted: Fitted, search: str) -> Values:
    """Thresholds by split. In binned10 never is the lowest popularity of a study: none of its own questions is below.

    Questions of the world may be below. They are not retrieved, because the study decided never to retrieve.
    """
    is_never = (fitted.n_retrieved == 0) & (search == "binned10")
    return np.where(is_never, -np.inf, fitted.threshold)


def coverage(studies: list[Study]) -> Coverage:
    """The coverage of the intervals of one kind of study."""
    truth = float(np.mean([study.true_gain for study in studies]))
    ends = [(study.low, study.high) for study in studies if study.low is not None and study.high is not None]
    reasons: dict[str, int] = {}
    for study in studies:
        if study.undefined:
            reasons[study.undefined] = reasons.get(study.undefined, 0) + 1
    return Coverage(
        truth, float(np.mean([study.gain for study in studies])), len(studies), len(ends),
        sum(low <= truth <= high for low, high in ends),
        float(np.mean([high - low for low, high in ends])) if ends else None, reasons,
    )  # fmt: skip


def _simulated(task: tuple[str, int, int]) -> dict[Variant, Study]:
    name, n, seed = task
    return simulate(WORLDS[name], n, seed)


def simulations(
    sizes: dict[int, int], seed: int, jobs: int
) -> Iterator[tuple[str, int, dict[Variant, Coverage]]]:
    """Studies by structure and number of questions. `sizes` gives the number of studies for each number of questions."""
    with ProcessPoolExecutor(jobs) as pool:
        for place, name in enumerate(WORLDS):
            for n, n_studies in sizes.items():
                say(f"{name}, {n:,} questions: {n_studies} studies …")
                seeds = np.random.SeedSequence([seed, place, n]).generate_state(n_studies)
                found = list(pool.map(_simulated, [(name, n, int(one)) for one in seeds], chunksize=5))
                yield name, n, {variant: coverage([one[variant] for one in found]) for variant in found[0]}


def main() -> None:
    """Print a table for people and, as the last line, JSON for machines."""
    options = _options()
    sizes = dict(zip(options.questions, options.studies, strict=True))
    started = time.perf_counter()
    rows, shares = [], []
    for name, n, found in simulations(sizes, options.seed, options.jobs):
        for (search, scope), covered in found.items():
            say("  " + " | ".join((search, scope, *_cells(covered))))
            shares += [covered.share] if covered.n_intervals >= options.least else []
            rows.append((name, f"{n:,}", search, scope, *_cells(covered)))
    table(
        "Intervals of the adaptive gain compared with the truth (95 % is intended)",
        ("structure", "questions", "search", "scope", "studies", "true gain %", "mean gain %", "with interval",
         "contain the truth", "mean width %", "why none"), rows,
    )  # fmt: skip
    print(f"\n{machine('numpy')}; seed {options.seed}; coverage is judged from {options.least} intervals on")
    known = [share for share in shares if share is not None]
    last_line({
        "coverage_low": min(known, default=None), "coverage_high": max(known, default=None),
        "n_judged": len(known), "coverage_s": time.perf_counter() - started,
    })  # fmt: skip


def _cells(covered: Coverage) -> tuple[str, ...]:
    share, width = covered.share, covered.mean_width
    return (
        str(covered.n), f"{covered.true_gain:+.2%}", f"{covered.mean_gain:+.2%}",
        f"{covered.n_intervals / covered.n:.0%}", "" if share is None else f"{share:.1%}",
        "" if width is None else f"{width:.2%}",
        ", ".join(f"{reason} ({count})" for reason, count in sorted(covered.reasons.items())),
    )  # fmt: skip


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.coverage", description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--questions", type=int, nargs="+", default=[200, 1_000, 2_240], help="questions of a study"
    )
    parser.add_argument(
        "--studies", type=int, nargs="+", default=[400, 200, 100], help="studies of each size"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument(
        "--least", type=int, default=80, help="smallest number of intervals for which coverage is judged"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
