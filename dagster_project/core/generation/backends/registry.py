"""Which generation backends there are, as import strings: looking one up imports no engine.

What belongs here: names, import strings and declared capabilities. What does not: the backends themselves.
"""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from typing import Any

from dagster_project.core.errors import BackendError
from dagster_project.core.generation.backends.base import (
    CAPABILITIES,
    GENERATE,
    SAMPLE,
    SCORE,
    STREAM,
    Backend,
    Identity,
    Secret,
)
from dagster_project.core.study.study import IMPORTED, Model


@dataclass(frozen=True)
class Entry:
    """A backend class as `module:class`, and what it can do; the class declares the same.

    `check` is a function, also as `module:name`, that looks at once whether what a model's `path` names is there.
    """

    import_string: str
    capabilities: frozenset[str]
    check: str | None = None

    def load(self) -> Any:
        """The class, with `identify(model)` and a constructor that takes the model and a `Secret`."""
        return _imported(self.import_string)

    def check_path(self, model: Model) -> None:
        """Errors: `BackendError` where the model's path names nothing that is there."""
        if self.check is not None:
            _imported(self.check)(model)


def _imported(import_string: str) -> Any:
    module, name = import_string.split(":")
    return getattr(importlib.import_module(module), name)


_HERE = "dagster_project.core.generation.backends"
ENTRIES: dict[str, Entry] = {
    "transformers": Entry(
        f"{_HERE}.hf:TransformersBackend",
        frozenset({GENERATE, SAMPLE, SCORE}),
        f"{_HERE}.weights:check_folder",
    ),
    "openai": Entry(f"{_HERE}.openai:OpenAIBackend", frozenset({GENERATE, SAMPLE, STREAM})),
    "fake": Entry(f"{_HERE}.fake:FakeBackend", CAPABILITIES, f"{_HERE}.fake_script:read_script"),
}


def entry(model: Model, capability: str = GENERATE) -> Entry:
    """The entry of a model's backend. Errors: `BackendError` where it is unknown or lacks the capability."""
    if model.backend == IMPORTED:
        raise BackendError(
            f"model {model.name}: its answers are imported (results); it cannot {capability} any"
        )
    found = ENTRIES.get(model.backend)
    if found is None:
        known = ", ".join(sorted(ENTRIES))
        raise BackendError(f"model {model.name}: unknown backend {model.backend!r}; use one of: {known}")
    if capability not in found.capabilities:
        able = ", ".join(sorted(n for n, e in ENTRIES.items() if capability in e.capabilities)) or "none"
        raise BackendError(
            f"model {model.name}: backend {model.backend} cannot {capability}; backends that can: {able}"
        )
    return found


def identify(model: Model) -> Identity:
    """The identity of a model's weights, without loading them. Errors: `BackendError`."""
    identity: Identity = entry(model).load().identify(model)
    return identity


def load_backend(model: Model, secret: Secret = os.environ.get) -> Backend:
    """Load a model. Errors: `BackendError`, in one line."""
    backend: Backend = entry(model).load()(model, secret)
    return backend
