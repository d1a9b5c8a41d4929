"""Work in other processes: of this machine, or of a Ray cluster, whose workers each hold a model whole.

`$LONGTAIL_RAY` is the address of the cluster's head (`host:port`, or `auto` on a machine of the cluster). There are
`$LONGTAIL_RAY_WORKERS` workers with `$LONGTAIL_RAY_GPUS` GPUs each. Without these, each GPU of the cluster has a worker;
a cluster without GPUs has one for each machine. Every machine needs the same code, and the model's files under the same
path. What a worker loads and is asked are values that another process can read. Work without a model is Ray's tasks, one
for each core of the cluster.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import sys
import tempfile
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import chain, islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

from longtail.errors import BackendError, LongtailError, single_line
from longtail.needs import CLUSTER, check_package
from longtail.processes import end_with_parent
from longtail.storage.fingerprints import folder_version
from longtail.threads import map_in_order, thread_count

Item = TypeVar("Item")
Result = TypeVar("Result")

_IN_FLIGHT = 2
"""Calls that a worker has: one that it answers, and one that it need not wait for."""
_MOST_DEATHS = 3
"""A call fails that so many workers died of, each fresh and without another call. If a worker dies so often before it has
loaded the model, the model fails."""
_SHARED_VARIABLES = ("LONGTAIL_HOME", "LONGTAIL_LEASES", "LONGTAIL_THREADS", "HF_HOME", "HF_HUB_OFFLINE")
_SHOWN = 200
"""Characters of what Ray says of a dead worker."""
_POLL_SECONDS = 5.0
_REMIND_SECONDS = 30.0
_HEAD_SECONDS = 30.0
"""A head that is gone for so long ends the run; Ray itself would end the process after a minute."""
_DEFAULTS = {
    "RAY_AUTH_MODE": "token",  # a cluster that asks for no token must be named so: RAY_AUTH_MODE=disabled
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_NUM_REDIS_GET_RETRIES": "2",  # a wrong token is refused within seconds
}
"""Variables that Ray reads when it is imported, where they are not set."""


@dataclass(frozen=True)
class Loader:
    """A model that can be loaded here or elsewhere.

    `name` stands at the beginning of messages. `load` gives a context that holds the loaded model (errors:
    `BackendError`). `describe` says what that model is; what its owner expects has the same keys.
    """

    name: str
    load: Callable[[], AbstractContextManager[Any]]
    describe: Callable[[Any], Mapping[str, Any]]


Call = Callable[[Any], Any]
"""A batch: a function from the loaded model to an answer. Its errors are its own."""
_Placed = tuple[int, Call]


@dataclass(frozen=True)
class Killed:
    """In place of an answer: the call has killed its worker too often."""

    call: Call
    why: str


class Worker:
    """The actor: a process somewhere in the cluster, which first loads its model. Its errors can be pickled."""

    def __init__(self, loader: Loader, folder: Path, variables: dict[str, str]) -> None:
        self._loader, self._folder, self._held = loader, folder, contextlib.ExitStack()
        os.environ.update(variables)

    def load(self) -> dict[str, Any]:
        """What it holds, and its host and code. Errors: `BackendError`."""
        with _pickle_errors():
            if self._folder.is_dir():
                os.chdir(self._folder)  # paths of a study may be relative to the folder of the command
            self._model = self._held.enter_context(self._loader.load())
            description = {"host": socket.gethostname(), "code": folder_version("longtail")}
            return {**self._loader.describe(self._model), **description}

    def answer(self, call: Call) -> Any:
        """Errors: `BackendError`."""
        with _pickle_errors():
            return call(self._model)


@dataclass(frozen=True)
class _Died:
    """What Ray says of a worker that does not answer any more."""

    why: str


@dataclass(eq=False)
class _Held:
    """A worker as its owner sees it: what it was handed, oldest first, whether it loads, and how often it died so.

    `is_fresh`: it has answered nothing yet.
    """

    actor: Any = None
    deaths: int = 0
    is_fresh: bool = True
    calls: deque[tuple[Any, int, Call]] = field(default_factory=deque)
    loading: Any = None

    @property
    def next(self) -> Any:
        """What it says next; None where it has nothing to do."""
        return self.loading or (self.calls[0][0] if self.calls else None)


class RayWorkers:
    """The workers of one model. A new worker takes the place of a dead one, whose calls are asked again.

    `number`: how many. `described`: what the first one said of its model. Errors: `BackendError` where the cluster cannot
    be reached, or a worker has other code, or says something else than what is `expected`.
    """

    def __init__(self, loader: Loader, expected: Mapping[str, Any], log: logging.Logger) -> None:
        self._ray, self._name, self._log = _connect(), loader.name, log
        self._expected = {**expected, "code": folder_version("longtail")}
        self._head, self._head_seen = self._ray.get_runtime_context().gcs_address, time.monotonic()
        self._head_lost: float | None = None
        try:
            self.number, options = self._resources()
            log.info("%s: Ray starts %s workers with %s", self._name, self.number, options)
            variables = {name: os.environ[name] for name in _SHARED_VARIABLES if name in os.environ}
            actor = self._ray.remote(Worker).options(scheduling_strategy="SPREAD", **options)
            self._begin = partial(actor.remote, loader, Path.cwd(), variables)
            self._workers = [_Held() for _ in range(self.number)]
            for worker in self._workers:
                self._load(worker)
            described = None
            while described is None:
                described = self._ready(self._wait())
        except BaseException:
            self.close()
            raise
        self.described = described

    def answers(self, calls: Iterable[Call]) -> Iterator[tuple[int, Any]]:
        """The place of each call and its answer or `Killed`, as soon as a worker has it. Errors: `BackendError`."""
        rest, waiting, suspects = enumerate(calls), deque[_Placed](), deque[_Placed]()
        deaths: dict[int, int] = {}  # of the calls that a worker had when it died: how often it died of them
        for worker in self._workers:
            worker.calls.clear()  # of an earlier loop that was left
        while True:
            self._hand_out(rest, waiting, suspects, deaths)
            if not (waiting or suspects or any(worker.calls for worker in self._workers)):
                return
            worker = self._wait()
            if worker.loading:
                self._ready(worker)
                continue
            reference, place, _ = worker.calls[0]
            answer = self._said(reference)
            if not isinstance(answer, _Died):
                worker.calls.popleft()
                worker.is_fresh = False
                yield place, answer
                continue
            suspects.extendleft((place, call) for _, place, call in reversed(worker.calls))
            is_blamed = worker.is_fresh and len(worker.calls) == 1  # else a machine may have been taken away
            deaths |= {place: deaths.get(place, 0) for _, place, _ in worker.calls}
            deaths[place] += is_blamed
            worker.calls.clear()
            self._load(worker)
            self._log.warning(
                "%s: a worker died, and its batch is asked again (it killed %s of at most %s workers): %s",
                *(self._name, deaths[place], _MOST_DEATHS, answer.why),
            )
            if deaths[place] == _MOST_DEATHS:
                place, call = suspects.popleft()
                yield place, Killed(call, f"it killed its worker {_MOST_DEATHS} times")

    def close(self) -> None:
        """End the workers. The cluster stays."""
        self._ray.shutdown()

    def _resources(self) -> tuple[int, dict[str, int]]:
        """How many workers, and what each takes of the cluster. Errors: `BackendError` where it has less."""
        machines = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        cores, devices = ([int(has.get(name, 0)) for has in machines] for name in ("CPU", "GPU"))
        gpus = _whole("LONGTAIL_RAY_GPUS", min(1, sum(devices)))
        room = sum(n // gpus for n in devices) if gpus else sum(1 for n in cores if n)
        number = _whole("LONGTAIL_RAY_WORKERS", room)
        fitting = (
            n for n in range(max(cores, default=0), 0, -1) if sum(n_cores // n for n_cores in cores) >= number
        )
        cpus = 1 if gpus else next(fitting, 0)
        if number < 1 or not cpus or (gpus and number > room):
            raise BackendError(
                f"{self._name}: {number} workers with {gpus} GPUs each do not fit the Ray cluster, whose machines "
                f"have {devices} GPUs and {cores} cores; set LONGTAIL_RAY_WORKERS, LONGTAIL_RAY_GPUS"
            )
        return number, {"num_cpus": cpus, "num_gpus": gpus}

    def _hand_out(
        self,
        rest: Iterator[_Placed],
        waiting: deque[_Placed],
        suspects: deque[_Placed],
        deaths: Mapping[int, int],
    ) -> None:
        """Fill the workers' hands. If afterwards no worker has a call and nothing waits, no call is left.

        A suspect, which a dead worker had, is asked alone: an answer may be lost if the next call kills the worker. A
        fresh worker shows whether the call is to blame; the others are asked other calls as long as there are any.
        """
        for n_calls in range(_IN_FLIGHT):
            for worker in self._workers:
                waiting.extend(islice(rest, 0 if waiting else 1))
                has_suspect = any(place in deaths for _, place, _ in worker.calls)
                if worker.loading or has_suspect or len(worker.calls) != n_calls:
                    continue
                takes_suspect = suspects and not n_calls and (worker.is_fresh or not waiting)
                queue = suspects if takes_suspect else waiting
                if queue:
                    place, call = queue.popleft()
                    worker.calls.append((worker.actor.answer.remote(call), place, call))

    def _load(self, worker: _Held) -> None:
        """Start a worker, in place of the one that died if there was one.

        Ray's own restarts are not used: it would start one on a machine that is gone, and would not tell of it.
        """
        if worker.actor is not None:
            self._ray.kill(worker.actor)  # it may only be out of reach
        worker.actor, worker.is_fresh = self._begin(), True
        worker.loading = worker.actor.load.remote()

    def _wait(self) -> _Held:
        """A worker that has something to say. Errors: `BackendError` where the head is gone for half a minute."""
        waiting = {worker.next: worker for worker in self._workers if worker.next is not None}
        reminded = time.monotonic()
        while True:
            n_loading = sum(worker.loading is not None for worker in self._workers)
            if n_loading and time.monotonic() > reminded + _REMIND_SECONDS:
                reminded = time.monotonic()
                self._log.info(
                    "%s: %s of %s workers have not loaded the model yet; other programs may hold the cluster",
                    *(self._name, n_loading, len(self._workers)),
                )
            if time.monotonic() > self._head_seen + _POLL_SECONDS:
                problem = _no_answer(self._head)
                if not problem:
                    self._head_seen, self._head_lost = time.monotonic(), None
                    continue
                self._head_lost = self._head_lost or time.monotonic()
                if time.monotonic() > self._head_lost + _HEAD_SECONDS:
                    raise BackendError(f"{self._name}: {problem}; finished batches are kept")
            ready, _ = self._ray.wait(list(waiting), timeout=_POLL_SECONDS)
            if ready:
                return waiting[ready[0]]

    def _ready(self, worker: _Held) -> dict[str, Any] | None:
        """What it says of its model; None where it died, and another starts. Errors: `BackendError` where no model is
        loaded, or another one."""
        described: dict[str, Any] | _Died = self._said(worker.loading)
        if isinstance(described, _Died):
            worker.deaths += 1
            if worker.deaths < _MOST_DEATHS:
                self._load(worker)
                return None
            problem = _no_answer(self._head) or (
                f"a worker died {_MOST_DEATHS} times before it had loaded the model; it may lack this version of "
                f"Longtail, or memory ({described.why})"
            )
            raise BackendError(f"{self._name}: {problem}; finished batches are kept")
        for what, expected in self._expected.items():
            if described[what] != expected:
                raise BackendError(
                    f"{self._name}: the worker on {described['host']} has other {what} than this machine; "
                    "install the same version and copy the same model files to every machine"
                )
        worker.loading, worker.deaths = None, 0
        return described

    def _said(self, reference: Any) -> Any:
        """What a worker answers. Errors: `BackendError` in place of what it raised."""
        try:
            return self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            raise BackendError(single_line(f"{self._name}, on a Ray worker: {error.cause}")) from None
        except self._ray.exceptions.RayError as error:
            return _Died(single_line(str(error).strip().splitlines()[-1])[:_SHOWN])


@contextlib.contextmanager
def workers(
    loader: Loader, expected: Mapping[str, Any], log: logging.Logger
) -> Iterator[Callable[[Iterable[Call]], Iterator[tuple[int, Any]]]]:
    """A function from calls to (place of the call, answer), in any order; the model is loaded as long as it is used.

    `expected`: what workers on other machines must say of the model. Errors: `BackendError`.
    """
    if not os.environ.get(CLUSTER):
        with loader.load() as model:
            yield lambda calls: ((place, call(model)) for place, call in enumerate(calls))
        return
    with contextlib.closing(RayWorkers(loader, expected, log)) as ray:

        def answers(calls: Iterable[Call]) -> Iterator[tuple[int, Any]]:
            for place, answer in ray.answers(calls):
                if isinstance(answer, Killed):
                    raise BackendError(
                        f"{loader.name}: a batch failed: {answer.why}; finished batches are kept"
                    )
                yield place, answer

        yield answers


def map_in_processes(
    function: Callable[[Item], Result], items: Iterable[Item], name: str
) -> Iterator[Result]:
    """`function` of each item in order, several at a time: by tasks of the Ray cluster if there is one, else by processes
    of this machine. One item, or all of them with one thread, are computed in this process.

    Functions, items and results are values that another machine can read. The first error drops the rest. Errors:
    `BackendError`, which begins with `name`, where a process is killed (a task: again and again); those of `function`.
    """
    items, cluster = iter(items), os.environ.get(CLUSTER)
    first = list(islice(items, 2))
    every = chain(first, items)
    if len(first) < 2 or not (cluster or thread_count() > 1):
        return map(function, every)
    return (_in_tasks if cluster else _in_pool)(function, every, name)


def _in_pool(function: Callable[[Item], Result], items: Iterable[Item], name: str) -> Iterator[Result]:
    pool = partial(ProcessPoolExecutor, mp_context=get_context("spawn"), initializer=end_with_parent)
    try:
        yield from map_in_order(function, items, thread_count(), pool)
    except BrokenProcessPool:
        raise BackendError(f"{name}: a process was killed; is there enough memory?") from None


def _in_tasks(function: Callable[[Item], Result], items: Iterable[Item], name: str) -> Iterator[Result]:
    ray = _connect()
    try:
        n_cores = max(1, int(ray.cluster_resources().get("CPU", 1)))
        yield from map_in_order(
            partial(_run_task, folder_version("longtail"), function), items, n_cores, lambda _: _Tasks(ray)
        )
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None
    except ray.exceptions.RayError as error:
        raise BackendError(single_line(f"{name}: Ray lost a task: {error}")[:_SHOWN]) from None


@cache
def _code_version() -> str:
    return folder_version("longtail")


def _run_task(code: str, function: Callable[[Item], Result], item: Item) -> Result:
    """Errors: `BackendError` where the worker has other code."""
    if _code_version() != code:
        raise BackendError(
            f"{socket.gethostname()} has other code than this machine; install the same version there"
        )
    return function(item)


class _Tasks(Executor):
    """Tasks of Ray, which itself runs a task again whose worker dies."""

    def __init__(self, ray: Any) -> None:
        self._ray, self._call = ray, ray.remote(lambda function, *arguments: function(*arguments))

    def submit(self, function: Callable[..., Result], /, *arguments: Any, **_: Any) -> Future[Result]:
        task: Future[Result] = self._call.remote(function, *arguments).future()
        return task

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._ray.shutdown()


@contextlib.contextmanager
def _pickle_errors() -> Iterator[None]:
    """An error as Ray can carry it to another process: not every exception can be pickled. Its trace is in Ray's log."""
    try:
        yield
    except LongtailError as error:
        raise BackendError(str(error)) from None
    except Exception as error:
        traceback.print_exc()
        raise BackendError(f"{type(error).__name__}: {error}") from None


