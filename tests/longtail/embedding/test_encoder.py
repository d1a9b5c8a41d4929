"""The encoder compared with sentence-transformers, its reference implementation."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from longtail.embedding.declared import ANSWER_ENCODER, N_DIMENSIONS
from longtail.embedding.encoder import _batches
from longtail.errors import LongtailError
from longtail.threads import thread_count

LOG = logging.getLogger("longtail-tests")
TEXTS = [
    "Ada Quill was born in Łódź.",
    "",
    "   ",
    "عربية 👩‍🚀 हिन्दी 世界",
    "nul\x00 and \u200f marks",
    "What is the capital of Poland?",
    "word " * 600,  # longer than the encoder reads
    "a",
    "Ada Quill was born in Łódź.",
]


def test_vectors_equal_sentence_transformers() -> None:
    sentence_transformers = pytest.importorskip("sentence_transformers")
    reference = sentence_transformers.SentenceTransformer(str(ANSWER_ENCODER.files.folder), device="cpu")
    assert reference.max_seq_length == ANSWER_ENCODER.settings.max_tokens
    expected = reference.encode(TEXTS, normalize_embeddings=True, show_progress_bar=False)
    vectors = ANSWER_ENCODER.load("cpu").encode(TEXTS, LOG)
    assert vectors.shape == (len(TEXTS), N_DIMENSIONS)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-6)
    np.testing.assert_array_equal(vectors[0], vectors[-1])  # equal texts, equal vectors, to the bit


def test_a_vector_does_not_depend_on_the_other_texts() -> None:
    together = ANSWER_ENCODER.load("cpu").encode(TEXTS, LOG)
    alone = np.concatenate([ANSWER_ENCODER.load("cpu").encode([text], LOG) for text in TEXTS])
    np.testing.assert_allclose(together, alone, atol=1e-6)
    assert ANSWER_ENCODER.load("cpu").encode([], LOG).shape == (0, N_DIMENSIONS)


def test_batches_hold_every_row_once_and_stay_small() -> None:
    lengths = [3, 256, 7, 7, 120, 1, 256, 256, 256, 256, 5000]
    batches = _batches(lengths, 1_024)
    assert sorted(row for batch in batches for row in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[row] for row in batch) <= 1_024


def test_threads_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGTAIL_THREADS", "3")
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert thread_count() == 3
    monkeypatch.delenv("LONGTAIL_THREADS")
    assert thread_count() == 2
    monkeypatch.delenv("OMP_NUM_THREADS")
    monkeypatch.setenv("LONGTAIL_THREADS", "")
    for list_of_openmp in ("", "2,1"):
        monkeypatch.setenv("OMP_NUM_THREADS", list_of_openmp)
        assert thread_count() >= 1
    for other in ("0", "-1", "many"):
        monkeypatch.setenv("LONGTAIL_THREADS", other)
        with pytest.raises(LongtailError, match=f"LONGTAIL_THREADS: '{other}' is not a number of threads"):
            thread_count()
