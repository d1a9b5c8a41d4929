"""The models that one run holds, here or on a Ray cluster, and the batches that they are asked."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from longtail.generation.backends.base import (
    Backend,
    Decoding,
    Failure,
    Generation,
    Identity,
    Result,
    Scored,
    Secret,
    Usage,
    identify,
    load_backend,
)
from longtail.models.workers import Killed, Loader, RayWorkers
from longtail.needs import CLUSTER
from longtail.progress import Progress
from longtail.study.models import BATCH_TOKENS, Model

Answers = Sequence[Sequence[Result] | Failure]
"""For each prompt of a call its results, one for each seed, or why there are none."""


@dataclass(frozen=True)
class Call:
    """One batch of prompts: greedy texts, samples (with `seeds`), or scores of `candidates` (without `decoding`).

    `free`: the decoding of a text that is wanted beside the scores. `passages`: the keyword of backends that read them.
    """

    decoding: Decoding | None
    texts: Sequence[str]
    passages: Mapping[str, Sequence[Sequence[str]]]
    seeds: Sequence[Sequence[int]] | None = None
    candidates: Sequence[Sequence[str]] = ()
    free: Decoding | None = None

    def __call__(self, backend: Backend) -> Answers:
        """Ask a backend. Errors: its own."""
        results: Sequence[Sequence[Result] | Result | Failure]
        if self.decoding is None:
            results = backend.score(self.texts, self.candidates, **self.passages)
            if self.free is not None:
                results = list(map(_both, results, backend.generate(self.texts, self.free, **self.passages)))
        elif self.seeds is not None:
            results = backend.sample(self.texts, self.decoding, self.seeds, **self.passages)
        else:
            results = backend.generate(self.texts, self.decoding, **self.passages)
        return [[result] if isinstance(result, Generation | Scored) else result for result in results]


class Local:
    """The model in this process. `batch_tokens`: the size of a batch that suits its device."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.capabilities = backend.capabilities
        self.batch_tokens = int(getattr(backend, "batch_tokens", BATCH_TOKENS))
        self.usage, self.close = backend.usage, backend.close

    def answers(self, calls: Iterable[Call]) -> Iterator[tuple[int, Answers]]:
        """The place of each call and its answers, one call after the other. Errors: `BackendError`."""
        for place, call in enumerate(calls):
            yield place, call(self.backend)


class OnRay:
    """The model on the workers of a Ray cluster. Errors: `BackendError`."""

    def __init__(self, model: Model, identity: Identity, log: logging.Logger) -> None:
        expected = {"weights": identity.weights, "packages": identity}
        self._workers = RayWorkers(_loader(model), expected, log)
        self.capabilities = self._workers.described["capabilities"]
        self.batch_tokens = self._workers.described["batch_tokens"]
        self.close = self._workers.close

    def answers(self, calls: Iterable[Call]) -> Iterator[tuple[int, Answers]]:
        """As of `Local`, as soon as a worker has them. A call that kills its workers fails, and the others do not."""
        for place, answers in self._workers.answers(calls):
            if isinstance(answers, Killed) and isinstance(answers.call, Call):
                answers = [Failure(answers.why)] * len(answers.call.texts)
            yield place, answers

    def usage(self) -> Usage:
        """How many workers there are, and the device of the first."""
        return Usage(f"Ray, {self._workers.number} x {self._workers.described['device']}", None)


def _loader(model: Model) -> Loader:
    def describe(backend: Backend) -> dict[str, Any]:
        local, identity = Local(backend), backend.identity
        abilities = {"capabilities": local.capabilities, "batch_tokens": local.batch_tokens}
        return {
            "weights": identity.weights, "packages": identity, "device": backend.usage().device, **abilities
        }  # fmt: skip

    return Loader(f"model {model.name}", lambda: contextlib.closing(load_backend(model)), describe)


def _both(scored: Scored | Failure, written: Generation | Failure) -> Scored | Failure:
    """One result of scores and a text; a failure of either fails both."""
    if isinstance(scored, Failure):
        return scored
    if isinstance(written, Failure):
        return written
    seconds = [result.device_seconds for result in (scored, written) if result.device_seconds is not None]
    return dataclasses.replace(
        scored,
        text=written.text,
        new_tokens=scored.new_tokens + written.new_tokens,
        latency_ms=scored.latency_ms + written.latency_ms,
        device_seconds=sum(seconds) if seconds else None,
    )


Answerer = Local | OnRay
Kind = TypeVar("Kind", Local, OnRay)


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
        return self._hold(model, OnRay, lambda: OnRay(model, self.identity(model), self._log))

    def backend(self, model: Model) -> Backend:
        """The model, loaded in this process. Errors: `BackendError`."""
        return self._local(model).backend

    def _local(self, model: Model) -> Local:
        return self._hold(model, Local, lambda: Local(load_backend(model, self._secret)))

    def _hold(self, model: Model, kind: type[Kind], load: Callable[[], Kind]) -> Kind:
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
