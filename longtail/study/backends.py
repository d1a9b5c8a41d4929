"""The backends that may generate a study's answers: one record each.

A new backend is a module with a record `BACKEND`, in `generation.backends.kinds` or of an installed package (group
`longtail.backends` of entry points), and has the module's name. Reading the records imports no engine.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from longtail.listed import Listed, ListedModules

GENERATE = "generate"
SAMPLE = "sample"
SCORE = "score"
STREAM = "stream"
MEASURE = "measure the confidence of its texts"
PASSAGES = "read passages apart from the prompt"
CAPABILITIES = frozenset({GENERATE, SAMPLE, SCORE, STREAM, MEASURE, PASSAGES})

IMPORTED = "imported"
UNKNOWN = "unknown"
DTYPES = ("float32", "bfloat16", "float16")
QUANTISATIONS = ("none", "8bit", "4bit")
LOCAL_KEYS = frozenset({
    "path", "revision", "dtype", "quantisation", "device", "device_map", "batch_tokens", "device_hour_usd",
    "thinking_tokens", "obtain",
})  # fmt: skip
"""The keys of a model whose weights this machine loads."""


@dataclass(frozen=True)
class Backend:
    """A backend: its class as `module:class`, its capabilities (the class declares the same), and its keys.

    A backend without a class loads no model: its answers come from files.

    `check` is a function, as `module:name`, that finds out at once whether all that a model needs is there: its `path`,
    a key, a package. `keys` are the
    model's keys that only some backends understand and this one does. The key `needs` is required; `because` says what
    it holds. `dtype` and `quantisation` are the default values of these keys; so is `passages`, but for studies that
    retrieve fewer.
    """

    import_string: str | None
    capabilities: frozenset[str]
    keys: frozenset[str]
    check: str | None = None
    needs: str | None = None
    because: str = ""
    dtypes: tuple[str, ...] = DTYPES
    quantisations: tuple[str, ...] = QUANTISATIONS
    dtype: str = DTYPES[0]
    quantisation: str = QUANTISATIONS[0]
    passages: int = 0

    @property
    def generates(self) -> bool:
        """Whether this backend loads a model and generates answers."""
        return self.import_string is not None

    def load(self) -> Any:
        """The class, with `identify(model)` and a constructor with the arguments model and `Secret`."""
        if self.import_string is None:
            raise ValueError("a backend whose answers come out of files has no class")
        return _import_object(self.import_string)

    def check_model(self, model: Any) -> None:
        """Errors: `BackendError` where something that the model needs is missing."""
        if self.check is not None:
            check: Callable[[Any], object] = _import_object(self.check)
            check(model)


BACKENDS: Listed[Backend] = Listed(
    ListedModules("longtail.generation.backends.kinds", "longtail.backends"), "BACKEND"
)
"""The backends by name."""


def _import_object(import_string: str) -> Any:
    module, name = import_string.split(":")
    return getattr(importlib.import_module(module), name)