def _connect() -> Any:
    """The package `ray`, connected to the cluster. Errors: `BackendError`, in one line."""
    check_package("ray", "[ray]")
    for name, value in _DEFAULTS.items():
        os.environ.setdefault(name, value)
    import ray

    address = os.environ[CLUSTER]
    if address != "auto" and (problem := _no_answer(address)):
        raise BackendError(f"LONGTAIL_RAY: {problem}")
    handler = signal.getsignal(signal.SIGTERM)
    try:
        with _mute_ray():
            ray.init(address, log_to_driver=False, logging_level=logging.ERROR, configure_logging=False)
    except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        raise BackendError(
            single_line(f"no Ray cluster lets us in (LONGTAIL_RAY={address}, RAY_AUTH_TOKEN): {error}")
        ) from None
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)
    return ray


@contextlib.contextmanager
def _mute_ray() -> Iterator[None]:
    """Standard error without the lines of Ray's C++ code, which no setting stops: its error says the same."""
    with tempfile.TemporaryFile() as written:
        before = os.dup(2)
        os.dup2(written.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(before, 2)
            os.close(before)
            written.seek(0)
            os.write(2, b"".join(line for line in written if b".cc:" not in line))


def _whole(variable: str, default: int) -> int:
    """Errors: `BackendError` where the variable is no whole number."""
    text = os.environ.get(variable, "")
    if text and not text.isdecimal():
        raise BackendError(f"{variable}: {text!r} is no whole number from 0 on")
    return int(text) if text else default


def _no_answer(address: str) -> str:
    """Why nothing answers at the head's address; empty if something does."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), _POLL_SECONDS).close()
    except (OSError, ValueError) as error:
        return f"no Ray cluster answers at {address} ({error})"
    return ""
