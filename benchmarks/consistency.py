"""How fast answers are embedded and compared, beside sentence-transformers.

    python -m benchmarks.consistency --full

- `int_sim_ratio`: the mean cosine of every question's answers. sentence-transformers takes one question after the other
  (`util.cos_sim` of its vectors, mean over the pairs); ours takes all. Both begin with vectors in memory, all of them
  different. The least ratio of the two kinds of answers counts.
- `embedding_overhead`: embedding distinct texts into the home's store and reading them back, divided by
  sentence-transformers' `encode` of the same texts with the same number of threads.
- `peak_mb`: peak memory of a process that compares one model's answers out of DuckDB, all of them different.

`--full` takes PopQA's size: 14,267 questions with 9 answers and 10 samples each.
"""

from __future__ import annotations

import argparse
import functools
import logging
import multiprocessing
import os
import resource
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt

from benchmarks.harness import Contestant, last_line, machine, race, say, spread, table
from longtail.embedding.declared import ANSWER_ENCODER
from longtail.embedding.vectors import Vectors
from longtail.statistics.answer_similarities import compare_models, mean_cosines
from longtail.threads import thread_count

_LOG = logging.getLogger("longtail.benchmark")
_N_POPQA = 14_267
_SETS = {"paraphrases": 9, "samples": 10}
_DIMENSIONS = 384
_WORDS = (
    "silver",
    "river",
    "painter",
    "city",
    "north",
    "opera",
    "science",
    "the",
    "of",
    "first",
    "king",
    "jazz",
)

Values = npt.NDArray[Any]


def unit_vectors(n: int, seed: int) -> Values:
    """Random float32 unit vectors, shape (n, 384)."""
    vectors = np.random.default_rng(seed).standard_normal((n, _DIMENSIONS), dtype=np.float32)
    vectors += 0.5
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


def race_int_sim(n_questions: int, rounds: int) -> list[tuple[str, Contestant, Contestant]]:
    """(kind of answers, sentence-transformers, Longtail) after `rounds` rounds; their results are equal to 1e-5."""
    races = []
    for kind, size in _SETS.items():
        vectors = unit_vectors(n_questions * size, size)
        peer = Contestant("sentence-transformers, a question at a time", functools.partial(_loop, vectors, size),
                          n_questions)  # fmt: skip
        ours = Contestant("Longtail", functools.partial(_ours, vectors, size), n_questions)
        expected = _loop(vectors, size)
        race([peer, ours], rounds, functools.partial(_check, np.asarray(expected)))
        races.append((kind, peer, ours))
    return races


def _loop(vectors: Values, size: int) -> list[float]:
    from sentence_transformers import util

    pairs = np.triu_indices(size, 1)
    return [
        float(
            util.cos_sim(vectors[start : start + size], vectors[start : start + size]).numpy()[pairs].mean()
        )
        for start in range(0, len(vectors), size)
    ]


def _ours(vectors: Values, size: int) -> Sequence[float]:
    rows = np.arange(len(vectors)).reshape(-1, size)
    found: Any = mean_cosines(vectors, rows, np.ones(rows.shape))
    return found


def _check(expected: Values, name: str, found: Sequence[Any]) -> None:
    np.testing.assert_allclose(found, expected, atol=1e-5, err_msg=name)


def race_embedding(n_texts: int, rounds: int, folder: Path) -> list[Contestant]:
    """sentence-transformers and Longtail, which stores the vectors too, on the same distinct texts."""
    import torch
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(thread_count())
    texts = distinct_texts(n_texts)
    model = SentenceTransformer(str(ANSWER_ENCODER.files.folder), device="cpu")
    ANSWER_ENCODER.load("cpu")

    def peer() -> Any:  # arrays, which are sequences in all but their type
        return model.encode(texts, normalize_embeddings=True, show_progress_bar=False)

    stores = iter(range(rounds))

    def ours() -> Any:
        with Vectors(folder / str(next(stores)), "cpu", _LOG) as vectors:
            vectors.embed(texts)
            return np.concatenate([some for _, some in vectors.stream(texts)])

    contestants = [
        Contestant("sentence-transformers, encode", peer, n_texts),
        Contestant("Longtail, into the store and out of it", ours, n_texts),
    ]
    race(contestants, rounds, functools.partial(_check, peer()))
    return contestants


def distinct_texts(n: int) -> list[str]:
    """Short answers of one to six words, all different."""
    rng = np.random.default_rng(0)
    return [" ".join([*rng.choice(_WORDS, int(rng.integers(1, 6))), str(i)]) for i in range(n)]


