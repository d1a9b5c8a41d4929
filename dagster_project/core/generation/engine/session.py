"""The models that one run holds.

What belongs here: loading lazily, releasing. What does not: what is generated.
"""

from __future__ import annotations

import logging
import os

from dagster_project.core.generation.backends.base import Backend, Identity, Secret
from dagster_project.core.generation.backends.registry import identify, load_backend
from dagster_project.core.progress import Progress
from dagster_project.core.study.models import Model


class ModelSession:
    """Holds at most one loaded model, loaded when it is first needed and kept until another is asked for.

    So a run that goes model by model loads each once, and a run whose partitions are all current loads none.
    """

    def __init__(self, log: logging.Logger, secret: Secret = os.environ.get) -> None:
        self._log = log
        self._secret = secret
        self._identities: dict[Model, Identity] = {}
        self._loaded: tuple[Model, Backend] | None = None
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

    def backend(self, model: Model) -> Backend:
        """The loaded model. Errors: `BackendError`."""
        if self._loaded is None or self._loaded[0] != model:
            self._release()
            progress = Progress(self._log, f"{model.name}: loading {model.path}")
            with progress:
                self._loaded = (model, load_backend(model, self._secret))
            self.n_loads += 1
            progress.done()
        return self._loaded[1]

    def _release(self) -> None:
        if self._loaded is not None:
            self._loaded[1].close()
            self._loaded = None
