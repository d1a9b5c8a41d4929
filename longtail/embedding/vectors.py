"""Vectors of texts: each distinct text is embedded once in a home, for all models and studies.

The key of a vector is the encoder's stamp and a hash of the text. Each batch is stored at once, so a killed run embeds
little again. The last digits of a vector (1e-6) depend on the batch and on the device. So all
readers take it from the store, where the first one stays.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from longtail.embedding.declared import ANSWER_ENCODER, N_DIMENSIONS
from longtail.errors import LakeError
from longtail.models.placement import hold_device
from longtail.storage.blob_store import BlobStore
from longtail.study.models import Model

PART = 4_096
"""Texts whose vectors are in memory at a time: 6 MB."""
_FILE = "embeddings.sqlite"


@dataclass(frozen=True)
class Embedded:
    """What one call embedded. `unusable`: texts whose vector is not finite; they are not stored."""

    n_new: int
    unusable: frozenset[str]


class Vectors:
    """The vectors of one home. `cache` is its cache folder; `device` is a torch device, or `auto`: a GPU if there is
    one.
    """

    def __init__(self, cache: Path, device: str, log: logging.Logger) -> None:
        self._store = BlobStore(cache / _FILE)
        self.encoder, self._device, self._log = ANSWER_ENCODER.stamp, device, log

    def __enter__(self) -> Vectors:
        return self

    def __exit__(self, *_: object) -> None:
        self._store.close()

    def embed(self, texts: Sequence[str]) -> Embedded:
        """Embed the texts that the store does not have; `texts` are distinct.

        Errors: `BackendError` without the encoder's files or the device; `LakeError` where the disk is full.
        """
        missing = [text for part in _parts(texts) for text in self._missing(part)]
        if not missing:
            return Embedded(0, frozenset())
        self._log.info("embeddings: %d texts, %d of them new", len(texts), len(missing))
        unusable: list[str] = []
        with lease_for_encoder(self._device) as device:
            for rows, vectors in ANSWER_ENCODER.load(device).batches(missing, self._log):
                texts_of_batch = [missing[row] for row in rows]
                is_finite = np.isfinite(vectors).all(axis=1)
                unusable += [
                    text for text, usable in zip(texts_of_batch, is_finite, strict=True) if not usable
                ]
                keys = map(self._key, texts_of_batch)
                batch = zip(keys, vectors.astype(np.float32), is_finite, strict=True)
                self._store.put_many({key: vector.tobytes() for key, vector, usable in batch if usable})
        return Embedded(len(missing) - len(unusable), frozenset(unusable))

    def read(self, texts: Sequence[str]) -> np.ndarray:
        """float32 unit vectors of embedded texts, shape (len(texts), 384). Errors: `LakeError` where one is missing."""
        keys = [self._key(text) for text in texts]
        stored = self._store.get_many(list(dict.fromkeys(keys)))
        try:
            whole = b"".join(stored[key] for key in keys)
        except KeyError:
            raise LakeError(f"{self._store.path}: a vector has gone missing; run again") from None
        return np.frombuffer(whole, dtype=np.float32).reshape(-1, N_DIMENSIONS)

    def stream(self, texts: Sequence[str]) -> Iterator[tuple[Sequence[str], np.ndarray]]:
        """Parts of `texts` in their order, each with its vectors."""
        for part in _parts(texts):
            yield part, self.read(part)

    def _missing(self, texts: Sequence[str]) -> list[str]:
        keys = [self._key(text) for text in texts]
        stored = self._store.get_many(keys)
        return [text for text, key in zip(texts, keys, strict=True) if key not in stored]

    def _key(self, text: str) -> str:
        return f"{self.encoder}/{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def _parts(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    return (texts[start : start + PART] for start in range(0, len(texts), PART))


@contextlib.contextmanager
def lease_for_encoder(wanted: str, name: str = ANSWER_ENCODER.name) -> Iterator[str]:
    """An encoder's device, leased from other processes as long as it computes. Errors: `BackendError`."""
    with hold_device(Model(name=name, path=name, device=wanted)) as device:
        yield str(device)