def compare_in_duckdb(n_questions: int, folder: Path) -> dict[str, float]:
    """What dbt runs for one model: answers and vectors out of a DuckDB file, all different; seconds and peak memory."""
    path = folder / "warehouse.duckdb"
    in_process = functools.partial(ProcessPoolExecutor, 1, mp_context=multiprocessing.get_context("spawn"))
    with in_process() as pool:
        pool.submit(_write, path, n_questions).result()
    with in_process() as pool:
        return pool.submit(_compared, path).result()


def _write(path: Path, n_questions: int) -> None:
    vectors = unit_vectors(n_questions * sum(_SETS.values()), 0)
    with duckdb.connect(str(path)) as connection:
        connection.execute("set memory_limit = '2500MB'")
        connection.execute("create table vectors (text text, embedding float[384])")
        for start in range(0, len(vectors), 20_000):
            part = vectors[start : start + 20_000]
            rows = _arrow(np.arange(start, start + len(part)), part)  # noqa: F841 - DuckDB reads it by name
            connection.execute("insert into vectors select * from rows")
        first = 0
        for kind, size in _SETS.items():
            connection.execute(
                "create table if not exists sets (asked text, dataset text, question_id text, model text, prompt text,"
                " texts text[], counts bigint[])"
            )
            connection.execute(
                "insert into sets select $kind, 'd', i::text, 'm', 'p',"
                " [($first + i * $size + j)::text for j in range($size)], [1 for j in range($size)]"
                " from range($n) as questions (i)",
                {"kind": kind, "first": first, "size": size, "n": n_questions},
            )
            first += n_questions * size


def _arrow(numbers: Values, vectors: Values) -> Any:
    import pyarrow as pa

    lists = pa.FixedSizeListArray.from_arrays(vectors.reshape(-1), _DIMENSIONS)
    return pa.table({"text": [str(number) for number in numbers], "embedding": lists})


def _compared(path: Path) -> dict[str, float]:
    with duckdb.connect(str(path), read_only=True) as connection:
        connection.execute("set memory_limit = '2500MB'")
        connection.execute("set threads = 2")
        started = time.perf_counter()
        sets = connection.table("sets")
        embeddings = connection.sql("select 'm' as model, * from vectors")
        found = compare_models(sets, embeddings, 0.8)
        seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "peak_mb": peak, "n": found.num_rows}


def main() -> None:
    """Print tables for people and, as the last line, JSON for machines."""
    chosen = _options()
    n_questions = chosen.questions or (_N_POPQA if chosen.full else 4_000)
    n_texts = chosen.texts or (20_000 if chosen.full else 2_000)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    with tempfile.TemporaryDirectory(prefix="longtail-consistency-") as name:
        folder = Path(name)
        races = race_int_sim(n_questions, chosen.rounds)
        say("one model's answers out of DuckDB …")
        in_duckdb = compare_in_duckdb(n_questions, folder)
        peer, ours = race_embedding(n_texts, chosen.rounds, folder)
    ratios = [loop.median / own.median for _, loop, own in races]
    rows = [
        (
            f"{n_questions:,} questions × {_SETS[kind]} {kind}",
            one.name,
            f"{one.median:.3f}",
            spread(one),
            f"{ratio:.1f}×",
        )
        for (kind, *both), ratio in zip(races, ratios, strict=True)
        for one in both
    ]
    table("Mean cosine of each question's answers", ("answers", "by", "seconds", "range", "ratio"), rows)
    overhead = ours.median / peer.median
    table(
        f"Embedding {n_texts:,} distinct texts", ("by", "seconds", "range", "texts per second"),
        [(one.name, f"{one.median:.2f}", spread(one), f"{one.n / one.median:,.0f}") for one in (peer, ours)],
    )  # fmt: skip
    print(
        f"\ndbt's model for one model's {in_duckdb['n']:,.0f} sets of answers: {in_duckdb['seconds']:.2f} s with "
        f"entropies, peak {in_duckdb['peak_mb']:,.0f} MB"
    )
    print(
        f"\n{machine('numpy', 'duckdb', 'torch', 'sentence-transformers')}; {thread_count()} threads of the encoder"
    )
    last_line({"int_sim_ratio": min(ratios), "embedding_overhead": overhead, "peak_mb": in_duckdb["peak_mb"]})


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="benchmarks.consistency", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--full", action="store_true", help="PopQA's size, and 20,000 texts")
    parser.add_argument("--questions", type=int, help="questions whose answers are compared")
    parser.add_argument("--texts", type=int, help="distinct texts that are embedded")
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args()


if __name__ == "__main__":
    main()
