"""The backend against a real server that misbehaves."""

from __future__ import annotations

import _thread
import math
import socket
import threading
import time
from collections.abc import Callable

import pytest
from flaky_server import FAULTS, REFUSE, WITHHOLD, FlakyServer, words
from served import GREEDY, QUICK, WARM, service_model

from dagster_project.core.errors import BackendError
from dagster_project.core.generation.backends.base import Decoding, Failure, Generation, Postponed
from dagster_project.core.generation.backends.openai import OpenAIBackend
from dagster_project.core.generation.backends.registry import identify
from dagster_project.core.generation.prompts.endings import cut_answer
from dagster_project.core.http import RetryPolicy
from dagster_project.core.study.backends import BACKENDS
from tests.dripping import DRIPS, Drip, dripping

Open = Callable[..., OpenAIBackend]
PROMPTS = [f"Q: Who wrote book {i}? A:" for i in range(40)]
NAMES = [f"row {i}" for i in range(40)]
PRICES = {"prompt_usd_per_million": 1.5, "completion_usd_per_million": 2.0}


def test_the_registry_names_the_backend() -> None:
    entry = BACKENDS["openai"]
    assert entry.load() is OpenAIBackend
    assert entry.capabilities == OpenAIBackend.capabilities


@pytest.mark.parametrize("api", ["completions", "chat"])
def test_greedy_answers_in_order_with_their_accounts(open_backend: Open, api: str) -> None:
    with FlakyServer() as server:
        backend = open_backend(server.base_url, api=api, **PRICES)
        results = backend.generate(PROMPTS, GREEDY)
    for prompt, result in zip(PROMPTS, results, strict=True):
        assert isinstance(result, Generation)
        assert result.text == words(prompt, 0)
        assert (result.prompt_tokens, result.new_tokens, result.shared_tokens) == (7, 4, 3)
        assert (result.batch_size, result.n_truncated_tokens, result.device_seconds) == (1, 0, None)
        assert result.cost_usd == pytest.approx((7 * 1.5 + 4 * 2.0) / 1e6, abs=1e-15)
        assert result.latency_ms >= 0
    sent = server.books.bodies[0]
    asked = (
        {"prompt": PROMPTS[0]}
        if api == "completions"
        else {"messages": [{"role": "user", "content": PROMPTS[0]}]}
    )
    assert sent == {
        "model": "some-model", **asked, "max_tokens": 15, "temperature": 0, "top_p": 1, "n": 1, "stop": ["\n\n\n"],
    }  # fmt: skip
    assert backend.spent_usd == pytest.approx(server.usd(1.5, 2.0))


def test_samples_come_in_one_request_by_their_first_seed(open_backend: Open) -> None:
    seeds = [[100 * i + 2**31 * 5, 100 * i + 7, 100 * i + 9] for i in range(5)]
    with FlakyServer() as server:
        results = open_backend(server.base_url, **PRICES).sample(PROMPTS[:5], WARM, seeds)
        assert server.books.requests == 5
    for i, result in enumerate(results):
        assert isinstance(result, list)
        assert [row.text for row in result] == [words(PROMPTS[i], 100 * i + j) for j in range(3)]
        assert [row.shared_tokens for row in result] == [3, 7, 7]
        assert [row.batch_size for row in result] == [3, 3, 3]
        assert len({row.latency_ms for row in result}) == 1
    costs = sum(row.cost_usd or 0 for result in results if isinstance(result, list) for row in result)
    assert costs == pytest.approx(server.usd(1.5, 2.0), abs=1e-15)
    by_prompt = {body["prompt"]: body for body in server.books.bodies}
    assert [by_prompt[prompt]["seed"] for prompt in PROMPTS[:5]] == [0, 100, 200, 300, 400]
    assert by_prompt[PROMPTS[0]]["temperature"] == 0.5
    assert by_prompt[PROMPTS[0]]["n"] == 3


def test_missing_choices_are_asked_for_again_and_only_they(open_backend: Open) -> None:
    seeds = [[11, 22, 33, 44, 55]]
    with FlakyServer(script=["fewer", "fewer", None]) as server:
        (result,) = open_backend(server.base_url, **PRICES).sample(PROMPTS[:1], WARM, seeds)
    assert isinstance(result, list)
    assert [(body["n"], body["seed"]) for body in server.books.bodies] == [(5, 11), (2, 44), (1, 55)]
    expected = [words(PROMPTS[0], seed) for seed in (11, 12, 13, 44, 55)]
    assert [row.text for row in result] == expected
    assert sum(row.cost_usd or 0 for row in result) == pytest.approx(server.usd(1.5, 2.0), abs=1e-15)
    assert len(set(header["Idempotency-Key"] for header in server.books.headers)) == 3


