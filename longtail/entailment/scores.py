"""Probabilities of entailment: each pair of texts is classified once in a home, for all models and studies.

The key of a probability is the classifier's stamp and a hash of the pair. It is stored every few seconds, so a killed
run computes little again. Its last digits depend on the batch, so all readers take it from the store.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from longtail.entailment.classifier import Classifier, Pair, model_of
from longtail.models.ray_workers import workers
from longtail.models.weights import find_weights
from longtail.progress import Progress
from longtail.storage.blob_store import BlobStore
from longtail.storage.fingerprints import code_version
from longtail.study.models import Model, Nli

_FILE = "entailments.sqlite"
_STORE_EVERY_S = 2.0
_STORE_AT_ONCE = 4_096
_CALL_PAIRS = 512


class Entailments:
    """The probabilities of one home; `cache` is its cache folder.

    Errors: `BackendError` where the classifier is missing.
    """

    def __init__(self, cache: Path, nli: Nli, log: logging.Logger) -> None:
        self._loader = _Loader(model_of(nli))
        self._weights = self._loader.weights
        name, revision = Path(nli.path).name, self._weights
        code = code_version(Classifier.__module__)
        self.stamp = f"{name}@{revision[:12]}-{code[:12]}"
        """What computes the probabilities; those of equal stamps are comparable."""
        self.n_new = 0
        """How many probabilities were computed since the construction."""
        self._store, self._log = BlobStore(cache / _FILE), log
        self._held = contextlib.ExitStack()
        self._answers: Callable[[Iterable[_Pairs]], Iterator[tuple[int, np.ndarray]]] | None = None

    def __enter__(self) -> Entailments:
        return self

    def __exit__(self, *_: object) -> None:
        self._store.close()
        self._held.close()

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
        if self._answers is None:
            asked = workers(self._loader, {"weights": self._weights}, self._log)
            self._answers = self._held.enter_context(asked)
        waiting: dict[str, bytes] = {}
        stored_at = time.monotonic()
        by_length = sorted(pairs, key=lambda pair: sum(map(len, pair)))
        parts = [by_length[at : at + _CALL_PAIRS] for at in range(0, len(pairs), _CALL_PAIRS)]
        with Progress(self._log, "entailment: pairs", len(pairs)) as progress:
            for place, values in self._answers(map(_Pairs, parts)):
                for pair, value in zip(parts[place], values, strict=True):
                    if np.isfinite(value):
                        waiting[self._key(pair)] = value.tobytes()
                        self.n_new += 1
                progress.add(len(parts[place]))
                if time.monotonic() - stored_at >= _STORE_EVERY_S or len(waiting) >= _STORE_AT_ONCE:
                    self._store.put_many(waiting)
                    waiting, stored_at = {}, time.monotonic()
        self._store.put_many(waiting)

    def _key(self, pair: Pair) -> str:
        premise, hypothesis = (text.encode("utf-8", "surrogatepass") for text in pair)
        together = len(premise).to_bytes(8, "big") + premise + hypothesis
        return f"{self.stamp}/{hashlib.sha256(together).hexdigest()[:32]}"


@dataclass(frozen=True)
class _Loader:
    """The classifier, for whoever computes."""

    model: Model

    @property
    def name(self) -> str:
        return "nli"

    @property
    def weights(self) -> str:
        return find_weights(self.model).revision

    def loaded(self) -> AbstractContextManager[Classifier]:
        return contextlib.closing(Classifier(self.model))

    def describe(self, model: Classifier) -> dict[str, Any]:
        return {"weights": self.weights}


@dataclass(frozen=True)
class _Pairs:
    pairs: Sequence[Pair]

    def answer(self, model: Classifier) -> np.ndarray:
        return model.probabilities(self.pairs)
