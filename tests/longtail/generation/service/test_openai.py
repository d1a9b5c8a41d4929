"""The backend's answers, samples and accounts, from a real server."""

from __future__ import annotations

import math
import signal
import threading
from typing import Any

import pytest
from flaky_server import WITHHOLD, FlakyServer, words
from served import GREEDY, NAMES, PRICES, PROMPTS, WARM, Open, service_model

from longtail.errors import BackendError
from longtail.generation.backends.base import Decoding, Generation, identify
from longtail.generation.prompts.endings import AFTER_THINKING, FIRST_LINE, cut_answer, cut_span
from longtail.scoring.model_answer import Confidence, ModelAnswer, confidence_of_part, read_tokens


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


@pytest.mark.parametrize("api", ["completions", "chat"])
def test_log_probabilities_give_the_confidence_of_greedy_answers(open_backend: Open, api: str) -> None:
    with FlakyServer() as server:
        backend = open_backend(server.base_url, api=api, log_probabilities=True)
        greedy = backend.generate(PROMPTS[:3], GREEDY)
        drawn = backend.sample(PROMPTS[:1], WARM, [[1, 2]])
        bare = open_backend(server.base_url, api=api).generate(PROMPTS[3:4], GREEDY)
    for result in greedy:
        assert isinstance(result, Generation)
        n = len(cut_answer(result.text).split())
        total = -math.log(math.factorial(n + 1))
        wanted = Confidence(n, pytest.approx(total), pytest.approx(1 / (n + 1)), 0.5, 0.25)  # type: ignore[arg-type]
        assert result.confidence == wanted
    others = [*drawn[0], *bare] if isinstance(drawn[0], list) else []
    assert [isinstance(one, Generation) and one.confidence for one in others] == [None] * 3


@pytest.mark.parametrize(
    "given",
    [
        None, [], {}, {"content": [{"token": "a"}]}, {"content": "a"}, {"tokens": ["a"]},
        {"tokens": ["a"], "token_logprobs": [0.5], "top_logprobs": [{}]},
        {"tokens": ["a"], "token_logprobs": [math.nan], "top_logprobs": [{}]},
        {"tokens": ["a", "b"], "token_logprobs": [-1], "top_logprobs": [{}]},
        {"tokens": ["x"], "token_logprobs": [-1], "top_logprobs": [{}]},
    ],
)  # fmt: skip
def test_log_probabilities_that_do_not_fit_are_not_known(given: object) -> None:
    assert confidence_of_part("a", read_tokens({"logprobs": given}), 0, 1) is None


def test_only_tokens_of_the_kept_line_count() -> None:
    given = {"tokens": ["\n\n", " A", "da", "\n", "B"], "token_logprobs": [-1, -2, -3, -4, -5]}
    tokens = read_tokens({"logprobs": given | {"top_logprobs": [None] * 5}})
    text = "\n\n Ada\nB"
    found = confidence_of_part(text, tokens, *cut_span(text, FIRST_LINE))
    assert found == Confidence(2, -5.0, 0.04978707, 0.1353353)


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


def test_without_usage_tokens_are_upper_bounds(open_backend: Open, caplog: pytest.LogCaptureFixture) -> None:
    with FlakyServer(rates={"no_usage": 1.0}) as server:
        results = open_backend(server.base_url, **PRICES).generate(PROMPTS[:3], GREEDY)
    for result in results:
        assert isinstance(result, Generation)
        assert (result.prompt_tokens, result.new_tokens) == (len(PROMPTS[0].encode()) + 8, 15)
    assert sum(r.cost_usd or 0 for r in results if isinstance(r, Generation)) > server.usd(1.5, 2.0)
    assert [record.message for record in caplog.records if "no usage" in record.message]


def test_a_withheld_answer_is_declined_and_an_empty_one_an_answer(open_backend: Open) -> None:
    with FlakyServer(text=lambda prompt, sample: "") as server:
        empty, withheld = open_backend(server.base_url).generate([PROMPTS[0], WITHHOLD], GREEDY)
    assert isinstance(empty, Generation)
    assert isinstance(withheld, Generation)
    assert (empty.text, empty.new_tokens, empty.answer()) == ("", 0, ModelAnswer(""))
    assert withheld.answer() == ModelAnswer("", is_declined=True)


