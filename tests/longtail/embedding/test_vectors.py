"""The store of vectors: one vector for each text of a home, stored as it comes, and none that is not finite."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from longtail.embedding import vectors as module
from longtail.embedding.declared import ANSWER_ENCODER, N_DIMENSIONS
from longtail.embedding.encoder import Encoder
from longtail.embedding.vectors import Vectors
from longtail.errors import BackendError, LakeError

TEXTS = ["Łódź", "", "Paris", "Rome\x00", "Ada Quill"]


def opened(folder: Path, log: logging.Logger, device: str = "cpu") -> Vectors:
    return Vectors(folder, device, log)


def test_each_text_is_embedded_once_in_a_home(tmp_path: Path, log: logging.Logger) -> None:
    with opened(tmp_path, log) as first, opened(tmp_path, log) as second:
        assert first.embed(TEXTS[:3]).n_new == 3
        assert second.embed(TEXTS).n_new == 2
        assert first.embed(TEXTS).n_new == 0
        np.testing.assert_array_equal(first.read(TEXTS), second.read(TEXTS))
        np.testing.assert_allclose(
            first.read(TEXTS), ANSWER_ENCODER.load("cpu").encode(TEXTS, log), atol=1e-6
        )
        np.testing.assert_array_equal(first.read(["Paris", "", "Paris"])[[0, 2]], first.read(["Paris"] * 2))
        assert first.read([]).shape == (0, N_DIMENSIONS)
        with pytest.raises(LakeError, match="run again"):
            first.read(["nobody embedded this"])


def test_parts_come_in_order(tmp_path: Path, log: logging.Logger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PART", 2)
    with opened(tmp_path, log) as vectors:
        vectors.embed(TEXTS)
        parts = list(vectors.stream(TEXTS))
        assert [len(part) for part, _ in parts] == [2, 2, 1]
        assert [text for part, _ in parts for text in part] == TEXTS
        np.testing.assert_array_equal(np.concatenate([some for _, some in parts]), vectors.read(TEXTS))


def test_a_vector_that_is_not_finite_is_named_and_not_stored(
    tmp_path: Path, log: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Encoder.batches

    def broken(
        self: Encoder, texts: list[str], log: logging.Logger
    ) -> Iterator[tuple[list[int], np.ndarray]]:
        for rows, some in whole(self, texts, log):
            yield rows, np.where([[texts[row] == "Paris"] for row in rows], np.nan, some)

    with opened(tmp_path, log) as vectors:
        with monkeypatch.context() as patch:
            patch.setattr(Encoder, "batches", broken)
            embedded = vectors.embed(TEXTS)
        assert (embedded.n_new, embedded.unusable) == (len(TEXTS) - 1, {"Paris"})
        assert vectors.embed(TEXTS).n_new == 1  # it was not stored, and is tried again


def test_a_device_that_is_not_there_is_refused(tmp_path: Path, log: logging.Logger) -> None:
    with (
        opened(tmp_path, log, "cuda:99") as vectors,
        pytest.raises(BackendError, match="all-MiniLM-L6-v2: device"),
    ):
        vectors.embed(TEXTS)
    with opened(tmp_path, log, "abacus") as vectors, pytest.raises(BackendError, match="is no torch device"):
        vectors.embed(TEXTS)


def test_what_came_before_an_error_is_not_embedded_again(
    tmp_path: Path, log: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Encoder.batches

    def stopped(
        self: Encoder, texts: list[str], log: logging.Logger
    ) -> Iterator[tuple[list[int], np.ndarray]]:
        yield from islice(((rows, some) for text in texts for rows, some in whole(self, [text], log)), 1)
        raise OSError("stopped")

    with opened(tmp_path, log) as vectors:
        with monkeypatch.context() as patch:
            patch.setattr(Encoder, "batches", stopped)
            with pytest.raises(OSError, match="stopped"):
                vectors.embed(TEXTS)
        assert vectors.embed(TEXTS).n_new == len(TEXTS) - 1
