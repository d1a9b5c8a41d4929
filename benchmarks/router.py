"""The router: decisions and lookups a second in one process, and waiting times over HTTP under concurrent clients.

Server and clients are two processes of this machine, and share its cores.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from benchmarks.harness import last_line, machine, say, table
from longtail.router import Candidate, Names, Router, load_names, load_router
from longtail.router.decisions import FORMAT, VERSION, names_file, seal
from longtail.router.service import NAMES, RouterStore

ROUTER = "popqa.zero_shot.model.closed_book.bm25"
RELATIONS = [f"relation_{number}" for number in range(16)]
Question = dict[str, Any]


def write_routers(folder: Path, n_entities: int) -> None:
    """One router with a threshold per relation, and the names of `n_entities` entities, each with two aliases."""
    counted = {"n": 100, "accuracy_with": 0.7, "accuracy_without": 0.4}
    rules = {
        relation: {
            "decision": "below", "threshold_popularity": 100.5 * (i + 1),
            "overall": counted, "below": counted, "above": counted,
        }
        for i, relation in enumerate(("all", *RELATIONS))
    }  # fmt: skip
    fields = {
        "signal": "popularity", "features": ["popularity", "relation"], "policy": "per_relation", "why": "made up",
        "fixed": "always", "rules": rules, "promises": {},
    }  # fmt: skip
    (folder / f"{ROUTER}.json").write_bytes(seal(FORMAT, VERSION, fields))
    entities = (
        (
            Candidate(f"Q{i}", f"Entity {i}", "a made-up entity", float(i)),
            [f"E. {i}", f"the other {i % 1_000}"],
        )
        for i in range(n_entities)
    )
    (folder / NAMES).write_bytes(names_file(entities, {})[0])


def questions(n: int) -> list[Question]:
    """Questions with and without popularity, of known and unknown relations."""
    rng = random.Random(1)
    relations = [*RELATIONS, "unknown", None]
    return [
        {
            "popularity": None if rng.random() < 0.05 else rng.lognormvariate(6, 2),
            "relation": rng.choice(relations),
        }
        for _ in range(n)
    ]


def microseconds(call: Callable[[Any], object], arguments: Sequence[Any], rounds: int) -> float:
    """Median over rounds of the mean time of one call."""
    means = []
    for _ in range(rounds):
        started = time.perf_counter()
        for argument in arguments:
            call(argument)
        means.append((time.perf_counter() - started) / len(arguments) * 1e6)
    return median(means)


async def ask(port: int, path: str, bodies: Sequence[bytes], clients: int) -> tuple[list[float], list[Any]]:
    """Seconds and reply of each request; every client has one connection and sends its next request after each reply."""
    requests = [_request(path, body) for body in bodies]
    seconds, replies = [0.0] * len(requests), [None] * len(requests)

    async def client(number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for i in range(number, len(requests), clients):
            started = time.perf_counter()
            writer.write(requests[i])
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
            body = await reader.readexactly(length)
            seconds[i] = time.perf_counter() - started
            replies[i] = json.loads(body)
        writer.close()

    await asyncio.gather(*(client(number) for number in range(clients)))
    return seconds, replies


def _request(path: str, body: bytes) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return f"{head}\r\n\r\n".encode() + body


def over_http(folder: Path, asked: Sequence[Question], clients: int) -> tuple[list[float], float, float]:
    """Seconds of each `/decide`, seconds of all of them together, and decisions a second by `/decide_batch`."""
    router = load_router(folder / f"{ROUTER}.json")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    command = [sys.executable, "-m", "benchmarks.router", "--serve", str(folder), str(port)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        _wait_for(port)
        bodies = [json.dumps({"router": ROUTER, **question}).encode() for question in asked]
        asyncio.run(ask(port, "/decide", bodies[:clients], clients))  # connections, first imports
        started = time.perf_counter()
        seconds, replies = asyncio.run(ask(port, "/decide", bodies, clients))
        together = time.perf_counter() - started
        pairs = zip(asked, replies, strict=True)
        if any(reply != asdict(router.decide(**question)) for question, reply in pairs):
            raise SystemExit("a reply differs from the decision of the file")
        batch = json.dumps({"router": ROUTER, "questions": list(asked[:1_000])}).encode()
        in_batches, _ = asyncio.run(ask(port, "/decide_batch", [batch] * 10, 1))
        return seconds, together, min(1_000, len(asked)) / median(in_batches)
    finally:
        server.terminate()
        server.wait()


def _wait_for(port: int) -> None:
    for _ in range(600):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise SystemExit("the service did not start")


def serve(folder: Path, port: int) -> None:
    """What `make router` serves, without a study."""
    import uvicorn

    from longtail.commands.router import SERVED, application

    uvicorn.run(application(RouterStore(folder)), host="127.0.0.1", port=port, **SERVED)


def in_process(
    router: Router, names: Names, asked: Sequence[Question], n_entities: int
) -> tuple[float, float]:
    """Microseconds of a decision and of a lookup."""
    decide = microseconds(lambda one: router.decide(one["popularity"], one["relation"]), asked, 5)
    wanted = [f"ENTITY {7 * i % n_entities}" for i in range(20_000)]
    return decide, microseconds(names.lookup, wanted, 3)


def main() -> None:
    """Print a table for people and, as the last line, JSON for machines."""
    options = _options()
    if options.serve:
        serve(Path(options.serve[0]), int(options.serve[1]))
        return
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        say(f"writing a router and the names of {options.entities:,} entities …")
        write_routers(folder, options.entities)
        router, names = load_router(folder / f"{ROUTER}.json"), load_names(folder / NAMES)
        asked = questions(options.requests)
        decide_us, lookup_us = in_process(router, names, asked, options.entities)
        say(f"{options.clients} clients, {options.requests:,} requests …")
        seconds, together, batched = over_http(folder, asked, options.clients)
    percentiles = quantiles(seconds, n=100)
    table(
        "The router", ("what", "result"),
        [
            ("decisions a second in one process", f"{1e6 / decide_us:,.0f} ({decide_us:.2f} µs each)"),
            (f"lookups a second among {len(names):,} names", f"{1e6 / lookup_us:,.0f} ({lookup_us:.1f} µs each)"),
            (f"requests a second to /decide, {options.clients} clients", f"{len(seconds) / together:,.0f}"),
            ("waiting time of /decide, median", f"{1e3 * percentiles[49]:.1f} ms"),
            ("waiting time of /decide, 99 % are below", f"{1e3 * percentiles[98]:.1f} ms"),
            ("decisions a second by /decide_batch, one client", f"{batched:,.0f}"),
        ],
    )  # fmt: skip
    print(f"\n{machine('fastapi', 'uvicorn')}; every reply was compared with the file's decision")
    last_line({
        "decide_us": decide_us, "lookup_us": lookup_us, "requests_per_s": len(seconds) / together,
        "p50_ms": 1e3 * percentiles[49], "p99_ms": 1e3 * percentiles[98], "batched_per_s": batched,
    })  # fmt: skip


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.router", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--requests", type=int, default=50_000, help="requests to /decide")
    parser.add_argument("--clients", type=int, default=64, help="clients at the same time")
    parser.add_argument("--entities", type=int, default=100_000, help="entities with names")
    parser.add_argument("--serve", nargs=2, metavar=("FOLDER", "PORT"), help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
