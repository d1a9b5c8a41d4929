"""Money: never more than the budget, whatever the prices, sizes and faults, and between threads."""

from __future__ import annotations

import threading
from fractions import Fraction
from typing import Any

import pytest
from flaky_server import FlakyServer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from served import QUICK, service_model

from longtail.generation.backends.base import Decoding, Postponed
from longtail.generation.backends.openai import OpenAIBackend
from longtail.generation.backends.service.billing import Budget, Purchase
from tests.fake_time import FakeTime

FAULTS = (
    "drop_before",
    "drop_after",
    "half_body",
    "limit",
    "error_500",
    "error_502",
    "web_page",
    "fewer",
    "no_usage",
)


def _stream(
    server: FlakyServer, prompts: list[str], decoding: Decoding, seeds: Any, budget: float | None, **keys: Any
) -> tuple[dict[int, Any], OpenAIBackend]:
    model = service_model(server.base_url, **keys)
    backend = OpenAIBackend(model, dict[str, str]().get, policy=QUICK, clock=FakeTime().clock())
    try:
        names = [f"row {i}" for i in range(len(prompts))]
        results = dict(backend.stream(prompts, decoding, seeds, names=names, budget_usd=budget))
    finally:
        backend.close()
    return results, backend


@given(
    st.floats(0, 100), st.floats(0, 100), st.floats(0, 1.2), st.lists(st.integers(0, 60), min_size=8, max_size=25),
    st.integers(1, 40), st.sampled_from([None, 1, 4]), st.integers(1, 8), st.integers(0, 10**6), st.booleans(),
)  # fmt: skip
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_budget_is_never_overrun(
    prompt_usd: float, new_usd: float, share: float, sizes: list[int], max_new_tokens: int, n: int | None,
    width: int, seed: int, forgets_keys: bool,
) -> None:  # fmt: skip
    """Against the books of a server with faults, also one that bills a repeated request again."""
    prompts = [f"{i} " + "word " * size for i, size in enumerate(sizes)]
    budget = share * sum(len(prompt) * prompt_usd + (n or 1) * 15 * new_usd for prompt in prompts) / 1e6
    seeds = None if n is None else [list(range(n))] * len(prompts)
    prices = {"prompt_usd_per_million": prompt_usd, "completion_usd_per_million": new_usd}
    decoding = Decoding(max_new_tokens, 0.5 if n else 0.0)
    rates = dict.fromkeys(FAULTS, 0.04)
    with FlakyServer(seed=seed, rates=rates, forgets_keys=forgets_keys) as server:
        results, backend = _stream(server, prompts, decoding, seeds, budget, max_concurrency=width, **prices)
        billed = server.usd(prompt_usd, new_usd)
    assert sorted(results) == list(range(len(prompts)))
    assert billed <= budget * (1 + 1e-12)
    assert billed <= backend.spent_usd * (1 + 1e-9) <= budget * (1 + 1e-9)
    rows = [row for result in results.values() if isinstance(result, list) for row in result]
    assert sum(row.cost_usd for row in rows) <= budget


def test_the_budget_is_used_and_a_higher_one_goes_on_where_it_ended() -> None:
    prompts = [f"Q: Who wrote book {i}? A:" for i in range(60)]
    prices = {"prompt_usd_per_million": 1.5, "completion_usd_per_million": 2.0}
    one = (7 * 1.5 + 4 * 2.0) / 1e6
    worst = ((len(prompts[59]) + 8) * 1.5 + 15 * 2.0) / 1e6
    with FlakyServer() as server:
        budget = 30 * one
        first, _ = _stream(server, prompts, Decoding(15), None, budget, max_concurrency=8, **prices)
        paid = [i for i, result in first.items() if isinstance(result, list)]
        assert all(isinstance(result, Postponed) for i, result in first.items() if i not in paid)
        assert budget - worst <= server.usd(1.5, 2.0) <= budget
        left = [prompt for i, prompt in enumerate(prompts) if i not in paid]
        rest, _ = _stream(server, left, Decoding(15), None, 100 * one, **prices)
    assert all(isinstance(result, list) for result in rest.values())
    assert set(server.books.sold.values()) == {1}
    assert len(server.books.sold) == 60


def test_a_lost_answer_counts_as_billed() -> None:
    prices = {"prompt_usd_per_million": 1.5, "completion_usd_per_million": 2.0}
    with FlakyServer(script=["drop_after"]) as server:
        results, backend = _stream(server, ["a b c"], Decoding(15), None, 1.0, **prices)
        billed = server.usd(1.5, 2.0)
    assert isinstance(results[0], list)
    assert results[0][0].cost_usd == pytest.approx(billed)
    assert backend.spent_usd > billed * 1.01


def test_a_service_that_bills_more_than_asked_raises_the_next_bounds() -> None:
    """Only the first answer may cost more than was set aside for it: one request goes at first."""
    prices = {"prompt_usd_per_million": 0.0, "completion_usd_per_million": 2.0}
    prompts = [str(i) for i in range(40)]
    text = lambda prompt, sample: "word " * 15  # noqa: E731
    with FlakyServer(rates={"more": 1.0}, text=text) as server:
        results, _ = _stream(server, prompts, Decoding(15), None, 0.001, max_concurrency=8, **prices)
        billed = server.usd(0.0, 2.0)
    assert sum(isinstance(result, list) for result in results.values()) == 11  # of 45 tokens each
    assert billed <= 0.001


def test_nobody_waits_for_the_money_of_a_request_that_ended_unforeseen() -> None:
    budget = Budget(1.0)
    ended, other = Purchase(budget, Fraction(2, 3)), Purchase(budget, Fraction(2, 3))
    assert ended.set_aside()
    waiter = threading.Thread(target=other.set_aside, kwargs={"wait": True}, daemon=True)
    waiter.start()
    ended.leave_open()
    ended.leave_open()
    waiter.join(10)
    assert not waiter.is_alive()
    assert (budget.open, budget.settled) == (Fraction(2, 3), 0)


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50), st.integers(0, 3)), max_size=60),
    st.integers(0, 200),
)
@settings(deadline=None)
def test_what_is_set_aside_open_and_settled_fits_between_threads(
    rows: list[tuple[int, int, int]], limit: int
) -> None:
    budget = Budget(float(limit))
    highest: list[Fraction] = []

    def buy(worst: int, billed: int, lost: int) -> None:
        purchase = Purchase(budget, Fraction(worst))
        for _ in range(lost):
            if not purchase.set_aside(wait=True):
                return
            purchase.leave_open()
        if purchase.set_aside(wait=True):
            highest.append(budget.settled + budget.open)
            purchase.settle(Fraction(min(worst, billed)))
        purchase.settle()

    threads = [threading.Thread(target=buy, args=row) for row in rows]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()
    assert all(money <= limit for money in highest)
    assert 0 <= budget.settled + budget.open <= limit
