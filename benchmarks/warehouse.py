"""How fast a warehouse is built, bootstrapped and reported on, and thresholds compared with a notebook.

    python -m benchmarks.warehouse --growth 18

The benchmark generates a lake of PopQA's size times `--times`, and builds it like the platform: dbt with its tests and
statistics, the publication, the report. Then dbt runs again: with nothing changed, and with one more model. A store on
this machine hands the lake to an empty folder. Each step is its own process, and its peak memory includes its children.
Then studies of 10, 20, 50 and 100 models and seven methods, one to ten million answers, are built and published, one
after another, as far as they have at most `--growth` times as many answers: `--growth 18` makes all.

The notebook runs on one pair of methods, with all 100 splits for search binned10 and `--exact-splits` splits for search
exact. Its time is scaled up to all pairs and splits. Its thresholds must equal ours.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import pyarrow as pa

from benchmarks.generated_study import ASKED_BY, FURTHER, write_lake, write_study
from benchmarks.harness import last_line, machine, say, table
from benchmarks.notebook_thresholds import Found, thresholds
from longtail.report.report import write_report
from longtail.statistics.adaptive_thresholds import fit_thresholds
from longtail.storage.lake import Lake
from longtail.study.file import load_study
from longtail.study.study import Study
from longtail.study.tables import describe_study
from longtail.tables import TABLES
from longtail.warehouse.build import dbt_command
from longtail.warehouse.publish import publish_warehouse
from longtail.warehouse.reuse import note_built, plan_build
from tests.object_stores import s3_server

_LOG = logging.getLogger("longtail")
_SPLITS = 100
_MODELS = (10, 20, 50, 100)
"""Models of the studies of seven methods that show how a build grows: one to ten million answers to PopQA's questions."""


@dataclass(frozen=True)
class Step:
    """One step: seconds, processor seconds, and peaks in MB: memory with its children, disk, temporary files."""

    name: str
    seconds: float
    cpu_s: float
    peak_mb: float
    found: Any
    disk_mb: float = 0
    temp_mb: float = 0


def steps(folder: Path, times: float, n_models: int) -> Iterator[Step]:
    """Generate a study in `folder`, build its warehouse and write its report."""
    yield timed_step("generate the lake", generate, folder, times, n_models)
    yield timed_step("build", build, folder)
    yield timed_step("publish", publish, folder)
    yield timed_step("report", report, folder)
    yield timed_step("rebuild, nothing changed", build, folder)
    yield timed_step("add a model", add_model, folder, times, n_models)
    yield timed_step("rebuild, one new model", build, folder)


def growth_steps(folder: Path, times: float, n_models: int) -> Iterator[Step]:
    """Generate a study of seven methods in `folder`, build its warehouse with its tests, and publish it."""
    yield timed_step("generate the lake", generate, folder, times, n_models, True)
    yield timed_step("build", build, folder)
    yield timed_step("publish", publish, folder)


def timed_step(name: str, work: Callable[..., Any], folder: Path, *arguments: Any) -> Step:
    """Do `work(folder, *arguments)` in a process of its own, whose home is in `folder`."""
    say(f"{name} …")
    disk = temporary = 0.0
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        step = pool.submit(_measured, name, work, folder, *arguments)
        while not wait([step], timeout=1).done:
            files = _disk_usage(folder)
            disk = max(disk, sum(files.values()))
            temporary = max(temporary, sum(n for path, n in files.items() if ".tmp" in path))
        return replace(step.result(), disk_mb=disk / 1e6, temp_mb=temporary / 1e6)


def _disk_usage(folder: Path) -> dict[str, int]:
    """Bytes on disk of every file in `folder`, by its path. DuckDB's temporary files are in a folder named `….tmp`."""
    sizes = {}
    for path in folder.rglob("*"):
        with suppress(OSError):  # it was just deleted
            sizes[str(path.relative_to(folder))] = path.lstat().st_blocks * 512
    return sizes


def _measured(name: str, work: Callable[..., Any], folder: Path, *arguments: Any) -> Step:
    os.environ["LONGTAIL_HOME"] = str(folder / "home")
    started = time.perf_counter()
    found = work(folder, *arguments)
    seconds = time.perf_counter() - started
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cpu_s = sum(one.ru_utime + one.ru_stime for one in usage)
    return Step(name, seconds, cpu_s, sum(one.ru_maxrss for one in usage) / 1e3, found)


def _study(folder: Path) -> Study:
    return load_study(folder / "study.yaml")


def generate(folder: Path, times: float, n_models: int, further: bool = False) -> dict[str, int]:
    """Generate the lake; returns the rows of the tables that scale."""
    return write_lake(write_study(folder, times, n_models, further), times)


