"""The encoder compared with sentence-transformers, its reference implementation, and its safety checks."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import numpy as np
import pytest

from longtail.embedding.encoder import (
    ENCODER,
    _batches,
    check_file,
    load_encoder,
    model_folder,
)
from longtail.errors import BackendError
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
    reference = sentence_transformers.SentenceTransformer(str(model_folder()), device="cpu")
    assert reference.max_seq_length == ENCODER.max_tokens
    expected = reference.encode(TEXTS, normalize_embeddings=True, show_progress_bar=False)
    vectors = load_encoder().encode(TEXTS, LOG)
    assert vectors.shape == (len(TEXTS), ENCODER.n_dimensions)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-6)
    np.testing.assert_array_equal(vectors[0], vectors[-1])  # equal texts, equal vectors, to the bit


def test_a_vector_does_not_depend_on_the_other_texts() -> None:
    together = load_encoder().encode(TEXTS, LOG)
    alone = np.concatenate([load_encoder().encode([text], LOG) for text in TEXTS])
    np.testing.assert_allclose(together, alone, atol=1e-6)
    assert load_encoder().encode([], LOG).shape == (0, ENCODER.n_dimensions)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("model.safetensors", ENCODER.weights_sha256),
        ("config.json", ENCODER.config_sha256),
        ("tokenizer.json", ENCODER.tokenizer_sha256),
    ],
)
def test_other_files_are_refused(tmp_path: Path, name: str, expected: str) -> None:
    file = tmp_path / name
    shutil.copy(model_folder() / name, file)
    check_file(file, expected)
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(BackendError, match=f"SHA-256 is [0-9a-f]{{64}}, expected {expected[:8]}.*reinstall"):
        check_file(file, expected)
    with pytest.raises(BackendError, match="cannot be read"):
        check_file(tmp_path / "absent", expected)


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
    for other in ("", "0", "-1", "many"):
        monkeypatch.setenv("LONGTAIL_THREADS", other)
        assert thread_count() >= 1
