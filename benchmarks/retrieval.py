"""How fast passages are indexed, searched and encoded, beside the libraries for that, and how much memory it takes.

    python -m benchmarks.retrieval --full

- `bm25_overhead`: counting, weighing, storing and searching in shards, divided by bare bm25s (its numpy backend), which
  keeps all in memory. Both take the same tokens, and making these is part of both times.
- `rank_bm25_ratio`: questions a second of our search, divided by rank-bm25's.
- `dense_overhead`: exact search of stored vectors part by part, divided by faiss's flat index in memory.
- `encoder_overhead`: encoding passages, divided by sentence-transformers' `encode`.
- `peak_mb_100k`, `peak_mb_1m`: the most memory of a process that writes, indexes and searches so many passages.
- `load_s`: opening the stored index and answering one question.
- `ivf_pq_recall`: the share of the 20 nearest that it finds, of vectors around centres.

Without `--full` there are 100,000 passages and 1,000 questions, and no `peak_mb_1m`. rank-bm25 (else there is no ratio)
and tantivy are in the table if they are installed. tantivy has other tokens and another BM25, so only its times compare.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.generated_passages import open_home, questions_of
from benchmarks.harness import Contestant, last_line, machine, race, say, spread, table
from benchmarks.retrieval_approximate import DIMENSIONS, compare_approximate
from benchmarks.retrieval_process import K, search
from longtail.embedding.declared import ANSWER_ENCODER
from longtail.retrieval.bm25 import tokens_of
from longtail.retrieval.dense import Flat, Nearest, nearest
from longtail.retrieval.passage_vectors import PART_ROWS, read_vectors
from longtail.retrieval.stored_passages import StoredPassages, open_passages, texts_to_index
from longtail.storage.files import write_array
from longtail.threads import thread_count

_LOG = logging.getLogger("longtail.benchmark")
_RANK_BM25_QUESTIONS = 10


def main() -> None:
    """Run all comparisons; the last line is JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--full", action="store_true", help="1,000,000 passages and 14,267 questions")
    parser.add_argument("--passages", type=int)
    parser.add_argument("--questions", type=int)
    parser.add_argument("--encoded", type=int, default=200, help="passages to encode")
    parser.add_argument("--approximate", type=int, default=20_000, help="vectors for IVF-PQ")
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    n = chosen.passages or (1_000_000 if chosen.full else 100_000)
    questions = questions_of(chosen.questions or (14_267 if chosen.full else 1_000))
    print(machine("bm25s", "faiss-cpu", "sentence-transformers", "torch"), f"{thread_count()} threads")
    with tempfile.TemporaryDirectory(prefix="longtail-retrieval-") as name:
        folder = Path(name)
        peaks = {
            size: _process(folder / str(size), size, len(questions)) for size in sorted({min(n, 100_000), n})
        }
        os.environ["LONGTAIL_HOME"] = str(folder / str(n))
        study, lake = open_home(folder / str(n), n)
        passages = open_passages(lake, study.home.indexes, _LOG)
        figures = _sparse(
            passages, questions, peaks[n], lambda asked: search(study, lake, asked), chosen.rounds
        )
        figures["dense_overhead"] = _dense(folder / "vectors", n, len(questions), chosen.rounds)
        figures["encoder_overhead"] = _encoding(list(islice(passages, chosen.encoded)), chosen.rounds)
        figures |= compare_approximate(folder / "approximate", min(n, chosen.approximate))
    _print_processes(peaks)
    names = {size: "1m" if size == 1_000_000 else f"{size // 1000}k" for size in peaks}
    told = {f"peak_mb_{names[size]}": one["peak_mb"] for size, one in peaks.items()}
    last_line({**figures, **told, "load_s": peaks[n]["load_s"]})


def _process(home: Path, n_passages: int, n_questions: int) -> dict[str, float]:
    say(f"a process with {n_passages:,} passages …")
    command = [
        sys.executable,
        "-m",
        "benchmarks.retrieval_process",
        str(home),
        str(n_passages),
        str(n_questions),
    ]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    told: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return told


def _print_processes(peaks: dict[int, dict[str, float]]) -> None:
    names = ("write_s", "sort_s", "build_s", "load_s", "search_s", "peak_mb")
    rows = [(f"{size:,}", *(f"{one[name]:.2f}" for name in names)) for size, one in peaks.items()]
    table("One process: write, sort, index, open, search", ("passages", *names), rows)


def _sparse(
    passages: StoredPassages,
    questions: Sequence[str],
    ours: dict[str, float],
    searched: Callable[[Sequence[str]], Any],
    rounds: int,
) -> dict[str, float | None]:
    """Ratios of BM25; the time of our build is that of the process that made the index."""
    texts = [text for shard in passages.shards() for text in texts_to_index(shard)]
    expected = [[hit.score for hit in hits] for hits in searched(questions)]
    built = [
        ("bm25s", _bm25s, questions),
        *(
            (name, make, some)
            for name, package, make, some in (
                ("rank-bm25", "rank_bm25", _rank_bm25, questions[:_RANK_BM25_QUESTIONS]),
                ("tantivy", "tantivy", _tantivy, questions),
            )
            if importlib.util.find_spec(package)
        ),
    ]
    rows, seconds = [], {}
    mine = Contestant("Longtail", lambda: searched(questions), len(questions))
    race([mine], rounds, lambda *_: None)
    for name, make, asked in built:
        say(f"{name}: index of {len(texts):,} passages …")
        started = time.perf_counter()
        answer = make(texts)
        build_s = time.perf_counter() - started
        peer = Contestant(name, functools.partial(answer, asked), len(asked))
        race([peer], rounds, functools.partial(_check_scores, expected))
        seconds[name] = build_s, peer
        rows.append((name, f"{build_s:.1f}", f"{len(asked) / peer.median:,.1f}", spread(peer)))
        del answer
    rows.insert(0, ("Longtail", f"{ours['build_s']:.1f}", f"{mine.n / mine.median:,.1f}", spread(mine)))
    table(f"BM25: {len(texts):,} passages", ("", "index s", "questions/s", "search s"), rows)
    build_s, peer = seconds["bm25s"]
    slow = seconds["rank-bm25"][1] if "rank-bm25" in seconds else None
    return {
        "bm25_overhead": (ours["build_s"] + mine.median) / (build_s + peer.median),
        "rank_bm25_ratio": slow.median / slow.n / (mine.median / mine.n) if slow else None,
    }


