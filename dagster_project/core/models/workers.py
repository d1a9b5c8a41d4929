"""Who computes with a loaded model: this process, or the workers of a Ray cluster (`ray_workers`).

What belongs here: what is loaded and what is asked, as values that another process can read. What does not: which models
there are, and what becomes of their answers (`generation.engine`, `entailment`, `retrieval`).
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from dagster_project.core.errors import BackendError
from dagster_project.core.needs import CLUSTER


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

    why: str


@contextlib.contextmanager
def workers(
    loader: Loader, expected: Mapping[str, Any], log: logging.Logger
) -> Iterator[Callable[[Iterable[Call]], Iterator[tuple[int, Any]]]]:
    """A function from calls to (place of the call, answer), in any order; the model is loaded as long as it is used.

    `expected`: what workers on other machines must say of the model. Errors: `BackendError`.
    """
    if not os.environ.get(CLUSTER):
        with loader.loaded() as model:
            yield lambda calls: ((place, call.answer(model)) for place, call in enumerate(calls))
        return
    from dagster_project.core.models.ray_workers import RayWorkers

    with contextlib.closing(RayWorkers(loader, expected, log)) as ray:

        def answers(calls: Iterable[Call]) -> Iterator[tuple[int, Any]]:
            for place, answer in ray.answers(calls):
                if isinstance(answer, Killed):
                    raise BackendError(
                        f"{loader.name}: a batch failed: {answer.why}; finished batches are kept"
                    )
                yield place, answer

        yield answers
