"""Probabilities of entailment: each pair of texts is classified once in a home, for all models and studies.

What belongs here: the store (`cache/entailments.sqlite`) and what is computed. What does not: the classifier
(`entailment.classifier`), and which pairs there are (`entailment.answers`).

The key of a probability is the classifier's stamp and a hash of the pair. It is stored every few seconds, so a killed
run computes little again. Its last digits depend on the batch, so all readers take it from the store.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dagster_project.core.entailment.classifier import Classifier, Pair, model_of
from dagster_project.core.models.weights import find_weights
from dagster_project.core.storage.blob_store import BlobStore
from dagster_project.core.storage.fingerprints import code_version
from dagster_project.core.study.text_models import Nli

_FILE = "entailments.sqlite"
_STORE_EVERY_S = 2.0
_STORE_AT_ONCE = 4_096


class Entailments:
    """The probabilities of one home; `cache` is its cache folder.

    Errors: `BackendError` where the classifier is missing.
    """

    def __init__(self, cache: Path, nli: Nli, log: logging.Logger) -> None:
        self._model = model_of(nli)
        name, revision = Path(nli.path).name, find_weights(self._model).revision
        code = code_version(Classifier.__module__)
        self.stamp = f"{name}@{revision[:12]}-{code[:12]}"
        """What computes the probabilities; those of equal stamps are comparable."""
        self.n_new = 0
        """How many probabilities were computed since the construction."""
        self._store, self._log = BlobStore(cache / _FILE), log
        self._classifier: Classifier | None = None

    def __enter__(self) -> Entailments:
        return self

    def __exit__(self, *_: object) -> None:
        self._store.close()
        if self._classifier is not None:
            self._classifier.close()

    def of(self, pairs: Sequence[Pair]) -> dict[Pair, float]:
        """The probability that each premise entails its hypothesis; a pair whose value is not finite is left out.

        `pairs` are distinct. What the store does not have is computed. Errors: `BackendError` where the classifier
        cannot be loaded; `LakeError` where the disk is full.
        """
        keys = [self._key(pair) for pair in pairs]
        found = self._store.get_many(keys)
        missing = [pair for pair, key in zip(pairs, keys, strict=True) if key not in found]
        if missing:
            self._compute(missing)
            found |= self._store.get_many([self._key(pair) for pair in missing])
        return {
            pair: float(np.frombuffer(found[key], dtype=np.float32)[0])
            for pair, key in zip(pairs, keys, strict=True)
            if key in found
        }

    def _compute(self, pairs: Sequence[Pair]) -> None:
        if self._classifier is None:
            self._classifier = Classifier(self._model)
        waiting: dict[str, bytes] = {}
        stored_at = time.monotonic()
        for rows, values in self._classifier.batches(pairs, self._log):
            for row, value in zip(rows, values.astype(np.float32), strict=True):
                if np.isfinite(value):
                    waiting[self._key(pairs[row])] = value.tobytes()
                    self.n_new += 1
            if time.monotonic() - stored_at >= _STORE_EVERY_S or len(waiting) >= _STORE_AT_ONCE:
                self._store.put_many(waiting)
                waiting, stored_at = {}, time.monotonic()
        self._store.put_many(waiting)

    def _key(self, pair: Pair) -> str:
        premise, hypothesis = (text.encode("utf-8", "surrogatepass") for text in pair)
        together = len(premise).to_bytes(8, "big") + premise + hypothesis
        return f"{self.stamp}/{hashlib.sha256(together).hexdigest()[:32]}"
