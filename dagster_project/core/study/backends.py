"""The backends that may generate a study's answers: one record each.

What belongs here: where a backend's class is, what it can do, and which keys of a model in study.yaml it understands.
What does not: the backends themselves (`generation.backends`), and what keys mean (`study.study`).

A new backend is a module in `generation.backends` and its record here. Reading the records imports no engine.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

GENERATE = "generate"
SAMPLE = "sample"
SCORE = "score"
STREAM = "stream"
PASSAGES = "read passages apart from the prompt"
CAPABILITIES = frozenset({GENERATE, SAMPLE, SCORE, STREAM, PASSAGES})

IMPORTED = "imported"
UNKNOWN = "unknown"
DTYPES = ("float32", "bfloat16", "float16")
QUANTISATIONS = ("none", "8bit", "4bit")
LOCAL_KEYS = frozenset(
    {"path", "revision", "dtype", "quantisation", "device", "device_map", "batch_tokens", "device_hour_usd"}
)
"""The keys of a model whose weights this machine loads."""

_HERE = "dagster_project.core.generation.backends"


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
        return _imported(self.import_string)

    def check_model(self, model: Any) -> None:
        """Errors: `BackendError` where something that the model needs is missing."""
        if self.check is not None:
            found: Callable[[Any], object] = _imported(self.check)
            found(model)


BACKENDS: dict[str, Backend] = {
    "transformers": Backend(
        f"{_HERE}.hf:TransformersBackend",
        frozenset({GENERATE, SAMPLE, SCORE}),
        LOCAL_KEYS,
        check=f"{_HERE}.weights:check_folder",
    ),
    "fusion_in_decoder": Backend(
        f"{_HERE}.fusion_in_decoder:FusionInDecoder",
        frozenset({GENERATE, SAMPLE, SCORE, PASSAGES}),
        LOCAL_KEYS | {"passages", "passage_tokens"},
        check=f"{_HERE}.fusion_in_decoder:check",
        passages=20,
    ),
    "openai": Backend(
        f"{_HERE}.openai:OpenAIBackend",
        frozenset({GENERATE, SAMPLE, STREAM}),
        frozenset({"path", "revision", "dtype", "quantisation", "service"}),
        check=f"{_HERE}.openai:check_key",
        needs="service",
        because="says where its server is (base_url)",
        dtypes=(*DTYPES, UNKNOWN),
        quantisations=(*QUANTISATIONS, UNKNOWN),
        dtype=UNKNOWN,
        quantisation=UNKNOWN,
    ),
    "fake": Backend(
        f"{_HERE}.fake:FakeBackend",
        CAPABILITIES,
        LOCAL_KEYS - {"device", "device_map", "quantisation"} | {"passages"},
        check=f"{_HERE}.fake_script:read_script",
    ),
    IMPORTED: Backend(
        None,
        frozenset(),
        frozenset({"results"}),
        needs="results",
        because="names the files of its answers",
        dtypes=(UNKNOWN,),
        dtype=UNKNOWN,
    ),
}


def _imported(import_string: str) -> Any:
    module, name = import_string.split(":")
    return getattr(importlib.import_module(module), name)