def build(folder: Path) -> str:
    """Build what must be built, with its tests; returns how much that is. A failure ends the benchmark."""
    study = _study(folder)
    plan = plan_build(study)
    if plan.command:
        done = dbt_command(study, plan.command)
        if done.returncode:
            sys.exit(f"dbt failed:\n{done.stdout[-3000:]}")
        note_built(study, plan, _LOG)
    return f"{len(plan.inputs) - len(plan.reused)} of {len(plan.inputs)} nodes built"


def add_model(folder: Path, times: float, n_models: int) -> str:
    """Give the study one more model: it answers as the last one of `n_models`. Returns its name."""
    study = write_study(folder, times, n_models + 1)
    lake = Lake(study.home.lake)
    describe_study(study, lake)
    old, new = (model.name for model in study.models[-2:])
    for name in TABLES:
        for partition in lake.partitions(name):
            model, *more = partition.split("|")
            if model == old:
                rows = lake.read(name, partition)
                at = rows.column_names.index("model")
                named = rows.set_column(at, rows.schema.field(at), pa.array([new] * len(rows), pa.string()))
                lake.write(name, named, fingerprint="added", partition="|".join([new, *more]))
    return new


def publish(folder: Path) -> int:
    """Publish; returns the bytes of the published file."""
    return publish_warehouse(_study(folder), _LOG).n_bytes


def report(folder: Path) -> int:
    """Write the report; returns the bytes of report.html."""
    home = _study(folder).home
    return write_report(home.published_warehouse, home.published_report).n_bytes


def copy_lake(folder: Path) -> float:
    """Put the lake into a store on this machine, and fetch it into an empty folder; returns the seconds of fetching."""
    with s3_server() as store, patch.dict(os.environ, store.environment):
        Lake.of("bench", _study(folder).home.lake).synchronise()
        started = time.perf_counter()
        Lake.of("bench", folder / "copy").synchronise()
        return time.perf_counter() - started


@dataclass(frozen=True)
class Race:
    """Seconds for all thresholds of a study: ours are measured, the notebook's are scaled from a part."""

    ours_s: float
    binned10_s: float
    exact_s: float
    n_pairs: int
    n_checked: int


def race_thresholds(folder: Path, exact_splits: int) -> Race:
    """Our thresholds for all pairs, splits, searches and scopes; the notebook's for one pair. Errors: if they differ."""
    with duckdb.connect(str(_study(folder).home.build_warehouse), read_only=True) as connection:
        started = time.perf_counter()
        tables = [
            connection.execute(f"select * from intermediate.{name}").to_arrow_table()  # noqa: S608
            for name in ("int_adaptive_rows", "int_adaptive_splits", "int_adaptive_edges")
        ]
        ours = fit_thresholds(*tables)
        ours_s = time.perf_counter() - started
    rows, edges = tables[0].to_pandas(), tables[2].to_pandas()
    n_pairs = int(rows.pair_id.nunique())
    rows, edges = (frame[frame.pair_id == rows.pair_id.min()] for frame in (rows, edges))
    by_relation = {name: sorted(own.threshold_popularity) for name, own in edges.groupby("relation")}
    mine = ours.to_pandas()
    mine = (
        mine[(mine.pair_id == rows.pair_id.iloc[0])]
        .set_index(["search", "split", "relation"])
        .threshold_popularity
    )
    taken, n_checked = {}, 0
    for search, n_splits in (("binned10", _SPLITS), ("exact", exact_splits)):
        say(f"thresholds of the notebook: {search}, one pair, {n_splits} splits …")
        started = time.perf_counter()
        found = thresholds(rows, by_relation, range(n_splits), search)
        taken[search] = (time.perf_counter() - started) * n_pairs * _SPLITS / n_splits
        n_checked += _check(found, mine[search].to_dict(), search)
    return Race(ours_s, taken["binned10"], taken["exact"], n_pairs, n_checked)


def _check(found: Found, ours: Found, search: str) -> int:
    wrong = [key for key, threshold in found.items() if ours[key] != threshold]
    if wrong:
        raise SystemExit(
            f"{search}: {len(wrong)} thresholds differ, the first for (split, relation) {wrong[0]}"
        )
    return len(found)