def test_reasoning_is_billed_as_new_tokens_counted_apart_and_no_part_of_the_answer(
    open_backend: Open,
) -> None:
    def thinks(answer: dict[str, Any], prompt: str) -> None:
        for choice in answer["choices"]:
            choice["message"]["reasoning_content"] = "hm, " * 20
        answer["usage"] |= {"completion_tokens": 60, "completion_tokens_details": {"reasoning_tokens": 40}}

    with FlakyServer(reply=thinks, text=lambda prompt, sample: "Paris") as server:
        backend = open_backend(server.base_url, api="chat", **PRICES)
        (one,) = backend.generate(PROMPTS[:1], Decoding(200, end=f"{AFTER_THINKING}{FIRST_LINE}"))
        (samples,) = backend.sample(PROMPTS[:1], WARM, [[1, 2]])
    assert isinstance(one, Generation)
    assert (one.text, one.answer()) == ("Paris", ModelAnswer("Paris", "hm, " * 20))
    assert one.raw_text == f"<think>{'hm, ' * 20}</think>\n\nParis"
    assert (one.new_tokens, one.reasoning_tokens) == (60, 40)
    assert one.cost_usd == pytest.approx((7 * 1.5 + 60 * 2.0) / 1e6)
    assert one.reasoning_usd == pytest.approx(40 * 2.0 / 1e6)
    assert isinstance(samples, list)
    assert [(row.new_tokens, row.reasoning_tokens) for row in samples] == [(30, 20), (30, 20)]
    assert ["stop" in body for body in server.books.bodies] == [False, True]


def test_a_model_other_than_the_one_asked_is_stored_and_told(
    open_backend: Open, caplog: pytest.LogCaptureFixture
) -> None:
    with FlakyServer(reply=lambda answer, prompt: answer.update(model="other-7b")) as server:
        results = open_backend(server.base_url).generate(PROMPTS[:3], GREEDY)
    with FlakyServer() as server:
        results += open_backend(server.base_url).generate(PROMPTS[:1], GREEDY)
    models = [result.served_model for result in results if isinstance(result, Generation)]
    assert models == ["other-7b"] * 3 + ["some-model"]
    told = [record.message for record in caplog.records if "answers by model" in record.message]
    assert len(told) == 1
    assert "'other-7b', where 'some-model' was asked for" in told[0]


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


def test_no_seeds_no_request_and_no_prompts_no_results(open_backend: Open) -> None:
    with FlakyServer() as server:
        backend = open_backend(server.base_url)
        assert backend.sample(PROMPTS[:2], WARM, [[], [3]])[0] == []
        assert backend.generate([], GREEDY) == []
        assert server.books.requests == 1


def test_scores_and_budgets_without_a_price_are_refused(open_backend: Open) -> None:
    backend = open_backend("http://127.0.0.1:9/v1")
    with pytest.raises(BackendError, match="cannot score"):
        backend.score(["a"], [["b"]])
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


def test_an_interrupted_run_still_gets_what_is_under_way(open_backend: Open) -> None:
    """The server answers the first request at once, and four others only when the interrupt has reached the run."""
    released, main = threading.Event(), threading.get_ident()

    def interrupt(*_: object) -> None:
        released.set()
        raise KeyboardInterrupt

    class Holding(FlakyServer):
        def next_fault(self) -> str | None:
            with self.lock:
                self.books.requests += 1
                number = self.books.requests
            if number == 5:  # the run is about to wait
                threading.Timer(0.3, signal.pthread_kill, (main, signal.SIGINT)).start()
            assert number == 1 or released.wait(60)
            return None

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        with Holding() as server:
            backend = open_backend(server.base_url, max_concurrency=4)
            stream = backend.stream(PROMPTS, GREEDY, None, names=NAMES, budget_usd=None)
            results: dict[int, object] = {}
            with pytest.raises(KeyboardInterrupt):
                results.update(stream)
    finally:
        signal.signal(signal.SIGINT, before)
    assert sum(isinstance(result, list) for result in results.values()) == 5
    assert sum(server.books.sold.values()) == 5


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
