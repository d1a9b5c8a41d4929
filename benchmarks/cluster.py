"""One model's answers by two shards and by Ray's workers, beside one process; the row cache in Postgres beside SQLite.

All must leave the same results. Ray runs on this machine.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import pwd
import secrets
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest.mock
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.harness import last_line, machine, say, table
from benchmarks.prompts import StreamedPrompt, sandbox_questions
from longtail.generation.backends.base import Generation, Identity
from longtail.generation.engine.job import Job, Shard, complete
from longtail.generation.engine.row_cache import DATABASE, CachedRow, RowCache
from longtail.generation.engine.session import ModelSession
from longtail.study.models import Model

ONE, SHARDS, RAY_1, RAY_2 = CONTESTANTS = ("one process", "two shards", "one Ray worker", "two Ray workers")
PROCESSES = {SHARDS: ["1/2", "2/2"]}
WORKERS = {RAY_1: "1", RAY_2: "2"}


def main() -> None:
    """Time the contestants in turn, or be one of their processes."""
    parser = argparse.ArgumentParser(
        description="two shards and Ray's workers beside one process, one thread each"
    )
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
    with ray_head() as (address, _, token):
        for number in range(options.rounds):
            for name in CONTESTANTS:
                say(f"round {number + 1} of {options.rounds}: {name} …")
                workers = WORKERS.get(name, "")
                ray = {"LONGTAIL_RAY": address, "LONGTAIL_RAY_WORKERS": workers, "RAY_AUTH_TOKEN": token}
                shards = PROCESSES.get(name, ["1/1"])
                taken, found = _timed(shards, options.model, options.questions, ray if workers else {})
                seconds[name].append(taken)
                texts.add(found)
    if len(texts) != 1:
        raise SystemExit("error: the contestants left different results")
    of = {name: median(own) for name, own in seconds.items()}
    ratios = {"scaling_2": of[RAY_1] / of[RAY_2], "shards_scaling_2": of[ONE] / of[SHARDS]}
    print(machine("torch", "transformers", "ray"), f"load before {load:.2f}")
    rows = [[name, f"{of[name]:.2f}", f"{min(own):.2f} to {max(own):.2f}"] for name, own in seconds.items()]
    table(
        f"{16 * options.questions:,} answers of {options.model}, one thread each",
        ["", "median s", "spread"],
        rows,
    )
    if max(ratios.values()) > 2:
        raise SystemExit(
            f"error: two were {max(ratios.values()):.2f} times as fast as one: the machine was not quiet"
        )
    figures = {**ratios, "ray_overhead": of[RAY_1] / of[ONE] - 1}
    if postgres_programs():
        with postgres_server() as (address, _):
            figures["pg_cache_ratio"] = race_caches(address)
    last_line(figures)


def race_caches(address: str, n_rows: int = 50_000, per_batch: int = 250) -> float:
    """How many times as many rows a second a row cache in Postgres stores and finds as one in SQLite."""
    text = "an answer of a usual length " * 4
    accounts: dict[str, Any] = {
        "prompt_tokens": 300,
        "new_tokens": 15,
        "n_truncated_tokens": 0,
        "latency_ms": 1.0,
    }
    row = CachedRow(Generation(text, **accounts, batch_size=per_batch, shared_tokens=200), "engine", "origin")
    keys = [number.to_bytes(32, "big") for number in range(n_rows)]
    seconds: dict[str, list[float]] = {"": [], address: []}
    for number in range(3):
        for database, taken in seconds.items():
            identity = Identity(f"bench {number} {os.getpid()}", "float32", "none", "fake", "1")
            with (
                tempfile.TemporaryDirectory(prefix="longtail-bench-") as folder,
                unittest.mock.patch.dict(os.environ, {DATABASE: database}),
                RowCache(Path(folder), identity, logging.getLogger("longtail")) as cache,
            ):
                started = time.perf_counter()
                for at in range(0, n_rows, per_batch):
                    cache.store(dict.fromkeys(keys[at : at + per_batch], row))
                if len(cache.find(keys)) != n_rows:
                    raise SystemExit("error: rows are missing in the cache")
                taken.append(time.perf_counter() - started)
    sqlite, postgres = (median(taken) for taken in seconds.values())
    say(
        f"row cache, {n_rows:,} rows: SQLite {n_rows / sqlite:,.0f}, Postgres {n_rows / postgres:,.0f} rows a second"
    )
    return sqlite / postgres


def postgres_programs() -> Path | None:
    """The folder of the newest Postgres on this machine."""
    return max(Path("/usr/lib/postgresql").glob("*/bin"), default=None)


@contextlib.contextmanager
def postgres_server(options: str = "") -> Iterator[tuple[str, Callable[[str], None]]]:
    """A server of Postgres on this machine: the address of its database, and what starts, stops and restarts it."""
    programs = postgres_programs()
    user = "postgres" if os.getuid() == 0 else None  # the server refuses root
    folder = Path(tempfile.mkdtemp(prefix="longtail-postgres-"))
    if user:
        os.chown(folder, pwd.getpwnam(user).pw_uid, -1)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def command(name: str, *arguments: str) -> None:
        subprocess.run(
            [f"{programs}/{name}", *arguments], cwd=folder, user=user, check=True, stdout=subprocess.DEVNULL
        )

    def control(what: str) -> None:
        own = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 {options}"
        more = ["-o", own, "-l", str(folder / "log")] if what == "start" else ["-m", "fast"]
        command("pg_ctl", "-D", str(folder / "data"), "-w", *more, what)

    try:
        command("initdb", "-D", str(folder / "data"), "-A", "trust", "-U", "longtail")
        control("start")
        yield f"postgresql://longtail@127.0.0.1:{port}/postgres", control
        control("stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def ray_head() -> Iterator[tuple[str, subprocess.Popen[bytes], str]]:
    """The head of a Ray cluster with two cores on this machine: its address, its process, and its token."""
    token = secrets.token_hex(16)
    with ray_node(["--head", "--port=0", "--num-cpus=2", "--include-dashboard=false"], token) as (
        head,
        folder,
    ):
        yield (folder / "ray_current_cluster").read_text(), head, token


@contextlib.contextmanager
def ray_node(
    options: Sequence[str], token: str | None = None
) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """One machine of a cluster, as processes of one session with a folder; `token`: else that of the environment."""
    variables = {"RAY_AUTH_MODE": "token", "RAY_USAGE_STATS_ENABLED": "0", "PYTHONUNBUFFERED": "1"}
    folder = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))  # a socket's path must be short
    place = [] if "--address" in options else [f"--temp-dir={folder}"]
    process = subprocess.Popen(
        [
            Path(sys.executable).with_name("ray"),
            "start",
            "--block",
            "--node-ip-address=127.0.0.1",
            *options,
            *place,
        ],
        env={**os.environ, **variables, "RAY_AUTH_TOKEN": token or os.environ["RAY_AUTH_TOKEN"]},
        stdout=(folder / "log").open("wb"),
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        # A head writes its address after it has said that it started.
        address = folder / "ray_current_cluster"
        while "Ray runtime started" not in (said := (folder / "log").read_text()) or (
            place and not (address.exists() and address.read_text())
        ):
            if process.poll() is not None:
                raise SystemExit(f"error: Ray did not start: {said}")
            time.sleep(0.1)
        yield process, folder
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _timed(
    shards: Sequence[str], model: str, n_questions: int, variables: Mapping[str, str]
) -> tuple[float, tuple[tuple[bytes, bytes], ...]]:
    """Seconds until all shards have ended, and the results that they left."""
    with tempfile.TemporaryDirectory(prefix="longtail-bench-") as folder, contextlib.ExitStack() as stack:
        processes = [
            stack.enter_context(_process(shard, model, n_questions, folder, variables)) for shard in shards
        ]
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
def _process(
    shard: str, model: str, n_questions: int, folder: str, variables: Mapping[str, str]
) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "benchmarks.cluster", "--model", model, "--questions", str(n_questions)]
    command += ["--shard", shard, "--folder", folder]
    alone = {**os.environ, "LONGTAIL_THREADS": "1", "OMP_NUM_THREADS": "1", **variables}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=alone, text=True, stdin=pipe, stdout=pipe) as process:
        try:
            yield process
        finally:
            process.kill()


def _compute(path: str, n_questions: int, folder: Path, number: int, count: int) -> None:
    log, model = logging.getLogger("longtail"), Model(name="asked", path=path, batch_tokens=2048)
    with ModelSession(log) as session, RowCache(folder, session.identity(model), log) as cache:
        session.answerer(model)
        items = [StreamedPrompt(one.question, ()) for one in sandbox_questions(n_questions)]
        print("ready", flush=True)
        sys.stdin.readline()
        complete(Job(model, cache, session, "bench", "answers", log, shard=Shard(number, count)), items)


if __name__ == "__main__":
    main()