def _check_scores(expected: Sequence[Sequence[float]], name: str, found: Sequence[Any]) -> None:
    """bm25s's scores are ours to 1e-5; the others have another formula."""
    if name == "bm25s":
        for own, scores in zip(expected, found, strict=True):
            np.testing.assert_allclose(own, scores[scores > 0], atol=1e-5)


def _bm25s(texts: Sequence[str]) -> Callable[[Sequence[str]], Sequence[Any]]:
    import bm25s

    index = bm25s.BM25(k1=1.5, b=0.75, method="lucene")
    index.index([tokens_of(text) for text in texts], show_progress=False)

    def answer(questions: Sequence[str]) -> Sequence[Any]:
        tokens = [tokens_of(text) for text in questions]
        found: Sequence[Any] = index.retrieve(
            tokens, k=K, show_progress=False, n_threads=thread_count()
        ).scores
        return found

    return answer


def _rank_bm25(texts: Sequence[str]) -> Callable[[Sequence[str]], Sequence[Any]]:
    from rank_bm25 import BM25Okapi

    index = BM25Okapi([tokens_of(text) for text in texts])
    return lambda questions: [index.get_top_n(tokens_of(text), texts, K) for text in questions]


def _tantivy(texts: Sequence[str]) -> Callable[[Sequence[str]], Sequence[Any]]:
    import tantivy

    schema = tantivy.SchemaBuilder().add_text_field("text").build()
    index = tantivy.Index(schema)
    writer = index.writer(num_threads=thread_count())
    for text in texts:
        writer.add_document(tantivy.Document(text=text))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    searcher = index.searcher()
    return lambda questions: [
        searcher.search(index.parse_query(text, ["text"]), K).hits for text in questions
    ]


def _dense(folder: Path, n: int, n_questions: int, rounds: int) -> float:
    """Our time of exact search divided by that of faiss."""
    import faiss

    faiss.omp_set_num_threads(thread_count())
    folder.mkdir()
    whole = faiss.IndexFlatIP(DIMENSIONS)
    rng = np.random.default_rng(0)
    for number, start in enumerate(range(0, n, PART_ROWS)):
        vectors = rng.standard_normal((min(PART_ROWS, n - start), DIMENSIONS), dtype=np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        write_array(folder / f"{number:05}.npy", vectors)
        (folder / f"{number:05}.json").write_text('{"n_cut": 0, "n_without_vector": 0}', encoding="utf-8")
        whole.add(vectors)
    queries = rng.standard_normal((n_questions, DIMENSIONS), dtype=np.float32)
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)

    def ours() -> np.ndarray:
        best = Nearest.none(n_questions)
        for rows, part in read_vectors(folder):
            found = nearest(Flat(part, "cpu"), queries, K)
            best = best.join_with(Nearest(rows[found.rows], found.scores), K)
        return best.scores

    def check(_name: str, scores: Sequence[Any]) -> None:
        np.testing.assert_allclose(np.sort(scores), np.sort(expected), atol=2e-6)

    expected = whole.search(queries, K)[0]
    peer = Contestant("faiss, flat, in memory", lambda: whole.search(queries, K)[0], n_questions)
    mine = Contestant("Longtail, from files", ours, n_questions)
    return _compared(f"Dense: {n:,} vectors of {DIMENSIONS}", mine, peer, rounds, check)


def _encoding(passages: Sequence[Any], rounds: int) -> float:
    """Our time divided by that of sentence-transformers."""
    from sentence_transformers import SentenceTransformer

    texts = [f"{passage.title}\n{passage.text}" for passage in passages]
    encoder = SentenceTransformer(str(ANSWER_ENCODER.files.folder), device="cpu")
    ANSWER_ENCODER.load("cpu")
    peer = Contestant(
        "sentence-transformers", lambda: encoder.encode(texts, normalize_embeddings=True), len(texts)
    )
    mine = Contestant("Longtail", lambda: ANSWER_ENCODER.load("cpu").encode(texts, _LOG), len(texts))
    return _compared("Encoding", mine, peer, rounds, lambda *_: None)


def _compared(
    title: str, mine: Contestant, peer: Contestant, rounds: int, check: Callable[[str, Sequence[Any]], None]
) -> float:
    race([peer, mine], rounds, check)
    rows = [(one.name, f"{one.n / one.median:,.1f}", spread(one)) for one in (mine, peer)]
    table(title, ("", "a second", "seconds"), rows)
    return mine.median / peer.median


if __name__ == "__main__":
    main()
