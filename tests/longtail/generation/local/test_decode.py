"""Sampling: the same sample in any company, distributed as the model says; greedy ends where it should."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare, kstest

from longtail.generation.backends.local.decoding import (
    Ending,
    decode_greedily,
    decode_samples,
    uniform_numbers,
)

VOCABULARY = 6
END = 0
TABLE = torch.randn((7, VOCABULARY), generator=torch.Generator().manual_seed(3)) * 2


class TableStepper:
    """A model whose logits depend on the prompt's number and the last token alone; counts its states."""

    def __init__(self, prompts: Sequence[int], bad: int | None = None) -> None:
        self.shared_tokens = [0] * len(prompts)
        self.n_states = 0
        self._prompts, self._bad = list(prompts), bad
        self._last = list(prompts)

    def start(self) -> torch.Tensor:
        return self._logits()

    def step(self, parents: Sequence[int], tokens: Sequence[int]) -> torch.Tensor:
        assert list(parents) == sorted(parents)
        self._prompts = [self._prompts[parent] for parent in parents]
        self._last = [prompt + token for prompt, token in zip(self._prompts, tokens, strict=True)]
        return self._logits()

    def _logits(self) -> torch.Tensor:
        self.n_states += len(self._prompts)
        logits = TABLE[torch.tensor(self._last) % len(TABLE)].clone()
        for row, prompt in enumerate(self._prompts):
            if prompt == self._bad:
                logits[row, 2] = float("nan")
        return logits


def ending(n: int) -> Ending:
    return Ending(n, frozenset({END}), lambda tokens: tokens[-1] == 1)


def sampled(prompts: list[int], seeds: list[list[int]], n: int = 5) -> list[list[list[int]] | None]:
    found = decode_samples(TableStepper(prompts), ending(n), 0.7, seeds)
    return [None if texts is None else [one.tokens for one in texts] for texts in found]


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=6),
    st.lists(st.integers(0, 50), min_size=1, max_size=8),
)
def test_a_sample_is_the_same_alone_and_in_any_batch(prompts: list[int], seeds: list[int]) -> None:
    together = sampled(prompts, [seeds] * len(prompts))
    for prompt, texts in zip(prompts, together, strict=True):
        assert texts is not None
        for seed, text in zip(seeds, texts, strict=True):
            assert sampled([prompt], [[seed]]) == [[text]]


def test_samples_follow_the_models_probabilities() -> None:
    n = 20_000
    texts = sampled([4], [list(range(n))], n=2)[0]
    assert texts is not None
    expected: dict[tuple[int, ...], float] = {}
    first = (TABLE[4] / 0.7).double().softmax(0).tolist()
    for token, p in enumerate(first):
        if token == END:
            expected[()] = p
        elif token == 1:
            expected[(1,)] = p
        else:
            second = (TABLE[(4 + token) % len(TABLE)] / 0.7).double().softmax(0).tolist()
            for after, q in enumerate(second):
                text = (token,) if after == END else (token, after)
                expected[text] = expected.get(text, 0.0) + p * q
    counts = Counter(map(tuple, texts))
    assert set(counts) <= set(expected)
    likely = [text for text, p in expected.items() if p * n >= 5]
    observed = [counts[text] for text in likely]
    rest = n - sum(observed)
    wanted = [expected[text] * n for text in likely]
    assert chisquare([*observed, rest + 1e-9], [*wanted, n - sum(wanted) + 1e-9]).pvalue > 1e-3


def test_samples_that_agree_share_their_steps() -> None:
    stepper = TableStepper([2, 3])
    texts = decode_samples(stepper, ending(4), 0.7, [list(range(50)), [5, 5, 5]])
    assert texts[0] is not None
    beginnings = {tuple(text.tokens[:n]) for text in texts[0] for n in range(len(text.tokens) + 1)}
    assert stepper.n_states <= len(beginnings) + 1 + 4
    assert texts[1] is not None
    assert texts[1][0] == texts[1][1] == texts[1][2]


def test_each_token_has_its_score_at_temperature_1() -> None:
    (texts,) = decode_samples(TableStepper([4]), ending(4), 0.7, [list(range(50))])
    assert texts is not None
    for text in texts:
        assert len(text.scores) == len(text.tokens)
        last = 4
        for token, score in zip(text.tokens, text.scores, strict=True):
            p = TABLE[last % len(TABLE)].double().softmax(0)
            first, second = p.sort(descending=True).values[:2].tolist()
            wanted = (p[token].log().item(), -(p * p.log()).sum().item(), first - second)
            assert score == pytest.approx(wanted, abs=1e-6)
            last = 4 + token


def test_near_zero_temperature_is_greedy() -> None:
    greedy = decode_greedily(TableStepper([0, 1, 2]), 3, ending(6))
    cold = decode_samples(TableStepper([0, 1, 2]), ending(6), 1e-4, [[7], [8], [9]])
    assert [texts[0] for texts in cold if texts is not None] == greedy


def test_scores_that_are_not_finite_fail_their_prompt_only() -> None:
    alone = decode_greedily(TableStepper([3]), 1, ending(6))
    assert decode_greedily(TableStepper([2, 3], bad=2), 2, ending(6)) == [None, *alone]
    found = decode_samples(TableStepper([2, 3], bad=2), ending(6), 0.7, [[1, 2], [1, 2]])
    assert found[0] is None
    assert found[1] is not None


def test_numbers_are_of_seed_and_step_alone() -> None:
    assert (uniform_numbers(7, 3) == uniform_numbers(7, 15)[:3]).all()
    assert uniform_numbers(7, 1) != uniform_numbers(8, 1)
    drawn = np.concatenate([uniform_numbers(seed, 4) for seed in range(2_000)])
    assert kstest(drawn, "uniform").pvalue > 1e-3
    assert drawn.min() >= 0
    assert drawn.max() < 1


@pytest.mark.parametrize("number", [0.0, 1 - 2.0**-53])
def test_the_ends_of_the_unit_interval_draw_tokens_of_some_probability(number: float) -> None:
    from longtail.generation.backends.local.decoding import _inverse

    logits = torch.tensor([[-float("inf"), 1.0, 0.0, -float("inf")]])
    token = int(_inverse(logits, 0.5, torch.tensor([[number]], dtype=torch.float64))[0, 0])
    assert token == (1 if number == 0 else 2)
