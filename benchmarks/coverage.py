"""How often a published interval contains the truth, and a promise of a risk is kept, in worlds that are known.

The aim is 93 to 98 % with 100 subjects and more, and 90 to 99 % from 20 on, or no interval with a reason;
benchmarks/RESULTS.md says where it is missed. Beside it stands how often the interval would hold if the questions were
taken as independent.

For gains, a study draws questions from a world, splits them a hundred times, fits thresholds on each split like the
warehouse, and puts the interval around the mean held-out gain. Each fit also has a gain on the whole world: that of its
thresholds over the fixed method that looks better on the same questions. The true gain is the mean of these gains over
the fits of all studies of the same kind. A study of signals does the same with each signal, over each baseline.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks import subject_worlds
from benchmarks.gain_studies import Study, simulate, simulate_signals
from benchmarks.gain_worlds import CLIFFS, WORLDS
from benchmarks.harness import last_line, machine, say, table
from benchmarks.risk_worlds import ALPHAS, promises
from benchmarks.signal_worlds import SIGNAL_WORLDS
from longtail.scoring.intervals import wilson
from longtail.statistics.risk_coverage import DELTA


@dataclass(frozen=True)
class Coverage:
    """Over studies of one kind: the truth, the number of intervals, and how many of them contain the truth."""

    true_gain: float
    mean_gain: float
    n: int
    n_intervals: int
    n_holding: int
    mean_width: float | None
    reasons: dict[str, int]

    @property
    def share(self) -> float | None:
        """The share of the intervals that contain the truth."""
        return self.n_holding / self.n_intervals if self.n_intervals else None


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


def _one_by_one(simulation: Callable[..., Mapping[Any, Study]]) -> Callable[..., Iterator[dict[str, Study]]]:
    """The simulation of many studies, from that of one."""

    def simulated(world: Any, n: int, seeds: Sequence[int], *resamples: int) -> Iterator[dict[str, Study]]:
        for seed in seeds:
            found = simulation(world, n, seed, *resamples)
            yield {" over ".join(variant): study for variant, study in found.items()}

    return simulated


GAINS: Mapping[str, tuple[Mapping[str, Any], Callable[..., Iterator[dict[str, Study]]]]] = {
    "adaptive": (WORLDS, _one_by_one(simulate)),
    "cliffs": (CLIFFS, _one_by_one(simulate)),
    "signals": (SIGNAL_WORLDS, _one_by_one(simulate_signals)),
}
"""The worlds of each kind of gain, and the simulation of its studies."""
_RISK = "risk"
_RATES = {5: 1_000, 20: 1_000, 100: 1_000}
_FULL = {name: {20: 400, 100: 400, 300: 200} for name in subject_worlds.SIMULATIONS} | {"rates": _RATES}
_QUICK = {name: {20: 100, 100: 100} for name in _FULL} | {
    "rates": _RATES,
    "policies": {100: 50},
    "false_gains": {100: 50},
}
_OF_QUESTIONS = {200: 400, 1_000: 200, 2_240: 100}
_AT_ONCE = 25
"""Studies that a process simulates together; one query computes the rates of many."""


def _simulated(task: tuple[str, str, int, Sequence[int], Sequence[Any]]) -> list[dict[str, Study]]:
    kind, name, n, seeds, more = task
    if kind in GAINS:
        worlds, simulation = GAINS[kind]
        return list(simulation(worlds[name], n, seeds, *more))
    return list(subject_worlds.SIMULATIONS[kind](subject_worlds.WORLDS[name], n, seeds, *more))


def _covered(
    pool: ProcessPoolExecutor, task: tuple[str, str, int, Sequence[int], Sequence[Any]]
) -> dict[str, Coverage]:
    kind, name, n, seeds, more = task
    size = 20 * _AT_ONCE if kind == "rates" else _AT_ONCE
    parts = [seeds[at : at + size] for at in range(0, len(seeds), size)]
    studies = [
        one for part in pool.map(_simulated, [(kind, name, n, own, more) for own in parts]) for one in part
    ]
    return {variant: coverage([one[variant] for one in studies]) for variant in studies[0]}


def _rows(
    kind: str, options: argparse.Namespace
) -> Iterator[tuple[str, int, str, Coverage, Coverage | None]]:
    """World, size, variant, its coverage, and that of questions that are taken as independent."""
    worlds = GAINS[kind][0] if kind in GAINS else subject_worlds.WORLDS
    usual = _OF_QUESTIONS if kind in GAINS else (_FULL if options.full else _QUICK)[kind]
    sizes = dict(zip(options.sizes, options.studies, strict=True)) or usual
    with ProcessPoolExecutor(options.jobs) as pool:
        for place, name in enumerate(worlds):
            for n, n_studies in sizes.items() if options.worlds in name else ():
                say(f"{kind}: {name}, {n:,}: {n_studies} studies …")
                seeds = np.random.SeedSequence([options.seed, place, n]).generate_state(n_studies).tolist()
                if kind in GAINS:
                    found = _covered(pool, (kind, name, n, seeds, options.resamples))
                    yield from ((name, n, variant, one, None) for variant, one in found.items())
                    continue
                ours, naive = (_covered(pool, (kind, name, n, seeds, (whole,))) for whole in (True, False))
                yield from ((name, n, variant, one, naive[variant]) for variant, one in ours.items())


def main() -> None:
    """Print a table for people and, as the last line, JSON for machines."""
    options = _options()
    started = time.perf_counter()
    kinds = (
        [options.of]
        if options.of
        else [*subject_worlds.SIMULATIONS, *([*GAINS, _RISK] if options.full else [])]
    )
    shares: list[tuple[float, bool]] = []
    highest = None
    for kind in kinds:
        if kind == _RISK:
            highest = _promises(options)
            continue
        rows = []
        for name, n, variant, found, naive in _rows(kind, options):
            rows.append((name, f"{n:,}", variant, *_cells(found), "" if naive is None else _share(naive)))
            if found.share is not None and found.n_intervals >= options.least and (kind in GAINS or n >= 20):
                low, high = (0.93, 0.98) if n >= 100 or kind in GAINS else (0.9, 0.99)
                nearest = min(max(found.share, low), high)
                ends = wilson(found.n_holding, found.n_intervals)
                shares.append((found.share, ends[0] <= nearest <= ends[1]))
        table(
            f"{kind}: intervals that contain the truth (95 % is intended)",
            ("world", "questions" if kind in GAINS else "subjects", "interval", "studies", "truth", "mean",
             "with interval", "contain the truth", "mean width", "why none", "as if questions were independent"), rows,
        )  # fmt: skip
    print(f"\n{machine('numpy')}; seed {options.seed}; coverage is judged from {options.least} intervals on")
    last_line({
        "coverage_low": min((share for share, _ in shares), default=None),
        "coverage_high": max((share for share, _ in shares), default=None), "n_judged": len(shares),
        "n_outside_promise": sum(not is_kept for _, is_kept in shares), "broken_high": highest,
        "coverage_s": time.perf_counter() - started,
    })  # fmt: skip


def _promises(options: argparse.Namespace) -> float:
    """Print how many promises of a risk are broken; the highest share."""
    sizes = dict(zip(options.sizes, options.studies, strict=True)) or _OF_QUESTIONS
    rows: dict[tuple[str, ...], list[str]] = {}
    shares = []
    for (risk, who, _), n, found in promises(sizes, options.seed, options.jobs, options.worlds):
        shares.append((found.n_broken / found.n, found.n))
        shown = (shares[-1][0], found.n_promised / found.n, found.coverage or 0)
        rows.setdefault((risk, who, f"{n:,}", f"{found.n:,}"), []).append(
            " / ".join(f"{one:.1%}" for one in shown)
        )
    table(
        f"Studies that break their promise (at most {DELTA:.0%} may) / that promise anything / coverage where they do",
        ("risk", "who answers", "questions", "studies", *(f"α = {alpha:.0%}" for alpha in ALPHAS)),
        [(*setting, *cells) for setting, cells in rows.items()],
    )
    highest, n = max(shares)
    low, high = wilson(round(highest * n), n)
    print(f"\nhighest share of {len(shares)} settings: {highest:.1%} ({low:.1%} to {high:.1%})")
    return highest


def _share(covered: Coverage) -> str:
    if covered.share is None:
        return ""
    low, high = wilson(covered.n_holding, covered.n_intervals)
    return f"{covered.share:.1%} ({low:.1%} to {high:.1%})"


def _cells(covered: Coverage) -> tuple[str, ...]:
    width = covered.mean_width
    return (
        str(covered.n), f"{covered.true_gain:+.4f}", f"{covered.mean_gain:+.4f}",
        f"{covered.n_intervals / covered.n:.0%}", _share(covered), "" if width is None else f"{width:.4f}",
        ", ".join(f"{reason} ({count})" for reason, count in sorted(covered.reasons.items())),
    )  # fmt: skip


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.coverage", description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--of", choices=(*subject_worlds.SIMULATIONS, *GAINS, _RISK), help="one kind of interval"
    )
    parser.add_argument(
        "--full", action="store_true", help="more and larger studies, also gains and risks: hours"
    )
    parser.add_argument("--worlds", default="", help="only worlds with this in their name")
    parser.add_argument(
        "--resamples", type=int, nargs=1, default=(), help="of gains, fewer than the platform has: faster"
    )
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=[], help="subjects (gains, risk: questions) of a study"
    )
    parser.add_argument("--studies", type=int, nargs="+", default=[], help="studies of each size")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument(
        "--least", type=int, default=80, help="smallest number of intervals for which coverage is judged"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
