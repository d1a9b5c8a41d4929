"""The backend's requests while they are under way: order, interruption, connections, the budget."""

from __future__ import annotations

import _thread
import threading

import pytest
from flaky_server import FlakyServer, words
from served import GREEDY, NAMES, PRICES, PROMPTS, QUICK, Open

from longtail.generation.backends.base import Decoding, Postponed


def test_an_interrupted_run_still_gets_what_is_under_way(open_backend: Open) -> None:
    with FlakyServer(seconds=0.3) as server:
        backend = open_backend(server.base_url, max_concurrency=4)
        stream = backend.stream(PROMPTS, GREEDY, None, names=NAMES, budget_usd=None)
        results: dict[int, object] = dict([next(stream)])
        threading.Timer(0.15, _thread.interrupt_main).start()
        with pytest.raises(KeyboardInterrupt):
            results.update(stream)
    kept = [result for result in results.values() if isinstance(result, list)]
    assert 1 < len(kept) <= 5
    assert len(kept) == len(server.books.sold)


def test_results_come_as_soon_as_they_are_there(open_backend: Open) -> None:
    """The last row's answer waits until the first rows' results have been handed on."""
    handed_on = threading.Event()

    def text(prompt: str, sample: int) -> str:
        if prompt == PROMPTS[3]:
            assert handed_on.wait(10)
        return words(prompt, sample)

    class Unlocked(FlakyServer):
        def next_fault(self) -> str | None:
            return None

    with Unlocked() as server:
        backend = open_backend(server.base_url, max_concurrency=2)
        server.text = words
        stream = backend.stream(PROMPTS[:4], GREEDY, None, names=NAMES[:4], budget_usd=None)
        first = next(stream)
        assert first[0] == 0
        server.text = text
        seen = [index for index, _ in _noting(stream, handed_on)]
    assert sorted(seen) == [1, 2, 3]


def _noting(stream, handed_on: threading.Event):
    for item in stream:
        handed_on.set()
        yield item


def test_a_closed_stream_waits_for_its_requests_and_sends_no_more(open_backend: Open) -> None:
    with FlakyServer(seconds=0.02) as server:
        backend = open_backend(server.base_url, max_concurrency=4)
        stream = backend.stream(PROMPTS, GREEDY, None, names=NAMES, budget_usd=None)
        next(stream)
        next(stream)
        stream.close()
        sent = server.books.requests
        assert sent <= 1 + 4 + 4
        assert len(backend.generate(PROMPTS[:2], GREEDY)) == 2


def test_prompts_are_taken_one_by_one(open_backend: Open) -> None:
    taken: list[int] = []

    class Lazy(list):
        def __getitem__(self, index):
            taken.append(index)
            return super().__getitem__(index)

    with FlakyServer() as server:
        backend = open_backend(server.base_url, max_concurrency=2)
        stream = backend.stream(Lazy(PROMPTS), GREEDY, None, names=NAMES, budget_usd=None)
        next(stream)
        assert len(taken) <= 4
        assert len(list(stream)) == 39
    assert taken == list(range(40))


def test_a_proxy_of_the_environment_is_used_but_not_within_this_machine(
    open_backend: Open, monkeypatch
) -> None:
    with FlakyServer() as proxy, FlakyServer() as server:
        monkeypatch.setenv("HTTP_PROXY", proxy.base_url)
        monkeypatch.setenv("http_proxy", proxy.base_url)
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        open_backend("http://service.invalid/v1").generate(PROMPTS[:2], GREEDY)
        open_backend(server.base_url).generate(PROMPTS[:3], GREEDY)
    assert (proxy.books.requests, server.books.requests) == (2, 3)


def test_keep_alive(open_backend: Open) -> None:
    with FlakyServer() as server:
        accepted = []
        accept = server._server.get_request
        server._server.get_request = lambda: accepted.append(1) or accept()  # type: ignore[method-assign]
        backend = open_backend(server.base_url, max_concurrency=3)
        backend.generate(PROMPTS, GREEDY)
        backend.generate(PROMPTS, Decoding(3))
    assert len(accepted) <= 3


def test_a_budget_postpones_what_would_not_fit(open_backend: Open) -> None:
    long = "word " * 400
    with FlakyServer() as server:
        backend = open_backend(server.base_url, policy=QUICK, **PRICES)
        budget = 0.0006
        stream = backend.stream(
            [PROMPTS[0], long, PROMPTS[1]], GREEDY, None, names=["a", "b", "c"], budget_usd=budget
        )
        results = dict(stream)
    assert isinstance(results[0], list)
    assert isinstance(results[1], Postponed)
    assert "max_cost_usd" in results[1].reason
    assert isinstance(results[2], list)
    assert server.usd(1.5, 2.0) <= budget
    assert server.books.requests == 2
