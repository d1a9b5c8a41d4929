"""The backend against a real server that misbehaves, refuses, or is not there."""

from __future__ import annotations

import socket

import pytest
from flaky_server import FAULTS, REFUSE, FlakyServer, words
from served import GREEDY, NAMES, PRICES, PROMPTS, Open

from longtail.errors import BackendError
from longtail.generation.backends.base import Failure, Generation
from longtail.transfer.http import RetryPolicy
from tests.dripping import DRIPS, dripping


@pytest.mark.parametrize("fault", [f for f in FAULTS if f not in ("fewer", "more", "no_usage", "shuffled")])
def test_a_passing_fault_leaves_no_trace_in_the_answers(open_backend: Open, fault: str, fake_time) -> None:
    with FlakyServer(script=[None, None, fault, None, fault, fault]) as server:
        results = open_backend(server.base_url).generate(PROMPTS[:6], GREEDY)
    assert [result.text for result in results if isinstance(result, Generation)] == [
        words(prompt, 0) for prompt in PROMPTS[:6]
    ]
    assert set(server.books.sold.values()) == {1}
    if fault == "limit":
        assert fake_time.seconds >= 1_002.0
    if fault == "limit_date":  # the date is read by the server's own clock: this one is decades behind
        assert 1_002.0 <= fake_time.seconds <= 1_020.0


@pytest.mark.parametrize("seed", range(3))
def test_a_flaky_run_answers_every_row_and_buys_none_twice(open_backend: Open, seed: int) -> None:
    rates = {fault: 0.03 for fault in FAULTS}
    prompts = [f"{prompt} {i}" for i in range(5) for prompt in PROMPTS]
    names = [f"row {i}" for i in range(len(prompts))]
    with FlakyServer(seed=seed, rates=rates) as server:
        backend = open_backend(
            server.base_url, max_concurrency=6, policy=RetryPolicy(25, 0.01, 0.05, read_s=5.0)
        )
        results = dict(backend.stream(prompts, GREEDY, None, names=names, budget_usd=None))
    assert sorted(results) == list(range(200))
    for i, result in results.items():
        assert isinstance(result, list)
        assert [row.text for row in result] == [words(prompts[i], 0)]
    assert set(server.books.sold.values()) == {1}
    assert len(server.books.faults) > 12
    assert server.books.most_at_once <= 6


def test_a_refused_row_fails_alone_with_the_services_words(open_backend: Open) -> None:
    prompts = [PROMPTS[0], f"{REFUSE} {'long ' * 500}", PROMPTS[1]]
    with FlakyServer() as server:
        first, refused, last = open_backend(server.base_url).generate(prompts, GREEDY)
        assert server.books.requests == 3
    assert isinstance(first, Generation)
    assert isinstance(last, Generation)
    assert isinstance(refused, Failure)
    assert refused.reason.startswith("the service answered 400 (context too long")
    assert len(refused.reason) < 220


@pytest.mark.parametrize(
    ("fault", "advice"),
    [
        ("status_403", "name the key's environment variable as service.api_key_env"),
        ("status_404", "check base_url, api (completions) and path (some-model)"),
        ("status_402", "no credit"),
        ("status_307", "redirects to elsewhere.example: set base_url"),
        ("status_405", "check base_url, api and path"),
        ("code_insufficient_quota", "no credit"),
        ("wait_3600", "asks to wait 3600 s: run again after that"),
    ],
)
def test_an_error_that_concerns_all_rows_ends_the_run_after_one_request(
    open_backend: Open, fault: str, advice: str
) -> None:
    with FlakyServer(script=[fault]) as server:
        backend = open_backend(server.base_url, max_concurrency=8)
        with pytest.raises(BackendError) as caught:
            backend.generate(PROMPTS, GREEDY)
    message = str(caught.value)
    assert message.startswith(f"model served (service {server.base_url})")
    assert advice in message
    assert "\n" not in message
    assert server.books.requests == 1
    assert not server.books.sold


def test_a_wrong_key_is_named_by_its_variable_only(open_backend: Open) -> None:
    with FlakyServer(key="sk-right-right") as server:
        backend = open_backend(server.base_url, {"MY_KEY": " sk-wrong-wrong\n"}, api_key_env="MY_KEY")
        with pytest.raises(BackendError, match="check the key in the environment variable MY_KEY") as caught:
            backend.generate(PROMPTS, GREEDY)
        assert "sk-wrong" not in str(caught.value)
        right = open_backend(server.base_url, {"MY_KEY": "sk-right-right"}, api_key_env="MY_KEY")
        assert isinstance(right.generate(PROMPTS[:1], GREEDY)[0], Generation)
    assert server.books.headers[-1]["Authorization"] == "Bearer sk-right-right"


