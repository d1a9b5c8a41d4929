"""How often the interval of a gain contains the true gain, and a promise of a risk is kept, in worlds that are known.

A study draws questions from a world, splits them a hundred times, fits thresholds on each split like the warehouse, and
puts the interval around the mean held-out gain. Each fit also has a gain on the whole world: that of its thresholds
over the fixed method that looks better on the same questions. The true gain is the mean of these gains over the fits of
all studies of the same kind. A study of signals (`--of signals`) does the same with each signal, over each baseline.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.gain_studies import Study, simulate, simulate_signals
from benchmarks.gain_worlds import CLIFFS, WORLDS
from benchmarks.harness import last_line, machine, say, table
from benchmarks.risk_worlds import ALPHAS, promises
from benchmarks.signal_worlds import SIGNAL_WORLDS
from dagster_project.core.scoring.intervals import wilson
from dagster_project.core.statistics.held_out_gains import Variant
from dagster_project.core.statistics.risk_coverage import DELTA


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


Kind = tuple[Mapping[str, Any], Callable[..., dict[Variant, Study]], Variant]
KINDS: Mapping[str, Kind] = {
    "adaptive": (WORLDS, simulate, ("search", "scope")),
    "cliffs": (CLIFFS, simulate, ("search", "scope")),
    "signals": (SIGNAL_WORLDS, simulate_signals, ("signal, scope", "compared with")),
}
"""The worlds of each kind of gain, its simulation of one study, and what a variant is called."""

_RISK = "risk"


def _simulated(task: tuple[str, str, int, int, Sequence[int]]) -> dict[Variant, Study]:
    kind, name, n, seed, resamples = task
    worlds, simulation, _ = KINDS[kind]
    return simulation(worlds[name], n, seed, *resamples)


def simulations(
    kind: str, sizes: dict[int, int], seed: int, jobs: int, part: str = "", resamples: Sequence[int] = ()
) -> Iterator[tuple[str, int, dict[Variant, Coverage]]]:
    """Studies by structure and number of questions. `sizes` gives the number of studies for each number of questions.

    Only structures with `part` in their name. `resamples`: one number, or none for that of the platform.
    """
    with ProcessPoolExecutor(jobs) as pool:
        for place, name in enumerate(KINDS[kind][0]):
            for n, n_studies in sizes.items() if part in name else ():
                say(f"{name}, {n:,} questions: {n_studies} studies …")
                seeds = np.random.SeedSequence([seed, place, n]).generate_state(n_studies)
                found = list(
                    pool.map(_simulated, [(kind, name, n, int(one), resamples) for one in seeds], chunksize=5)
                )
                yield name, n, {variant: coverage([one[variant] for one in found]) for variant in found[0]}


def main() -> None:
    """Print a table for people and, as the last line, JSON for machines."""
    options = _options()
    sizes = dict(zip(options.questions, options.studies, strict=True))
    started = time.perf_counter()
    if options.of == _RISK:
        highest = _promises(sizes, options)
        return last_line({"broken_high": highest, "coverage_s": time.perf_counter() - started})
    rows, shares = [], []
    for name, n, found in simulations(
        options.of, sizes, options.seed, options.jobs, options.worlds, options.resamples
    ):
        for variant, covered in found.items():
            say("  " + " | ".join((*variant, *_cells(covered))))
            shares += [covered.share] if covered.n_intervals >= options.least else []
            rows.append((name, f"{n:,}", *variant, *_cells(covered)))
    table(
        "Intervals of the gain compared with the truth (95 % is intended)",
        ("structure", "questions", *KINDS[options.of][2], "studies", "true gain %", "mean gain %", "with interval",
         "contain the truth", "mean width %", "why none"), rows,
    )  # fmt: skip
    print(f"\n{machine('numpy')}; seed {options.seed}; coverage is judged from {options.least} intervals on")
    known = [share for share in shares if share is not None]
    last_line({
        "coverage_low": min(known, default=None), "coverage_high": max(known, default=None),
        "n_judged": len(known), "coverage_s": time.perf_counter() - started,
    })  # fmt: skip


def _promises(sizes: dict[int, int], options: argparse.Namespace) -> float:
    """Print how many promises of a risk are broken; the highest share."""
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
    print(f"{machine('numpy', 'scipy')}; seed {options.seed}")
    return highest


def _cells(covered: Coverage) -> tuple[str, ...]:
    share, width = covered.share, covered.mean_width
    low, high = wilson(covered.n_holding, covered.n_intervals) if covered.n_intervals else (0.0, 1.0)
    return (
        str(covered.n), f"{covered.true_gain:+.2%}", f"{covered.mean_gain:+.2%}",
        f"{covered.n_intervals / covered.n:.0%}", "" if share is None else f"{share:.1%} ({low:.1%} to {high:.1%})",
        "" if width is None else f"{width:.2%}",
        ", ".join(f"{reason} ({count})" for reason, count in sorted(covered.reasons.items())),
    )  # fmt: skip


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.coverage", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--of", choices=(*KINDS, _RISK), default="adaptive", help="whose gains, or the risk")
    parser.add_argument("--worlds", default="", help="only structures with this in their name")
    parser.add_argument(
        "--resamples", type=int, nargs=1, default=(), help="fewer than the platform has: faster"
    )
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
