"""The speed of data portraits: building one and looking texts up, beside two libraries of Bloom filters in the same run.

Texts are random words, so nearly every gram is distinct. Normalising, hashing and the filter are timed together, on one
core. Seconds are those of the processor, because other work on the machine must not count; the table has both. A library
gets Python strings, one per gram, as its interface asks for, in a filter of the same planned size.
"""

from __future__ import annotations

import argparse
import logging
import math
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np

from benchmarks.harness import last_line, machine, say, table
from longtail.grounding.portrait import (
    WIDTH,
    Plan,
    Portrait,
    Texts,
    build,
    count_grams,
    open_portrait,
    plan_portrait,
)
from longtail.grounding.quip import Scorer

LOG = logging.getLogger("benchmark")
RATE = 0.001
SEED = 0
_BATCH = 4_000_000
_MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class Timed:
    """Grams and the seconds that they took: of the processor, and of the clock."""

    n: int
    processor: float
    clock: float

    @property
    def mgrams(self) -> float:
        """Million grams per second and core."""
        return self.n / self.processor / 1e6


def timed(n: int, work: Callable[[], object]) -> Timed:
    clock, processor = time.perf_counter(), time.process_time()
    work()
    return Timed(n, time.process_time() - processor, time.perf_counter() - clock)


def texts(n_grams: int, seed: int) -> Iterator[Texts]:
    """Batches of one text each, with `n_grams` grams in all: words of random letters, spaces and line ends."""
    rng = np.random.default_rng(seed)
    while n_grams > 0:
        n = min(n_grams, _BATCH)
        data = rng.integers(97, 123, n + WIDTH - 1, np.uint8)
        data[6::7] = 32
        data[97::98] = 10
        data[[0, -1]] = 97
        yield Texts(data, np.array([0, len(data)]))
        n_grams -= n


def build_timed(folder: Path, plan: Plan, n_grams: int, at_once: int) -> Timed:
    """Build the portrait; making the texts is not timed."""
    making = [0.0, 0.0]

    def corpus() -> Iterator[Texts]:
        found = texts(n_grams, SEED)
        while True:
            clock, processor = time.perf_counter(), time.process_time()
            batch = next(found, None)
            making[0] += time.process_time() - processor
            making[1] += time.perf_counter() - clock
            if batch is None:
                return
            yield batch

    whole = timed(n_grams, lambda: build(folder, plan, corpus, LOG, memory=at_once))
    return Timed(n_grams, whole.processor - making[0], whole.clock - making[1])


def false_positives(portrait: Portrait, n: int) -> float:
    """The rate that texts show which the portrait never saw."""
    quotes = [Scorer(portrait).quotes(batch) for batch in texts(n, SEED + 1)]
    return sum(int(one.n_quoted.sum()) for one in quotes) / sum(int(one.n_grams.sum()) for one in quotes)


def missed(portrait: Portrait, n_batches: int) -> int:
    """Grams of the corpus' first batches that the portrait does not have: there may be none."""
    corpus = islice(texts(portrait.plan.n_grams, SEED), n_batches)
    quotes = [Scorer(portrait).quotes(batch) for batch in corpus]
    return sum(int((one.n_grams - one.n_quoted).sum()) for one in quotes)


def rbloom_timed(plan: Plan, n: int) -> Timed:
    from rbloom import Bloom

    held = Bloom(plan.n_grams, RATE)
    (text,) = (batch.data.tobytes().decode() for batch in texts(n, SEED))
    return timed(n, lambda: held.update(text[i : i + WIDTH] for i in range(len(text) - WIDTH + 1)))


def pybloomfilter_timed(plan: Plan, n: int) -> Timed:
    from pybloomfilter import BloomFilter

    held = BloomFilter(plan.n_grams, RATE)
    (text,) = (batch.data.tobytes().decode() for batch in texts(n, SEED))
    return timed(n, lambda: held.update(text[i : i + WIDTH] for i in range(len(text) - WIDTH + 1)))


