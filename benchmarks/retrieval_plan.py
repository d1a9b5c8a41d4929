"""What 21 million passages would take on this machine: measured rates, times the sizes of Wikipedia.

What belongs here: the sums. What does not: measuring (`retrieval`). A rate is taken as it was measured, on this machine
and at this load; an encoder with other layers is counted by its multiplications.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from benchmarks.harness import table
from dagster_project.core.embedding.settings import Hnsw
from dagster_project.core.retrieval.approximate import (
    CENTRE_SAMPLE,
    PIECE_PARTS,
    default_nlist,
    sub_vectors_of,
)
from dagster_project.core.retrieval.passage_vectors import PART_ROWS

PASSAGES, DIMENSIONS, QUESTIONS = 21_000_000, 768, 14_267
_BASE_ENCODER = (12 * 768**2) / (6 * 384**2)
"""Multiplications for a token of an encoder of BERT's base size, divided by those of all-MiniLM-L6-v2."""
_KMEANS_ROUNDS = 10
_PIECE = PIECE_PARTS * PART_ROWS


@dataclass(frozen=True)
class Rates:
    """What was measured, with vectors of `dimensions`.

    `bm25_build`: seconds a passage; `bm25_search`: seconds for a question and a passage; `bm25_bytes`: of a passage.
    `encode`: seconds a passage. `product`: seconds for a multiplication of exact search, reading included. `train`:
    seconds to train IVF-PQ; `code`: seconds to add a vector to it; `link`: to add one to a graph of `n_linked`.
    """

    dimensions: int
    bm25_build: float
    bm25_search: float
    bm25_bytes: float
    encode: float
    product: float
    train: float
    code: float
    link: float
    n_linked: int


def print_plan(rates: Rates) -> None:
    """A table of hours, disk and memory."""
    wider = DIMENSIONS / rates.dimensions
    nlist = default_nlist(PASSAGES)
    assigned = (PASSAGES + CENTRE_SAMPLE * nlist * _KMEANS_ROUNDS) * nlist * DIMENSIONS * rates.product
    code = sub_vectors_of(DIMENSIONS) + 8
    graph = DIMENSIONS * 2 + Hnsw.links * 2 * 4 + 24
    deeper = math.log(_PIECE) / math.log(rates.n_linked)
    part = PART_ROWS * DIMENSIONS * (2 + 4)
    rows = [
        _row("BM25: index", PASSAGES * rates.bm25_build, PASSAGES * rates.bm25_bytes, None),
        _row(f"BM25: {QUESTIONS:,} questions", PASSAGES * QUESTIONS * rates.bm25_search, None, None),
        _row(
            "encoding by a model of BERT's base size, float16",
            PASSAGES * rates.encode * _BASE_ENCODER,
            PASSAGES * DIMENSIONS * 2,
            part,
        ),
        _row(
            f"exact search: {QUESTIONS:,} questions",
            PASSAGES * QUESTIONS * DIMENSIONS * rates.product,
            None,
            part,
        ),
        _row(
            f"IVF-PQ, {nlist:,} lists",
            assigned + (rates.train + PASSAGES * rates.code) * wider,
            PASSAGES * code,
            max(PASSAGES * code, CENTRE_SAMPLE * nlist * DIMENSIONS * (2 + 4)),
        ),
        _row(
            f"HNSW, {math.ceil(PASSAGES / _PIECE)} graphs",
            PASSAGES * rates.link * wider * deeper,
            PASSAGES * graph,
            _PIECE * graph,
        ),
    ]
    title = f"Plan: {PASSAGES:,} passages, {DIMENSIONS} dimensions, by these rates"
    table(title, ("work", "hours", "disk GB", "memory GB for it"), rows)


def _row(work: str, seconds: float, disk: float | None, memory: float | None) -> tuple[str, ...]:
    sizes = ("" if size is None else f"{size / 1e9:,.1f}" for size in (disk, memory))
    return (work, f"{seconds / 3600:,.1f}", *sizes)
