"""The models that one run holds, and the lock that keeps two runs from generating with the same one.

What belongs here: loading lazily, releasing, waiting. What does not: what is generated.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path

from dagster_project.core.generation.backends.base import Backend, Identity, Secret
from dagster_project.core.generation.backends.registry import identify, load_backend
from dagster_project.core.progress import Progress
from dagster_project.core.study.models import Model

_POLL_SECONDS = 0.5
_REMIND_SECONDS = 30.0


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


@contextlib.contextmanager
def model_lock(folder: Path, model_name: str, log: logging.Logger) -> Iterator[None]:
    """Hold `<folder>/generation-<model>.lock`; wait, and say so, while another process holds it.

    The lock is the kernel's (flock): it ends with the process, also after kill -9.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / f"generation-{model_name}.lock", "a+", encoding="ascii") as file:
        _acquire(file.fileno(), file.name, model_name, log)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def _acquire(descriptor: int, path: str, model_name: str, log: logging.Logger) -> None:
    reminded = float("-inf")
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() - reminded >= _REMIND_SECONDS:
                reminded = time.monotonic()
                owner = Path(path).read_text(encoding="ascii") or "unknown"
                log.info("%s: another run (process %s) generates with this model; waiting", model_name, owner)
            time.sleep(_POLL_SECONDS)