@dataclass(frozen=True)
class Measured:
    """What was measured. `observed`: the false-positive rate; `peak`: MiB."""

    plan: Plan
    counted: Timed
    built: Timed
    asked: Timed
    observed: float
    peak: float


def measure(folder: Path, n_grams: int, n_asked: int) -> Measured:
    """Count, build and look up. Errors: `SystemExit` if the portrait does not have a gram of its corpus."""
    compile_loops(folder.with_name("small"))
    say("counting distinct grams …")
    sample = list(texts(min(n_grams, 20_000_000), SEED))
    counted = timed(sum(len(one.data) for one in sample), partial(count_grams, sample, SEED))
    plan = plan_portrait(n_grams, RATE, SEED)
    say(f"building a portrait of {n_grams:,} grams, {plan.n_bytes / _MEBIBYTE:,.0f} MiB …")
    built = build_timed(folder, plan, n_grams, plan.n_bytes)
    portrait = open_portrait(folder)
    say("looking up …")
    half = [*texts(n_asked // 2, SEED), *texts(n_asked // 2, SEED + 1)]
    scorer = Scorer(portrait)
    asked = timed(n_asked, lambda: [scorer.quotes(batch) for batch in half])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if n_missed := missed(portrait, n_batches=5):
        raise SystemExit(f"{n_missed} grams of the corpus are missing in its portrait")
    return Measured(plan, counted, built, asked, false_positives(portrait, n_asked), peak)


def compile_loops(folder: Path) -> None:
    """Run every compiled loop once on a small portrait."""
    plan = plan_portrait(5_000_000, RATE, SEED)
    build(folder, plan, lambda: texts(1_000, SEED), LOG)
    Scorer(open_portrait(folder)).quotes(next(texts(1_000, SEED)))
    count_grams(texts(1_000, SEED), SEED)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gib", type=float, default=1.0, help="size of the filter")
    parser.add_argument("--asked", type=int, default=60_000_000, help="grams that are looked up")
    parser.add_argument("--peer", type=int, default=2_000_000, help="grams that the other libraries add")
    parser.add_argument("--no-peers", action="store_true", help="without the other libraries")
    chosen = parser.parse_args()
    n_bits = -math.log2(RATE) / math.log(2)
    n_grams = int(chosen.gib * 2**33 / n_bits)
    with tempfile.TemporaryDirectory() as name:
        done = measure(Path(name) / "portrait" / "stamp", n_grams, chosen.asked)
    peers = {} if chosen.no_peers else {"rbloom": rbloom_timed, "pybloomfiltermmap3": pybloomfilter_timed}
    say(f"peers: {', '.join(peers) or 'none'} …")
    raced = {name: one(done.plan, chosen.peer) for name, one in peers.items()}
    print(machine("numba", "numpy", *peers))
    rows = [
        ("count distinct grams", done.counted),
        ("build", done.built),
        ("look up, with spans", done.asked),
    ]
    rows += [(f"{name}: build", one) for name, one in raced.items()]
    table(
        f"A filter of {done.plan.n_bytes / _MEBIBYTE:,.0f} MiB, planned rate {RATE}, observed {done.observed:.6f}",
        ("work", "grams", "M grams/s of the processor", "M grams/s of the clock"),
        [(what, f"{one.n:,}", f"{one.mgrams:.2f}", f"{one.n / one.clock / 1e6:.2f}") for what, one in rows],
    )
    last_line({
        "build_mgrams_s": done.built.mgrams,
        "query_mgrams_s": done.asked.mgrams,
        "bits_ratio": done.plan.n_bytes * 8 / (n_bits * n_grams),
        "fp_ratio": done.observed / RATE,
        "rbloom_ratio": done.built.mgrams / raced["rbloom"].mgrams if raced else None,
        "peak_mb": done.peak,
    })  # fmt: skip


if __name__ == "__main__":
    main()
