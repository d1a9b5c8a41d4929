"""Random passages: reproducible, uniform, distinct within a question, and independent of all other questions."""

from __future__ import annotations

import logging
from collections import Counter
from itertools import islice
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from longtail.retrieval.base import Context, Query
from longtail.retrieval.retrievers.random import RandomPassages, draws
from longtail.retrieval.stored_passages import Passage, StoredPassages


@given(st.integers(0, 9), st.text(max_size=5), st.text(max_size=5), st.integers(1, 60), st.integers(1, 70))
def test_rows_are_distinct_and_as_many_as_wanted(
    seed: int, dataset: str, question: str, n: int, k: int
) -> None:
    rows = list(islice(draws(seed, dataset, question, n), k))
    assert len(rows) == len(set(rows)) == min(n, k)
    assert set(rows) <= set(range(n))
    assert list(islice(draws(seed, dataset, question, n), k)) == rows


def test_every_passage_is_as_likely_at_every_rank() -> None:
    drawn = [list(islice(draws(0, "facts", f"Q{number}", 20), 3)) for number in range(6_000)]
    for rank in range(3):
        counts = Counter(rows[rank] for rows in drawn)
        assert chisquare([counts[row] for row in range(20)]).pvalue > 1e-4
    pairs = Counter(tuple(rows[:2]) for rows in drawn)
    assert len(pairs) == 20 * 19


def test_seed_dataset_and_question_each_decide_the_draw() -> None:
    drawn = {
        tuple(islice(draws(seed, dataset, question, 10**6), 3))
        for seed in range(3)
        for dataset in ("d", "e")
        for question in ("Q1", "Q2")
    }
    assert len(drawn) == 12


def test_the_order_of_the_questions_does_not_matter(tmp_path: Path, log: logging.Logger) -> None:
    passages = [Passage(f"Q{number:02d}-0", None, "", 0, "text") for number in range(30)]
    queries = [Query("d", str(number), "text", "Q1", ()) for number in range(50)]
    context = Context(StoredPassages.of(passages, 7), tmp_path, tmp_path, log, k=4, seed=7)
    found = RandomPassages().search(context, queries)
    assert RandomPassages().search(context, queries[::-1]) == found[::-1]
    assert RandomPassages().search(context, queries[10:11]) == found[10:11]