@pytest.mark.parametrize(
    ("value", "wrong"),
    [(None, "is not set"), ("  ", "is not set"), ("schlüssel", "characters"), ("a b", "characters")],
)
def test_a_missing_or_impossible_key_is_one_clear_line(
    open_backend: Open, value: str | None, wrong: str
) -> None:
    environment = {} if value is None else {"MY_KEY": value}
    with pytest.raises(
        BackendError, match=f"model served: the environment variable MY_KEY.* {wrong}"
    ) as caught:
        open_backend("http://127.0.0.1:9/v1", environment, api_key_env="MY_KEY")
    assert value is None or not value.strip() or value not in str(caught.value)


def test_without_a_key_variable_nothing_is_authorised(open_backend: Open, tmp_path, monkeypatch) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password other-secret\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    with FlakyServer() as server:
        open_backend(server.base_url).generate(PROMPTS[:1], GREEDY)
    assert "Authorization" not in server.books.headers[0]


@pytest.mark.parametrize(
    "address", ["http://127.0.0.1:{free}", "https://127.0.0.1:{taken}", "http://no.such.host.invalid"]
)
def test_an_address_without_a_service_is_one_error_at_once(open_backend: Open, address: str) -> None:
    with socket.socket() as free, FlakyServer() as server:
        free.bind(("127.0.0.1", 0))
        taken = server.base_url.rsplit(":", 1)[1]
        url = address.format(free=free.getsockname()[1], taken=taken)
        backend = open_backend(url)
        with pytest.raises(BackendError, match=r"gave up 1 row after 3 attempts\. Run again once it answers"):
            backend.generate(PROMPTS, GREEDY)
    assert backend.spent_usd == 0


def test_a_service_that_goes_down_ends_the_run_and_keeps_what_came(open_backend: Open) -> None:
    with FlakyServer(script=[None] * 10 + ["error_503"] * 500) as server:
        backend = open_backend(server.base_url, max_concurrency=4)
        stream = backend.stream(PROMPTS, GREEDY, None, names=NAMES, budget_usd=None)
        results: dict[int, object] = {}
        with pytest.raises(BackendError, match="answered 503"):
            results.update(stream)
    assert sum(isinstance(result, list) for result in results.values()) == 10
    assert set(server.books.sold.values()) == {1}


def test_one_row_that_is_never_answered_does_not_end_the_run(open_backend: Open) -> None:
    poison = "Q: Which question crashes you? A:"

    def crash(prompt: str, sample: int) -> str:
        if prompt == poison:
            raise RuntimeError("the worker dies")
        return words(prompt, sample)

    with FlakyServer(text=crash) as server:
        server._server.handle_error = lambda *_: None  # type: ignore[method-assign]
        results = open_backend(server.base_url, max_concurrency=1).generate(
            [*PROMPTS[:5], poison, *PROMPTS[5:]], GREEDY
        )
    assert [i for i, result in enumerate(results) if isinstance(result, Failure)] == [5]
    assert "asked 8 times" in results[5].reason


def test_requests_that_are_all_refused_end_the_run(open_backend: Open) -> None:
    alike = "refused the first 20 rows alike, last: it answered 422"
    with FlakyServer(script=["status_422"] * 100) as server, pytest.raises(BackendError, match=alike):
        open_backend(server.base_url).generate(PROMPTS, GREEDY)
    assert server.books.requests == 20


def test_a_slow_server_is_timed_out_and_asked_again(open_backend: Open) -> None:
    calls = iter(range(100))

    class Slow(FlakyServer):
        def next_fault(self) -> str | None:
            self.seconds = 2.0 if next(calls) == 1 else 0.0
            return None

    with Slow() as server:
        policy = RetryPolicy(8, 0.01, 0.05, read_s=0.7)
        results = open_backend(server.base_url, policy=policy).generate(PROMPTS[:3], GREEDY)
    assert [result.text for result in results if isinstance(result, Generation)] == [
        words(prompt, 0) for prompt in PROMPTS[:3]
    ]
    assert set(server.books.sold.values()) == {1}


def test_a_server_that_drips_is_given_up_in_time_and_may_have_billed(open_backend: Open) -> None:
    policy = RetryPolicy(1, 0.01, 0.05, read_s=6.0, answer_s=0.4)
    with dripping(DRIPS["body"]) as port:
        backend = open_backend(f"http://127.0.0.1:{port}", policy=policy, **PRICES)
        (result,) = backend.generate(PROMPTS[:1], GREEDY)
    assert isinstance(result, Failure)
    assert "no whole answer in time (no end after 0.4 s)" in result.reason
    assert backend.spent_usd > 0


def test_a_service_that_is_broken_from_the_start_is_told_within_a_minute(
    open_backend: Open, fake_time
) -> None:
    with FlakyServer(rates={"error_500": 1.0}) as server:
        backend = open_backend(server.base_url, policy=RetryPolicy(attempts=8))
        with pytest.raises(BackendError, match="answered 500"):
            backend.generate(PROMPTS, GREEDY)
    assert fake_time.seconds - 1_000 < 60
    assert server.books.requests == 24