def test_surplus_choices_are_dropped_but_paid(open_backend: Open) -> None:
    with FlakyServer(rates={"more": 1.0}) as server:
        results = open_backend(server.base_url, **PRICES).sample(PROMPTS[:4], WARM, [[1, 2]] * 4)
    rows = [row for result in results if isinstance(result, list) for row in result]
    assert [row.text for row in rows] == [words(prompt, seed) for prompt in PROMPTS[:4] for seed in (1, 2)]
    assert sum(row.cost_usd or 0 for row in rows) == pytest.approx(server.usd(1.5, 2.0), abs=1e-15)
    assert all(row.new_tokens == 4 for row in rows)


def test_choices_are_taken_by_their_index(open_backend: Open) -> None:
    with FlakyServer(rates={"shuffled": 1.0}) as server:
        (result,) = open_backend(server.base_url).sample(PROMPTS[:1], WARM, [[5, 6, 7]])
    assert isinstance(result, list)
    assert [row.text for row in result] == [words(PROMPTS[0], seed) for seed in (5, 6, 7)]
    assert {row.cost_usd for row in result} == {None}


def test_without_usage_tokens_are_upper_bounds(open_backend: Open, caplog: pytest.LogCaptureFixture) -> None:
    with FlakyServer(rates={"no_usage": 1.0}) as server:
        results = open_backend(server.base_url, **PRICES).generate(PROMPTS[:3], GREEDY)
    for result in results:
        assert isinstance(result, Generation)
        assert (result.prompt_tokens, result.new_tokens) == (len(PROMPTS[0].encode()) + 8, 15)
    assert sum(r.cost_usd or 0 for r in results if isinstance(r, Generation)) > server.usd(1.5, 2.0)
    assert [record.message for record in caplog.records if "no usage" in record.message]


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


def test_a_withheld_answer_is_a_failure_and_an_empty_one_an_answer(open_backend: Open) -> None:
    with FlakyServer(text=lambda prompt, sample: "") as server:
        empty, withheld = open_backend(server.base_url).generate([PROMPTS[0], WITHHOLD], GREEDY)
    assert isinstance(empty, Generation)
    assert (empty.text, empty.new_tokens) == ("", 0)
    assert isinstance(withheld, Failure)
    assert "content_filter" in withheld.reason


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
        with pytest.raises(
            BackendError, match=r"rows given up: 1, after 3 attempts\. Run again once it answers"
        ):
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


@pytest.mark.parametrize("name", ["header", "continue", "chunk's extension", "trailer", "body"])
def test_a_server_that_drips_is_given_up_in_time_and_may_have_billed(open_backend: Open, name: str) -> None:
    policy = RetryPolicy(1, 0.01, 0.05, read_s=6.0, answer_s=0.4)
    with dripping(DRIPS[name]) as port:
        backend = open_backend(f"http://127.0.0.1:{port}", policy=policy, **PRICES)
        started = time.monotonic()
        (result,) = backend.generate(PROMPTS[:1], GREEDY)
        assert time.monotonic() - started < 5.0
    assert isinstance(result, Failure)
    assert "no whole answer in time (no end after 0.4 s)" in result.reason
    assert backend.spent_usd > 0


@pytest.mark.parametrize("lengths", ["Content-Length: 5\r\nContent-Length: 7", "Content-Length: five"])
def test_an_answer_of_two_lengths_may_have_been_billed(open_backend: Open, lengths: str) -> None:
    with dripping(Drip(f"HTTP/1.1 200 OK\r\n{lengths}\r\n\r\n".encode(), b" ")) as port:
        backend = open_backend(f"http://127.0.0.1:{port}", policy=RetryPolicy(1, 0.01, 0.05), **PRICES)
        (result,) = backend.generate(PROMPTS[:1], GREEDY)
    assert isinstance(result, Failure)
    assert "Content-Length is" in result.reason
    assert backend.spent_usd > 0


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


