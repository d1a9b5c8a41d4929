"""What a worker loads and is asked, as values that another process can read."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol


class Loader(Protocol):
    """A model that can be loaded here or elsewhere. `name` stands at the beginning of messages."""

    @property
    def name(self) -> str: ...

    def loaded(self) -> AbstractContextManager[Any]:
        """Holds the loaded model. Errors: `BackendError`."""
        ...

    def describe(self, model: Any) -> Mapping[str, Any]:
        """What the loaded model is. What its owner expects has the same keys."""
        ...


class Call(Protocol):
    """A batch."""

    def answer(self, model: Any) -> Any:
        """Ask the loaded model. Errors: its own."""
        ...


@dataclass(frozen=True)
class Killed:
    """In place of an answer: the call has killed its worker too often."""

    call: Call
    why: str
