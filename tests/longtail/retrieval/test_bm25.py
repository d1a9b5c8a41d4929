"""BM25 against a brute-force implementation of Lucene's formula, and its ranking and tokens."""

from __future__ import annotations

import logging
import math
import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longtail.methods import METHODS
from longtail.retrieval.base import Context, Hit, Query, load_retriever
from longtail.retrieval.bm25 import best_rows, tokens_of
from longtail.retrieval.stored_passages import Passage, StoredPassages

LOG = logging.getLogger("longtail-tests")


def passage(number: int, text: str, title: str = "") -> Passage:
    return Passage(f"Q{number:03d}-0", f"Q{number:03d}", title, 0, text)


def found(
    folder: Path, passages: list[Passage], questions: list[str], k: int, shard_rows: int = 1_000
) -> list[list[Hit]]:
    context = Context(StoredPassages.of(passages, shard_rows), folder, folder, LOG, k)
    retriever = load_retriever(METHODS["bm25"])
    retriever.build(context)
    return retriever.search(context, [Query("d", str(i), text, "", ()) for i, text in enumerate(questions)])


def brute_force(passages: list[Passage], question: str) -> dict[str, float]:
    documents = {p.passage_id: Counter(tokens_of(f"{p.title} {p.text}")) for p in passages}
    mean_length = sum(d.total() for d in documents.values()) / len(documents)
    scores = {}
    for passage_id, counts in documents.items():
        score = 0.0
        for token in tokens_of(question):
            n = sum(token in d for d in documents.values())
            if counts[token]:
                idf = math.log(1 + (len(documents) - n + 0.5) / (n + 0.5))
                score += (
                    idf * counts[token] / (counts[token] + 1.5 * (0.25 + 0.75 * counts.total() / mean_length))
                )
        scores[passage_id] = score
    return scores


def test_scores_equal_brute_force(tmp_path: Path) -> None:
    rng = random.Random(7)
    words = ["ada", "Łódź", "weaver", "born", "in", "the", "city", "of", "कर्म", "é", "père", "x1"]
    passages = [
        passage(i, " ".join(rng.choices(words, k=rng.randint(1, 40))), title=rng.choice(words))
        for i in range(60)
    ]
    questions = [" ".join(rng.choices([*words, "unseen"], k=5)) for _ in range(40)]
    for question, hits in zip(questions, found(tmp_path, passages, questions, 10), strict=True):
        expected = brute_force(passages, question)
        assert [hit.score for hit in hits] == pytest.approx(
            [expected[hit.passage_id] for hit in hits], rel=1e-5
        )
        best = sorted((s for s in expected.values() if s > 0), reverse=True)[:10]
        assert [hit.score for hit in hits] == pytest.approx(best, rel=1e-5)


def test_equal_scores_go_by_passage_id(tmp_path: Path) -> None:
    passages = [passage(i, "Ada Quill was born in Rome") for i in range(20)]  # namesakes with the same text
    hits = found(tmp_path, passages, ["Where was Ada Quill born?"], 3)[0]
    assert [hit.passage_id for hit in hits] == ["Q000-0", "Q001-0", "Q002-0"]


def test_no_shared_token_is_no_hit(tmp_path: Path) -> None:
    passages = [passage(1, "one two"), passage(2, "three")]
    assert found(tmp_path, passages, ["four", "", "?!", "three"], 5) == [
        [],
        [],
        [],
        [Hit("Q002-0", pytest.approx(0.7, abs=0.5))],
    ]


def test_passages_without_any_token(tmp_path: Path) -> None:
    assert found(tmp_path, [passage(1, "?!"), passage(2, "…")], ["anything"], 2) == [[]]


def test_hostile_tokens_survive_storing(tmp_path: Path) -> None:
    text = 'quote" back\\slash 👩‍🚀 \u200fعربية nul\x00byte \ud7ff'
    passages = [passage(1, text), passage(2, "other")]
    for word in ("QUOTE", "slash", "عربية", "nul"):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        assert found(folder, passages, [word], 1)[0][0].passage_id == "Q001-0"


def test_tokens() -> None:
    assert tokens_of("What is Ada's occupation?") == ["what", "is", "ada", "s", "occupation"]
    assert tokens_of("Cafe\u0301 CAFÉ STRASSE straße") == ["café", "café", "strasse", "strasse"]
    assert tokens_of("हिन्दी") == ["हिन्दी"]  # vowel signs are marks: they do not break a word
    assert tokens_of("ﬁne ①") == ["fine", "1"]


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0, 1.5]), min_size=1, max_size=40), st.integers(1, 45))
@settings(max_examples=200)
def test_best_rows_equal_a_full_sort(scores: list[float], k: int) -> None:
    expected = sorted((row for row, s in enumerate(scores) if s > 0), key=lambda row: (-scores[row], row))[:k]
    assert best_rows(np.array(scores, dtype=np.float32), k).tolist() == expected
