"""The models that one run holds."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import TypeVar

from longtail.generation.backends.base import Backend, Identity, Secret
from longtail.generation.backends.registry import identify, load_backend
from longtail.generation.engine.calls import Answerer, Local, OnRay
from longtail.needs import CLUSTER
from longtail.progress import Progress
from longtail.study.models import Model

Kind = TypeVar("Kind", bound=Answerer)


class ModelSession:
    """Holds at most one loaded model, loaded when it is first needed and kept until another is asked for.

    So a run that goes model by model loads each once, and a run whose partitions are all current loads none.
    """

    def __init__(self, log: logging.Logger, secret: Secret = os.environ.get) -> None:
        self._log = log
        self._secret = secret
        self._identities: dict[Model, Identity] = {}
        self._loaded: tuple[Model, Answerer] | None = None
        self.n_loads = 0

    def __enter__(self) -> ModelSession:
        return self

    def __exit__(self, *_: object) -> None:
        self._release()

    def identity(self, model: Model) -> Identity:
        """Which weights the model's path holds, known without loading them."""
        if model not in self._identities:
            self._identities[model] = identify(model)
        return self._identities[model]

    def answerer(self, model: Model) -> Answerer:
        """The loaded model: on the workers of `$LONGTAIL_RAY`, else in this process. Errors: `BackendError`."""
        if not os.environ.get(CLUSTER) or model.service:
            return self._local(model)
        return self._held(model, OnRay, lambda: OnRay(model, self.identity(model), self._log))

    def backend(self, model: Model) -> Backend:
        """The model, loaded in this process. Errors: `BackendError`."""
        return self._local(model).backend

    def _local(self, model: Model) -> Local:
        return self._held(model, Local, lambda: Local(load_backend(model, self._secret)))

    def _held(self, model: Model, kind: type[Kind], load: Callable[[], Kind]) -> Kind:
        if self._loaded is not None and self._loaded[0] == model and isinstance(self._loaded[1], kind):
            return self._loaded[1]
        self._release()
        progress = Progress(self._log, f"{model.name}: loading {model.path}")
        with progress:
            loaded = load()
        self._loaded = (model, loaded)
        self.n_loads += 1
        progress.done()
        return loaded

    def _release(self) -> None:
        if self._loaded is not None:
            self._loaded[1].close()
            self._loaded = None
