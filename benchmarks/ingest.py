"""How fast facts and page views are read: dumps compared with decompression, a whole build, a refresh by the API.

    python -m benchmarks.ingest --megabytes 1000

Ratios are medians of rounds in which decompressing and reading take turns, each in its own process, with the same
decompressor and the same number of decompressing threads. Reading has one more thread, which parses the lines while the
next ones are decompressed. Decompressing alone reads into one buffer and throws it away.

The refresh is short: `--requests` titles at the pace that Wikimedia asks for, from the sandbox's API. The three threads
wait for the limiter during a share of their time that does not depend on the number of titles. The length of a whole
refresh follows from the pace.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from benchmarks.generated_dumps import MONTH, Dump, page_view_dump, truthy_dump
from benchmarks.harness import last_line, machine, say, table
from longtail.parsing.line_files import PIECE, DumpFile, RejectedRows, open_stream
from longtail.questions.build import build_questions
from longtail.relations.relation import relation_set
from longtail.sandbox.server import SandboxServer
from longtail.sandbox.world import Pages, World
from longtail.storage.lake import Lake
from longtail.study.file import load_study
from longtail.threads import thread_count
from longtail.transfer.client import HttpClient
from longtail.transfer.http import Clock
from longtail.transfer.limits import PAGE_VIEW_API
from longtail.wikimedia.articles import fetch_page_views
from longtail.wikimedia.ingest import ingest_entities, ingest_triples
from longtail.wikimedia.page_view_dump import read_page_views
from longtail.wikimedia.page_views import ingest_page_view_months
from longtail.wikimedia.services import page_view_dump_in_cache, truthy_dump_in_cache
from longtail.wikimedia.truthy_dump import read_statements, read_terms

QUESTIONS = 14_267
_LOG = logging.getLogger("longtail")
_STUDY = """name: ingest_benchmark
description: the benchmark of ingest
source: {{kind: sandbox, seed: 0, facts_per_relation: {facts}, snapshot: "{month}", facts_from: truthy_dump,
  views_from: dump}}
datasets: [{{name: popqa}}]
prompts: [{{name: zero_shot}}]
models: [{{name: m, path: fake, backend: fake}}]
popularity: {{n_months: 1, last_month: "{month}"}}
"""


def decompress(path: Path, threads: int) -> int:
    """Decompress a whole file without keeping it; return the number of bytes. Reading is measured against this."""
    stream = open_stream(path, threads)
    n_bytes = 0
    try:
        while piece := stream.read(PIECE):
            n_bytes += len(piece)
    finally:
        stream.close()
    return n_bytes


@dataclass(frozen=True)
class Measured:
    """Seconds, processor seconds, peak memory of the process in MB, and the results, for checking."""

    seconds: float
    cpu_s: float
    peak_mb: float
    found: Any


def measured(work: Callable[..., Any], *arguments: Any) -> Measured:
    """Run `work` in its own process."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(_timed, work, *arguments).result()


def _timed(work: Callable[..., Any], *arguments: Any) -> Measured:
    started, cpu = time.perf_counter(), time.process_time()
    found = work(*arguments)
    seconds, cpu_s = time.perf_counter() - started, time.process_time() - cpu
    return Measured(seconds, cpu_s, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3, found)


def read_views(path: Path, titles: Sequence[str], threads: int) -> dict[str, int]:
    """The views of the world's articles."""
    os.environ["LONGTAIL_THREADS"] = str(threads)
    return read_page_views(path, titles, _LOG).views


def read_facts(path: Path, threads: int) -> tuple[int, int]:
    """The number of statements of the sixteen relations: those of the world, and all."""
    properties = [relation.property_id for relation in relation_set("popqa")]
    found = read_statements(DumpFile(path, threads=threads), properties, RejectedRows(most=0), _LOG)
    tables = [found.of(property_id) for property_id in properties]
    ours = (pc.match_substring_regex(table["subject_id"], "^Q9.{8}") for table in tables)
    return sum(pc.sum(one).as_py() or 0 for one in ours), sum(table.num_rows for table in tables)


def read_labels(path: Path, ids: Sequence[str], threads: int) -> int:
    """Entities of the world that have an English label in the dump."""
    terms = read_terms(DumpFile(path, threads=threads), ids, RejectedRows(most=0), _LOG)
    return sum(told is not None and "en" in told.document["labels"] for _, told in terms.of(ids))


@dataclass(frozen=True)
class Ratio:
    """Seconds and processor seconds of decompressing alone and of reading, each the median of the rounds."""

    name: str
    dump: Dump
    decompress_s: float
    read_s: float
    decompress_cpu_s: float
    read_cpu_s: float
    peak_mb: float

    @property
    def ratio(self) -> float:
        return self.read_s / self.decompress_s

    @property
    def cpu_ratio(self) -> float:
        return self.read_cpu_s / self.decompress_cpu_s

    def row(self) -> list[str]:
        megabytes = self.dump.n_bytes / 1e6
        return [
            self.name,
            f"{megabytes:,.0f}",
            f"{self.decompress_s:.1f}",
            f"{self.read_s:.1f}",
            f"{megabytes / self.read_s:.0f}",
            f"{self.ratio:.2f}",
            f"{self.cpu_ratio:.2f}",
            f"{self.peak_mb:.0f}",
        ]