def test_samples_that_never_differ_are_remarked_on(
    open_backend: Open, caplog: pytest.LogCaptureFixture
) -> None:
    prompts = [f"{i}" for i in range(60)]
    with FlakyServer(text=lambda prompt, sample: prompt) as server:
        open_backend(server.base_url).sample(prompts, WARM, [[1, 2]] * 60)
    with FlakyServer(text=lambda prompt, sample: prompt if prompt != "3" else str(sample)) as server:
        open_backend(server.base_url).sample(prompts, WARM, [[1, 2]] * 60)
    remarks = [record.message for record in caplog.records if "does it heed temperature" in record.message]
    assert len(remarks) == 1


def test_a_service_that_is_broken_from_the_start_is_told_within_a_minute(
    open_backend: Open, fake_time
) -> None:
    with FlakyServer(rates={"error_500": 1.0}) as server:
        backend = open_backend(server.base_url, policy=RetryPolicy(attempts=8))
        with pytest.raises(BackendError, match="answered 500"):
            backend.generate(PROMPTS, GREEDY)
    assert fake_time.seconds - 1_000 < 60
    assert server.books.requests == 24


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


def test_unusual_prompts_arrive_as_they_are(open_backend: Open) -> None:
    prompts = ["", " ", "\n\n", "Łódź \u2028 👩‍🚀 \x00", "lone \ud800", '"\\', "a" * 20_000]
    with FlakyServer() as server:
        results = open_backend(server.base_url).generate(prompts, GREEDY)
    assert [r.text for r in results if isinstance(r, Generation)] == [words(prompt, 0) for prompt in prompts]
    assert sorted(body["prompt"] for body in server.books.bodies) == sorted(prompts)


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


def test_no_seeds_no_request_and_no_prompts_no_results(open_backend: Open) -> None:
    with FlakyServer() as server:
        backend = open_backend(server.base_url)
        assert backend.sample(PROMPTS[:2], WARM, [[], [3]])[0] == []
        assert backend.generate([], GREEDY) == []
        assert server.books.requests == 1


def test_calls_that_make_no_sense_are_errors(open_backend: Open) -> None:
    backend = open_backend("http://127.0.0.1:9/v1")
    with pytest.raises(BackendError, match="generate is greedy"):
        backend.generate(PROMPTS, WARM)
    with pytest.raises(BackendError, match="cannot score"):
        backend.score(["a"], [["b"]])
    with pytest.raises(BackendError, match="2 prompts came with 1 names"):
        backend.stream(["a", "b"], GREEDY, None, names=["x"], budget_usd=None)
    for budget in (-1.0, math.nan, math.inf):
        with pytest.raises(BackendError, match="budget"):
            backend.stream(["a"], GREEDY, None, names=["x"], budget_usd=budget)
    with pytest.raises(
        BackendError, match=r"needs a price, and none is known for some-model.*nothing was sent"
    ):
        backend.stream(["a"], GREEDY, None, names=["x"], budget_usd=1.0)


def test_identity_needs_no_server_and_tells_services_apart() -> None:
    base = service_model("https://api.example.org/v1")
    others = [
        service_model("https://api.example.org/v2"),
        service_model("https://api.example.org/v1", api="chat"),
        service_model("https://api.example.org/v1", path="other"),
        service_model("https://api.example.org/v1", revision="2026-01"),
    ]
    same = [
        service_model("https://api.example.org/v1/", api_key_env="K", max_concurrency=2, max_cost_usd=1.0),
        service_model("https://api.example.org/v1", **PRICES, requests_per_minute=3),
    ]
    assert len({identify(model).weights for model in [base, *others]}) == 5
    assert {identify(model).weights for model in [base, *same]} == {identify(base).weights}
    assert (identify(base).engine, identify(others[1]).engine) == ("openai-completions", "openai-chat")


def test_the_kept_answer_is_the_same_with_and_without_the_stop(open_backend: Open) -> None:
    """A server that obeys stops, against the whole text."""
    texts = [
        "\n\nParis\nQ: x",
        " Paris\n\n\nQ:",
        "\nParis",
        "\n\n\nParis",
        "Paris",
        "",
        "\n\nQ: Paris",
        "a\n\nb\n\n\nc",
    ]

    def stopping(prompt: str, sample: int) -> str:
        return texts[int(prompt)].split("\n\n\n")[0]

    with FlakyServer(text=stopping) as server:
        results = open_backend(server.base_url).generate([str(i) for i in range(len(texts))], GREEDY)
    kept = [cut_answer(result.text) for result in results if isinstance(result, Generation)]
    assert kept == [cut_answer(text) for text in texts]


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
