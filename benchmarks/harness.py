"""Shared by all benchmarks: rounds side by side, medians, a table for people, a JSON line for machines."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Contestant:
    """One way of doing the work.

    `run` does all of it once and returns the results, a sequence or an array, in the order of the work.
    """

    name: str
    run: Callable[[], Any]
    n: int
    seconds: list[float] = field(default_factory=list)
    processor_seconds: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """Median seconds of the rounds."""
        return statistics.median(self.seconds)

    @property
    def processor_median(self) -> float:
        """Median seconds of the processor, summed over its cores: other work on the machine does not count."""
        return statistics.median(self.processor_seconds)


def race(contestants: Sequence[Contestant], rounds: int, check: Callable[[str, Sequence[Any]], None]) -> None:
    """Run all contestants in turn, `rounds` times. A time counts only if its result passes `check(name, result)`."""
    for number in range(1, rounds + 1):
        for contestant in contestants:
            say(f"round {number} of {rounds}: {contestant.name}, {contestant.n:,} rows …")
            started, processor = time.perf_counter(), time.process_time()
            made = contestant.run()
            seconds, processor = time.perf_counter() - started, time.process_time() - processor
            check(contestant.name, made)
            contestant.seconds.append(seconds)
            contestant.processor_seconds.append(processor)


def table(title: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a Markdown table under a title."""
    cells = [[str(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    print(f"\n{title}\n")
    for number, row in enumerate(cells):
        print("| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |")
        if not number:
            print("|" + "|".join("-" * (width + 2) for width in widths) + "|")
    sys.stdout.flush()


def spread(contestant: Contestant) -> str:
    """Minimum to maximum of the rounds, seconds."""
    return f"{min(contestant.seconds):.2f}–{max(contestant.seconds):.2f}"


def machine(*packages: str) -> str:
    """One line: processor, cores, Python and the versions of `packages`."""
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)
    return f"{_processor()}, {len(os.sched_getaffinity(0))} cores, Python {platform.python_version()}, {versions}"


def last_line(figures: Mapping[str, float | None]) -> None:
    """Print the JSON line at the very end, without numbers that were not measured."""
    measured = {name: round(value, 3) for name, value in figures.items() if value is not None}
    print(json.dumps(measured), flush=True)


def say(text: str) -> None:
    """Print progress on standard error."""
    print(text, file=sys.stderr, flush=True)


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next(line.split(":")[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()
