"""Handing out calls where a dying worker loses also the answers that it has not delivered yet; Ray itself is simulated.

`tests/longtail/generation/test_workers.py` runs the same code on a real cluster, where such a loss is rare.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from longtail.models import workers
from longtail.models.workers import Killed, Loader, RayWorkers

LOG = logging.getLogger(__name__)


class _RayError(Exception):
    """An answer that is lost."""


class _RayTaskError(Exception): ...


class Death(BaseException):
    """Raised by a call that kills its worker."""


class _Actor:
    """Works when it is waited for, and then on all that it was handed: if one call kills it, all answers are lost."""

    def __init__(self, *arguments: Any) -> None:
        self._worker, self._handed = workers.Worker(*arguments), list[tuple[int, Callable[[], Any]]]()
        self._numbers = itertools.count()
        self.said: dict[int, Any] = {}
        self.load = SimpleNamespace(remote=lambda: self._hand(self._worker.load))
        self.answer = SimpleNamespace(remote=lambda call: self._hand(lambda: self._worker.answer(call)))

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
