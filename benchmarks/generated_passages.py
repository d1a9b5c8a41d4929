"""Passages and questions of any number, whose words are as frequent as Zipf's law says, for the retrieval benchmark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from longtail.storage.lake import Lake, Streamed
from longtail.study.file import load_study
from longtail.study.study import Study

VOCABULARY = 500_000
WORDS = 100
QUESTION_WORDS = 8
_AT_ONCE = 10_000
_STUDY = """
name: retrieval
description: Generated passages
source: {kind: sandbox, seed: 0, facts_per_relation: 8, snapshot: "2026-10"}
datasets: [{name: sandbox}]
prompts: [{name: plain}]
models: [{name: fake, path: "fake:echo", backend: fake}]
methods: [bm25]
popularity: {measure: page_views, n_months: 1, last_month: "2026-10"}
"""


def texts_of(n: int, n_words: int, seed: int) -> Iterator[str]:
    """`n` texts of `n_words` words; the same texts for the same seed."""
    shares = 1 / np.arange(1, VOCABULARY + 1)
    ends = np.cumsum(shares / shares.sum())
    words = np.array([f"w{number}" for number in range(VOCABULARY)], dtype=object)
    rng = np.random.default_rng(seed)
    for start in range(0, n, _AT_ONCE):
        ranks = np.searchsorted(ends, rng.random((min(_AT_ONCE, n - start), n_words)))
        yield from map(" ".join, words[np.minimum(ranks, VOCABULARY - 1)])


def questions_of(n: int) -> list[str]:
    """`n` questions of eight words."""
    return list(texts_of(n, QUESTION_WORDS, seed=1))


def open_home(folder: Path, n: int) -> tuple[Study, Lake]:
    """A study in `folder` whose lake has `n` passages; they are written unless they are there."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "study.yaml"
    path.write_text(_STUDY, encoding="utf-8")
    study = load_study(path)
    lake = Lake(study.home.lake)
    if lake.stamp("passages") is None:
        lake.write("passages", Streamed.of("passages", _rows(n)), fingerprint=str(n))
    return study, lake


def _rows(n: int) -> Iterator[dict[str, Any]]:
    for number, text in enumerate(texts_of(n, WORDS, seed=0)):
        yield {
            "passage_id": f"generated:{number:08}",
            "title": f"w{number % VOCABULARY}",
            "position": 0,
            "text": text,
            "source": "sandbox",
        }