def main() -> None:
    """Print tables for people and, as the last line, JSON for machines."""
    options = _options()
    if options.folder:
        options.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="longtail-warehouse-", dir=options.folder) as folder:
        done = _shown(steps(Path(folder, "one"), options.times, options.models), options.models)
        copied = timed_step("copy", copy_lake, Path(folder, "one"))
        raced = timed_step("thresholds", race_thresholds, Path(folder, "one"), options.exact_splits)
        shutil.rmtree(Path(folder, "one"))
        sizes = [done]
        for n_models in _MODELS:
            if n_models * (len(ASKED_BY) + len(FURTHER)) <= options.models * len(ASKED_BY) * options.growth:
                sizes.append(_shown(growth_steps(Path(folder, "grown"), options.times, n_models), n_models))
                shutil.rmtree(Path(folder, "grown"))
    race: Race = raced.found
    factor = race.n_pairs * _SPLITS / options.exact_splits
    print(
        f"\nThresholds of {race.n_pairs} pairs, {_SPLITS} splits: ours, both searches, {race.ours_s:.1f} s; the"
        f" notebook's binned10 {race.binned10_s:.0f} s (one pair measured, times {race.n_pairs}), exact"
        f" {race.exact_s:.0f} s (one pair, {options.exact_splits} splits measured, times {factor:.0f});"
        f" {race.n_checked} thresholds compared, all equal. thresholds_ratio compares the notebook's binned10 alone"
        " with both of ours."
    )
    grown = [_growth(size) for size in sizes]
    table(
        "How a build with its tests and its publication grows",
        ("answers", "build s", "publish s", "processor s", "peak MB", "temporary MB", "disk MB"),
        [
            (f"{size['answers']:,}", *(f"{size[key]:.0f}" for key in ("build_s", "publish_s", "cpu_s")),
             *(f"{size[key]:,.0f}" for key in ("peak_mb", "temp_mb", "disk_mb")))
            for size in grown
        ],
    )  # fmt: skip
    last_line({
        "full_build_s": done["build"].seconds, "rebuild_nothing_s": done["rebuild, nothing changed"].seconds,
        "rebuild_model_ratio": done["rebuild, one new model"].seconds / done["build"].seconds,
        "thresholds_ratio": race.binned10_s / race.ours_s,
        "s3_build_ratio": 1 + copied.found / done["build"].seconds,
        "report_s": done["report"].seconds, "report_mb": done["report"].found / 1e6,
        **grown[-1], "growth_ratio": _growth_ratio(grown),
    })  # fmt: skip


def _growth(done: Mapping[str, Step]) -> dict[str, Any]:
    """A size's answers, seconds, and peak MB of memory, of temporary files, and of all files with these."""
    built, published = done["build"], done["publish"]
    return {
        "answers": done["generate the lake"].found["answers"], "build_s": built.seconds, "publish_s": published.seconds,
        "cpu_s": built.cpu_s + published.cpu_s,
        **{key: max(getattr(step, key) for step in (built, published)) for key in ("peak_mb", "temp_mb", "disk_mb")},
        "whole": bool(published.found),  # a build that fails ends the benchmark
    }  # fmt: skip


def _growth_ratio(sizes: Sequence[Mapping[str, Any]]) -> float:
    """Seconds for an answer of the largest study, as a multiple of those of the smallest one of seven methods."""
    base = sizes[1] if len(sizes) > 1 else sizes[0]
    first, last = ((size["build_s"] + size["publish_s"]) / size["answers"] for size in (base, sizes[-1]))
    return float(last / first)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--times", type=float, default=1, help="questions, as a multiple of PopQA's 14,267")
    parser.add_argument("--models", type=int, default=10)
    parser.add_argument(
        "--growth", type=float, default=1, help="build studies of up to so many times the answers; 1 = none"
    )
    parser.add_argument(
        "--exact-splits", type=int, default=1, help="splits of the notebook's exact search, of 100"
    )
    parser.add_argument("--folder", type=Path, help="folder for the lakes and builds while it runs")
    options = parser.parse_args()
    if not 1 <= options.exact_splits <= _SPLITS:
        parser.error(f"--exact-splits {options.exact_splits}: a number from 1 to {_SPLITS} is needed")
    return options


def _shown(steps: Iterable[Step], n_models: int) -> dict[str, Step]:
    """Run the steps and print a table of them; returns them by name."""
    done = list(steps)
    rows = ", ".join(f"{n:,} {name}" for name, n in done[0].found.items())
    table(
        f"{machine('duckdb', 'dbt-core', 'dbt-duckdb', 'numpy')}\n{rows}; {n_models} models",
        ("step", "seconds", "processor s", "peak MB", "temporary MB", "result"),
        [
            (step.name, f"{step.seconds:.1f}", f"{step.cpu_s:.1f}", f"{step.peak_mb:.0f}", f"{step.temp_mb:.0f}",
             step.found)
            for step in done
        ],
    )  # fmt: skip
    return {step.name: step for step in done}


if __name__ == "__main__":
    main()
