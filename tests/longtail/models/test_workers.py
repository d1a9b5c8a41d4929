"""Handing out calls where a dying worker loses also the answers that it has not delivered yet; Ray itself is simulated.

What a worker loads and is asked is pickled as Ray does it. `tests/longtail/generation/test_ray_workers.py` runs the same
code on a real cluster, where such a loss is rare.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cloudpickle
import numpy as np
import pytest

from longtail.entailment import answers as scores
from longtail.entailment.answers import Entailments
from longtail.errors import BackendError
from longtail.generation.backends.base import Decoding, Failure, Generation, identify
from longtail.generation.engine.session import Call, OnRay
from longtail.models import workers
from longtail.models.workers import Killed, Loader, RayWorkers, map_in_processes
from longtail.needs import CLUSTER
from longtail.retrieval import passage_vectors
from longtail.retrieval.passage_vectors import build_vectors, read_vectors
from longtail.study.models import Model, Nli
from tests.longtail.generation.tiny_models import save_tiny_classifier
from tests.longtail.retrieval.test_stored_passages import ENCODER, generated

LOG = logging.getLogger(__name__)


class _RayError(Exception):
    """An answer that is lost."""


class _RayTaskError(Exception): ...


class Death(BaseException):
    """Raised by a call that kills its worker."""


class _Actor:
    """Works when it is waited for, and then on all that it was handed: if one call kills it, all answers are lost."""

    def __init__(self, *arguments: Any) -> None:
        self._worker = workers.Worker(*cloudpickle.loads(cloudpickle.dumps(arguments)))
        self._handed = list[tuple[int, Callable[[], Any]]]()
        self._numbers = itertools.count()
        self.said: dict[int, Any] = {}
        self.load = SimpleNamespace(remote=lambda: self._hand(self._worker.load))
        self.answer = SimpleNamespace(remote=self._ask)

    def _ask(self, call: Callable[[Any], Any]) -> tuple[_Actor, int]:
        cloudpickle.dumps(call)
        return self._hand(lambda: self._worker.answer(call))

    def _hand(self, task: Callable[[], Any]) -> tuple[_Actor, int]:
        number = next(self._numbers)
        self._handed.append((number, task))
        return self, number

    def work(self) -> None:
        done: dict[int, Any] = {}
        try:
            for number, task in self._handed:
                done[number] = task()
        except Death:
            done = {number: _RayError("dead") for number, _ in self._handed}
        self.said |= done
        self._handed.clear()


class _Ray(SimpleNamespace):
    exceptions = SimpleNamespace(RayError=_RayError, RayTaskError=_RayTaskError)

    def __init__(self, n_machines: int) -> None:
        self._nodes = [{"Alive": True, "Resources": {"CPU": 1}}] * n_machines

    def get_runtime_context(self) -> SimpleNamespace:
        return SimpleNamespace(gcs_address="127.0.0.1:1")

    def nodes(self) -> list[dict[str, Any]]:
        return self._nodes

    def remote(self, worker: type) -> SimpleNamespace:
        assert worker is workers.Worker
        return SimpleNamespace(options=lambda **_: SimpleNamespace(remote=_Actor))

    def wait(self, references: list[tuple[_Actor, int]], timeout: float) -> tuple[list[Any], list[Any]]:
        for actor, number in references:
            actor.work()
            assert number in actor.said
        return references[-1:], references[:-1]

    def get(self, reference: tuple[_Actor, int]) -> Any:
        said = reference[0].said[reference[1]]
        if isinstance(said, _RayError):
            raise said
        return said

    def kill(self, actor: _Actor) -> None: ...

    def shutdown(self) -> None: ...


LOADER = Loader("nothing", lambda: contextlib.nullcontext(1), lambda model: {})


@pytest.fixture(autouse=True)
def _code(monkeypatch: pytest.MonkeyPatch) -> None:
    """All workers have one code, which is not hashed for each of them."""
    monkeypatch.setattr(workers, "folder_version", lambda package: "code")


def add(model: int) -> int:
    return model + 1


def kill(model: int) -> None:
    raise Death


@pytest.mark.parametrize("n_machines", [1, 2, 3])
@pytest.mark.parametrize("deadly", [{0}, {4}, {8}, {1, 2}, {3, 6, 7}, set(range(9))])
def test_only_a_call_that_kills_its_worker_fails(
    n_machines: int, deadly: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "_connect", lambda: _Ray(n_machines))
    workers_of_model = RayWorkers(LOADER, {}, LOG)
    answers = dict(workers_of_model.answers(kill if i in deadly else add for i in range(9)))
    assert answers.keys() == set(range(9))
    assert {i for i, answer in answers.items() if isinstance(answer, Killed)} == deadly
    assert {answer for answer in answers.values() if not isinstance(answer, Killed)} <= {2}


@pytest.mark.parametrize(("n_calls", "place", "n_unblamed"), [(1, 0, 0), (9, 0, 1), (9, 8, 1)])
def test_a_call_is_blamed_only_for_a_death_alone_on_a_fresh_worker(
    n_calls: int, place: int, n_unblamed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first of nine calls is handed out with another one, and the last to a worker that has answered."""
    monkeypatch.setattr(workers, "_connect", lambda: _Ray(1))
    for n_deaths in (2 + n_unblamed, 3 + n_unblamed):
        deaths = iter(range(n_deaths))

        def die_sometimes(model: int, deaths: Iterator[int] = deaths) -> int:
            if next(deaths, None) is not None:
                raise Death
            return model + 1

        calls = [die_sometimes if i == place else add for i in range(n_calls)]
        answers = dict(RayWorkers(LOADER, {}, LOG).answers(calls))
        assert isinstance(answers.pop(place), Killed) == (n_deaths == 3 + n_unblamed)
        assert [answers[i] for i in range(n_calls) if i != place] == [2] * (n_calls - 1)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster of two machines, as the environment names it."""
    monkeypatch.setenv(CLUSTER, "127.0.0.1:1")
    monkeypatch.setattr(workers, "_connect", lambda: _Ray(2))
    monkeypatch.setattr(workers, "_no_answer", lambda address: "")


def test_a_batch_that_kills_its_worker_fails_or_is_an_error_where_it_has_no_rows(cluster: None) -> None:
    class Deadly(Call):
        def __call__(self, backend: object) -> Any:
            raise Death

    model, greedy = Model("tiny", "fake:digest", backend="fake"), Decoding(5)
    calls = [Call(greedy, [f"Q: {i} A:"], {}) for i in range(9)]
    calls[4] = Deadly(greedy, ["deadly", "too"], {})
    held = OnRay(model, identify(model), LOG)
    answers = dict(held.answers(iter(calls)))
    assert answers.pop(4) == [Failure("it killed its worker 3 times")] * 2
    assert sorted(answers) == [0, 1, 2, 3, 5, 6, 7, 8]
    assert all(isinstance(texts[0], Generation) for [texts] in answers.values())  # type: ignore[index]
    assert held.usage().device == "Ray, 2 x none"
    with workers.workers(LOADER, {}, LOG) as ask:
        assert dict(ask([add, add])) == {0: 2, 1: 2}
        with pytest.raises(BackendError, match=r"^nothing: a batch failed: it killed its worker 3 times"):
            dict(ask([add, kill, add]))


def test_each_worker_is_compared_also_one_that_starts_later(cluster: None, tmp_path: Path) -> None:
    file = tmp_path / "weights"
    file.write_text("1")
    loader = Loader("nothing", lambda: contextlib.nullcontext(1), lambda model: {"weights": file.read_text()})
    with pytest.raises(
        BackendError, match=r"^nothing: the worker on \S+ has other weights than this machine"
    ):
        RayWorkers(loader, {"weights": "2"}, LOG)
    held = RayWorkers(loader, {"weights": "1"}, LOG)
    file.write_text("2")
    with pytest.raises(BackendError, match="has other weights than this machine"):
        dict(held.answers([kill]))


def test_passages_have_the_vectors_of_one_process(
    cluster: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passage_vectors, "PART_ROWS", 5)
    passages, vectors = generated(40, 20), {}
    for name in ("ray", "alone"):
        (tmp_path / name).mkdir()
        build_vectors(passages, tmp_path / name, tmp_path / f"cache of {name}", ENCODER, "cpu", LOG)
        vectors[name] = [*read_vectors(tmp_path / name)]
        monkeypatch.delenv(CLUSTER, raising=False)
    assert len(vectors["ray"]) == 8
    for (rows, of_rows), (rows_alone, alone) in zip(*vectors.values(), strict=True):
        np.testing.assert_array_equal(rows, rows_alone)
        np.testing.assert_allclose(of_rows, alone, atol=1e-6)


def test_entailments_are_those_of_one_process(
    cluster: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nli = Nli(str(save_tiny_classifier(tmp_path / "nli")), device="cpu")
    monkeypatch.setattr(scores, "_CALL_PAIRS", 4)
    pairs = [(f"city {i}", "city " * (i % 5)) for i in range(30)]
    with Entailments(tmp_path / "ray", nli, LOG) as entailments:
        probabilities = entailments.of(pairs[:20]) | entailments.of(pairs)
        assert entailments.n_new == len(pairs)
    monkeypatch.delenv(CLUSTER)
    with Entailments(tmp_path / "alone", nli, LOG) as entailments:
        assert entailments.of(pairs) == pytest.approx(probabilities, abs=1e-6)
    assert len(set(probabilities.values())) > 5


def test_processes_of_this_machine_do_what_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGTAIL_THREADS", "2")
    powers = map_in_processes(functools.partial(pow, 3), range(40), "powers")
    assert list(powers) == [3**number for number in range(40)]
    with pytest.raises(BackendError, match=r"^deaths: a process was killed; is there enough memory\?$"):
        list(map_in_processes(os._exit, [1, 1], "deaths"))