def compare(
    name: str, dump: Dump, rounds: int, threads: int, expected: Any, work: Callable[..., Any], *more: Any
) -> Ratio:
    """Decompress and read in turn. The reader must find the expected results."""
    bare, read = [], []
    for number in range(1, rounds + 1):
        say(f"{name}: round {number} of {rounds} …")
        bare.append(measured(decompress, dump.path, threads))
        read.append(measured(work, dump.path, *more, threads))
        if read[-1].found != expected:
            raise SystemExit(f"{name}: found {str(read[-1].found)[:200]}, expected {str(expected)[:200]}")
    bare_s, read_s = (statistics.median(one.seconds for one in part) for part in (bare, read))
    bare_cpu_s, read_cpu_s = (statistics.median(one.cpu_s for one in part) for part in (bare, read))
    ratio = Ratio(name, dump, bare_s, read_s, bare_cpu_s, read_cpu_s, max(one.peak_mb for one in read))
    say(f"{name}: {ratio.ratio:.2f} times as long, {ratio.cpu_ratio:.2f} times the processor time")
    return ratio


def end_to_end(folder: Path, facts: int, truthy: Dump, views: Dump) -> tuple[float, int]:
    """Facts, entities, a month's page views and questions of a world, from local dumps to the lake."""
    os.environ["LONGTAIL_HOME"] = str(folder / "home")
    path = folder / "study.yaml"
    path.write_text(_STUDY.format(facts=facts, month=MONTH), encoding="utf-8")
    study = load_study(path)
    (study.home.cache / "dumps").mkdir(parents=True)
    truthy_dump_in_cache(study.source, study.home).symlink_to(truthy.path)
    page_view_dump_in_cache(study.source, study.home, MONTH).symlink_to(views.path)
    lake = Lake(study.home.lake)
    lake.ensure_schemas()
    started = time.perf_counter()
    ingest_triples(study, lake, _LOG)
    ingest_entities(study, lake, _LOG)
    ingest_page_view_months(study, lake, [MONTH], _LOG)
    questions = build_questions(study, lake, _LOG)
    return time.perf_counter() - started, questions.stamp.n_rows


def refresh(folder: Path, facts: int, n_requests: int) -> tuple[float, float]:
    """(share of the threads' time spent waiting for the limiter, seconds) of a refresh of `n_requests` titles."""
    world = World(0, facts)
    titles = [title for entity in world.entities() if (title := Pages(world).title(entity))][:n_requests]
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        time.sleep(seconds)

    with (
        SandboxServer(world) as server,
        HttpClient(clock=Clock(sleep=wait), limits=folder / "limits", limits_loopback=True) as client,
    ):
        if server.content.pages:
            server.content.pages.views(titles[0], MONTH)  # the first call reads all titles
        url = f"{server.base_url}/api/rest_v1/metrics/pageviews/per-article"
        started = time.perf_counter()
        found = fetch_page_views(client, url, titles, [MONTH], _LOG)
        seconds = time.perf_counter() - started
        if any(views[MONTH] is None for views in found):
            raise SystemExit("refresh: an article has no views")
        return sum(waits) / (PAGE_VIEW_API.max_parallel * seconds), seconds


def main() -> None:
    """Print the tables and, last, the numbers as JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ingest", description=__doc__)
    parser.add_argument("--megabytes", type=int, default=1_000, help="size of each dump, uncompressed")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each comparison")
    parser.add_argument("--threads", type=int, default=thread_count(), help="threads that decompress")
    parser.add_argument("--requests", type=int, default=120, help="titles of the refresh by the API")
    parser.add_argument(
        "--folder", type=Path, help="folder in which dumps are made; default: a temporary folder"
    )
    chosen = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
        _run(Path(folder), chosen)


def _run(folder: Path, chosen: argparse.Namespace) -> None:
    facts = -(-QUESTIONS // len(relation_set("popqa")))
    world, threads = World(0, facts), chosen.threads
    views = page_view_dump(world, folder / "views.bz2", chosen.megabytes * 1_000_000)
    truthy = truthy_dump(world, folder / "truthy.nt.bz2", chosen.megabytes * 1_000_000)
    expected = {
        Pages(world).title(entity): world.monthly_views(entity.entity_id, MONTH)
        for entity in world.entities()
        if entity.article_title
    }
    ids = [entity.entity_id for entity in world.entities()]
    ours = sum(1 for _ in world.triples())
    in_all = ours + truthy.filler_statements
    n = chosen.rounds
    ratios = [
        compare("page views", views, n, threads, expected, read_views, list(expected)),
        compare("truthy: facts", truthy, n, threads, (ours, in_all), read_facts),
        compare("truthy: terms", truthy, n, threads, len(ids), read_labels, ids),
    ]
    say("end to end …")
    whole_s, n_questions = end_to_end(folder, facts, truthy, views)
    say(f"refresh of {chosen.requests} titles …")
    share, refresh_s = refresh(folder, facts, chosen.requests)
    header = ("dump", "MB", "decompress s", "read s", "MB/s", "ratio", "CPU ratio", "reader's peak MB")
    table(f"Dumps, {threads} threads that decompress", header, [ratio.row() for ratio in ratios])
    print(f"\n{n_questions:,} questions from local dumps: {whole_s:.1f} s")
    print(
        f"refresh by the API: {chosen.requests} titles in {refresh_s:.1f} s, {share:.1%} of it waiting for the limiter;"
    )
    print(f"at that pace {QUESTIONS:,} titles take {QUESTIONS * PAGE_VIEW_API.interval_s / 60:.0f} minutes")
    print(machine("rapidgzip", "pyarrow", "numpy"))
    last_line(
        {
            "pageview_dump_ratio": ratios[0].ratio,
            "truthy_dump_ratio": max(ratio.ratio for ratio in ratios[1:]),
            "peak_mb": max(ratio.peak_mb for ratio in ratios),
            "end_to_end_s": whole_s,
            "limiter_wait_share": share,
        }
    )


if __name__ == "__main__":
    main()
