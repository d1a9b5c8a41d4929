"""One model's answers by two processes with a shard each, beside one process: `make bench-shards`.

What belongs here: processes of one thread each that share a row cache, and the seconds until the last has ended, once the
models are loaded. What does not: the speed of one process (`generation`). All must leave the same results.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

from benchmarks.harness import last_line, machine, say, table
from benchmarks.prompts import StreamedPrompt, sandbox_questions
from dagster_project.core.generation.engine.job import Job, Shard
from dagster_project.core.generation.engine.resume import complete
from dagster_project.core.generation.engine.row_cache import RowCache
from dagster_project.core.generation.engine.session import ModelSession
from dagster_project.core.study.models import Model

CONTESTANTS = {"one process": ["1/1"], "two shards": ["1/2", "2/2"]}


def main() -> None:
    """Time the contestants in turn, or be one of their processes."""
    parser = argparse.ArgumentParser(description="two shards beside one process, one thread each")
    parser.add_argument("--model", default="sandbox:l", help="path of the model (default: sandbox:l)")
    parser.add_argument("--questions", type=int, default=600, help="questions of each of 16 relations")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--shard", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.shard:
        _compute(options.model, options.questions, options.folder, *map(int, options.shard.split("/")))
        return
    load = os.getloadavg()[0]
    seconds: dict[str, list[float]] = {name: [] for name in CONTESTANTS}
    texts = set()
    for number in range(options.rounds):
        for name, shards in CONTESTANTS.items():
            say(f"round {number + 1} of {options.rounds}: {name} …")
            taken, found = _timed(shards, options.model, options.questions)
            seconds[name].append(taken)
            texts.add(found)
    if len(texts) != 1:
        raise SystemExit("error: the contestants left different results")
    scaling = median(seconds["one process"]) / median(seconds["two shards"])
    print(machine("torch", "transformers"), f"load before {load:.2f}")
    rows = [
        [name, f"{median(own):.2f}", f"{min(own):.2f} to {max(own):.2f}"] for name, own in seconds.items()
    ]
    table(
        f"{16 * options.questions:,} answers of {options.model}, one thread each",
        ["", "median s", "spread"],
        rows,
    )
    if scaling > len(CONTESTANTS["two shards"]):
        raise SystemExit(f"error: two shards were {scaling:.2f} times as fast: the machine was not quiet")
    last_line({"scaling_2": scaling})


def _timed(
    shards: Sequence[str], model: str, n_questions: int
) -> tuple[float, tuple[tuple[bytes, bytes], ...]]:
    """Seconds until all shards have ended, and the results that they left."""
    with tempfile.TemporaryDirectory(prefix="longtail-bench-") as folder, contextlib.ExitStack() as stack:
        processes = [stack.enter_context(_process(shard, model, n_questions, folder)) for shard in shards]
        for one in processes:
            if not one.stdout or one.stdout.readline() != "ready\n":
                raise SystemExit("error: a process did not start; its message stands above")
        started = time.perf_counter()
        for one in processes:
            if one.stdin:
                one.stdin.close()
        if any(one.wait() for one in processes):
            raise SystemExit("error: a process failed; its message stands above")
        seconds = time.perf_counter() - started
        (cache,) = Path(folder).glob("*.sqlite")
        with contextlib.closing(sqlite3.connect(cache)) as found:
            rows = tuple(found.execute("select key, text from generations order by key"))
        return seconds, rows


@contextlib.contextmanager
def _process(shard: str, model: str, n_questions: int, folder: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "benchmarks.shards", "--model", model, "--questions", str(n_questions)]
    command += ["--shard", shard, "--folder", folder]
    alone, pipe = {**os.environ, "LONGTAIL_THREADS": "1", "OMP_NUM_THREADS": "1"}, subprocess.PIPE
    with subprocess.Popen(command, env=alone, text=True, stdin=pipe, stdout=pipe) as process:
        try:
            yield process
        finally:
            process.kill()


def _compute(path: str, n_questions: int, folder: Path, number: int, count: int) -> None:
    log, model = logging.getLogger("longtail"), Model(name="asked", path=path, batch_tokens=2048)
    with ModelSession(log) as session, RowCache(folder, session.identity(model), log) as cache:
        session.backend(model)
        items = [StreamedPrompt(one.question, ()) for one in sandbox_questions(n_questions)]
        print("ready", flush=True)
        sys.stdin.readline()
        complete(Job(model, cache, session, "bench", "answers", log, shard=Shard(number, count)), items)


if __name__ == "__main__":
    main()
