"""A model on the workers of a Ray cluster: each holds it whole, and answers the calls that it is handed.

What belongs here: workers, and handing calls out again when one dies. What does not: plan, row cache and tables, which
the process that hands out calls alone reads and writes.

`$LONGTAIL_RAY` is the address of the cluster's head (`host:port`, or `auto` on a machine of the cluster). There are
`$LONGTAIL_RAY_WORKERS` workers with `$LONGTAIL_RAY_GPUS` GPUs each. Without these, each GPU of the cluster has a worker;
a cluster without GPUs has one on each machine. Every machine needs the same code, and the model's
files under the same path.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from dagster_project.core.errors import BackendError, LongtailError, single_line
from dagster_project.core.generation.backends.base import Backend, Failure, Identity, Usage
from dagster_project.core.generation.backends.registry import identify, load_backend
from dagster_project.core.generation.engine.calls import Answers, Call, Local
from dagster_project.core.needs import check_package
from dagster_project.core.storage.fingerprints import folder_version
from dagster_project.core.study.models import Model

_IN_FLIGHT = 2
"""Calls that a worker has: one that it answers, and one that it need not wait for."""
_MOST_DEATHS = 3
"""A call whose worker died so often is not asked again, and a worker that died so often while it loaded is given up."""
_SHARED_VARIABLES = ("LONGTAIL_HOME", "LONGTAIL_THREADS", "HF_HOME", "HF_HUB_OFFLINE")
_POLL_SECONDS = 5.0
_HEAD_SECONDS = 30.0
"""A head that is gone for so long ends the run; Ray itself would end the process after a minute."""
_DEFAULTS = {
    "RAY_AUTH_MODE": "token",  # a cluster that asks for no token must be named so: RAY_AUTH_MODE=disabled
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_NUM_REDIS_GET_RETRIES": "2",  # a wrong token is refused within seconds
}
"""Variables that Ray reads when it is imported, where they are not set."""


@dataclass(frozen=True)
class Loaded:
    """What a worker says of its model once it is loaded."""

    host: str
    code: str
    weights: str
    capabilities: frozenset[str]
    batch_tokens: int


class Worker:
    """The actor: a process somewhere in the cluster. It loads its model when it is first asked, also after a restart."""

    def __init__(self, model: Model, folder: Path, variables: dict[str, str]) -> None:
        self._model, self._folder = model, folder
        self._backend: Backend | None = None
        os.environ.update(variables)

    def load(self) -> Loaded:
        """Errors: those of `load_backend`."""
        local = Local(self._loaded())
        weights, code = identify(self._model).weights, folder_version("dagster_project.core")
        return Loaded(socket.gethostname(), code, weights, local.capabilities, local.batch_tokens)

    def answer(self, call: Call) -> Answers:
        """Errors: those of the backend."""
        return call.answer(self._loaded())

    def usage(self) -> Usage:
        """Errors: those of the backend."""
        return self._loaded().usage()

    def _loaded(self) -> Backend:
        if self._backend is None:
            if self._folder.is_dir():
                os.chdir(self._folder)  # paths of a study may be relative to the folder of the command
            self._backend = load_backend(self._model)
        return self._backend


@dataclass(eq=False)
class _Held:
    """A worker as its owner sees it: what it was handed, oldest first, and whether it is loading."""

    actor: Any
    calls: deque[tuple[Any, int, Call]] = field(default_factory=deque)
    loading: Any = None

    @property
    def next(self) -> Any:
        """What it says next; None where it has nothing to do."""
        return self.loading or (self.calls[0][0] if self.calls else None)


class RayWorkers:
    """The workers of one model. Ray starts a dead worker again; its calls are asked again, each at most three times.

    Errors: `BackendError` where the cluster cannot be reached or a worker has other weights or other code.
    """

    def __init__(self, model: Model, identity: Identity, log: logging.Logger) -> None:
        self._ray, self._name, self._log = _connected(), model.name, log
        self._code, self._weights = folder_version("dagster_project.core"), identity.weights
        self._head, self._head_seen = self._ray.get_runtime_context().gcs_address, time.monotonic()
        try:
            number, options = self._resources()
            log.info("%s: Ray starts %s workers with %s", model.name, number, options)
            variables = {name: os.environ[name] for name in _SHARED_VARIABLES if name in os.environ}
            actor = self._ray.remote(Worker).options(max_restarts=-1, **options)
            self._workers = [_Held(actor.remote(model, Path.cwd(), variables)) for _ in range(number)]
            for worker in self._workers:
                self._load(worker)
            loaded = self._ready(self._wait())
        except BaseException:
            self.close()
            raise
        self.capabilities, self.batch_tokens = loaded.capabilities, loaded.batch_tokens

    def answers(self, calls: Iterable[Call]) -> Iterator[tuple[int, Answers]]:
        """The answers of each call, as soon as a worker has them. Errors: `BackendError`."""
        fresh, waiting = enumerate(calls), deque[tuple[int, Call]]()
        deaths: dict[int, int] = {}
        while True:
            self._hand_out(fresh, waiting)
            if not any(worker.calls for worker in self._workers) and not waiting:
                return
            worker = self._wait()
            if worker.loading:
                self._ready(worker)
                continue
            reference, place, call = worker.calls[0]
            answers = self._said(reference)
            if answers is not None:
                worker.calls.popleft()
                yield place, answers
                continue
            waiting.extendleft((place, call) for _, place, call in reversed(worker.calls))
            worker.calls.clear()
            self._load(worker)
            deaths[place] = deaths.get(place, 0) + 1  # the others had not begun
            self._log.warning(
                "%s: a worker died, and its batch is asked again (%s of %s)",
                *(self._name, deaths[place], _MOST_DEATHS),
            )
            if deaths[place] == _MOST_DEATHS:
                waiting.popleft()
                yield place, [Failure(f"it killed its worker {_MOST_DEATHS} times")] * len(call.texts)

    def usage(self) -> Usage:
        """The devices of all workers that answer now, and the most memory that one of them held."""
        found = [self._said(worker.actor.usage.remote()) for worker in self._workers if not worker.loading]
        known = [usage for usage in found if usage is not None]
        busy = [usage.utilisation for usage in known if usage.utilisation is not None]
        return Usage(
            f"Ray, {len(known)} x {known[0].device}" if known else "Ray",
            max((usage.peak_memory_mb for usage in known), default=0.0),
            sum(busy) / len(busy) if busy else None,
        )

    def close(self) -> None:
        """End the workers. The cluster stays."""
        self._ray.shutdown()

    def _resources(self) -> tuple[int, dict[str, int]]:
        """How many workers, and what each takes of the cluster. Errors: `BackendError` where it has less."""
        there = self._ray.cluster_resources()
        has = {name: int(there.get(name, 0)) for name in ("CPU", "GPU")}
        gpus = _whole("LONGTAIL_RAY_GPUS", min(1, has["GPU"]))
        nodes = sum(1 for node in self._ray.nodes() if node["Alive"])
        number = max(1, _whole("LONGTAIL_RAY_WORKERS", has["GPU"] // gpus if gpus else nodes))
        cpus = 1 if gpus else max(1, has["CPU"] // number)
        if number * gpus > has["GPU"] or number * cpus > has["CPU"]:
            raise BackendError(
                f"model {self._name}: {number} workers with {gpus} GPUs and {cpus} cores each are more than the Ray "
                f"cluster has ({has['GPU']} GPUs, {has['CPU']} cores); set LONGTAIL_RAY_WORKERS, LONGTAIL_RAY_GPUS"
            )
        return number, {"num_cpus": cpus, "num_gpus": gpus}

    def _hand_out(self, fresh: Iterator[tuple[int, Call]], waiting: deque[tuple[int, Call]]) -> None:
        """Fill the workers' hands; afterwards `waiting` is empty only if no call is left."""
        for n_calls in range(_IN_FLIGHT):
            for worker in self._workers:
                waiting.extend(islice(fresh, 0 if waiting else 1))
                if waiting and worker.loading is None and len(worker.calls) == n_calls:
                    place, call = waiting.popleft()
                    worker.calls.append((worker.actor.answer.remote(call), place, call))

    def _load(self, worker: _Held) -> None:
        """A call would fail at once while its worker starts again; this one waits for it."""
        worker.loading = worker.actor.load.options(max_task_retries=_MOST_DEATHS - 1).remote()

    def _wait(self) -> _Held:
        """A worker that has something to say. Errors: `BackendError` where the head is gone for half a minute."""
        waiting = {worker.next: worker for worker in self._workers if worker.next is not None}
        while True:
            if time.monotonic() > self._head_seen + _POLL_SECONDS:
                problem = _no_answer(self._head)
                if not problem:
                    self._head_seen = time.monotonic()
                elif time.monotonic() > self._head_seen + _HEAD_SECONDS:
                    raise BackendError(f"model {self._name}: {problem}; finished batches are kept")
            found, _ = self._ray.wait(list(waiting), timeout=_POLL_SECONDS)
            if found:
                return waiting[found[0]]

    def _ready(self, worker: _Held) -> Loaded:
        """Errors: `BackendError` where the worker cannot load the model, or has another one."""
        loaded: Loaded | None = self._said(worker.loading)
        if loaded is None:
            raise BackendError(
                f"model {self._name}: a worker died {_MOST_DEATHS} times while it loaded the model, which may need more "
                "memory than its machine has; the logs of Ray say more"
            )
        for what, own, its in (("weights", self._weights, loaded.weights), ("code", self._code, loaded.code)):
            if own != its:
                raise BackendError(
                    f"model {self._name}: the worker on {loaded.host} has other {what} than this machine; "
                    "install the same version and copy the same model files to every machine"
                )
        worker.loading = None
        return loaded

    def _said(self, reference: Any) -> Any:
        """What a worker answers; None where it died. Errors: `BackendError` in place of what it raised."""
        try:
            return self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            cause = error.cause
            said = str(cause) if isinstance(cause, LongtailError) else f"{type(cause).__name__}: {cause}"
            raise BackendError(single_line(f"model {self._name}, on a Ray worker: {said}")) from None
        except self._ray.exceptions.RayError:
            return None


def _connected() -> Any:
    """The package `ray`, connected to the cluster. Errors: `BackendError`, in one line."""
    check_package("ray", "[ray]")
    for name, value in _DEFAULTS.items():
        os.environ.setdefault(name, value)
    import ray

    address = os.environ["LONGTAIL_RAY"]
    if address != "auto" and (problem := _no_answer(address)):
        raise BackendError(f"LONGTAIL_RAY: {problem}")
    try:
        ray.init(address, log_to_driver=False, logging_level=logging.ERROR, configure_logging=False)
    except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        raise BackendError(
            single_line(f"no Ray cluster lets us in (LONGTAIL_RAY={address}, RAY_AUTH_TOKEN): {error}")
        ) from None
    return ray


def _whole(variable: str, default: int) -> int:
    """Errors: `BackendError` where the variable is no whole number."""
    text = os.environ.get(variable, "")
    if text and not text.isdecimal():
        raise BackendError(f"{variable}: {text!r} is no whole number")
    return int(text) if text else default


def _no_answer(address: str) -> str:
    """Why nothing answers at the head's address; empty if something does."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), _POLL_SECONDS).close()
    except (OSError, ValueError) as error:
        return f"no Ray cluster answers at {address} ({error})"
    return ""
