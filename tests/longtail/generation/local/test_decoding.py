"""The decoding loop: greedy texts and samples, where they end, and how sure the model was of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare, kstest
from tiny_models import ARCHITECTURES, ENCODER_DECODERS, ODD_CAUSAL
from tokenizers import AddedToken

from longtail.generation.backends.base import Decoding, Generation
from longtail.generation.backends.hf import TransformersBackend
from longtail.generation.backends.local.decoding import (
    Ending,
    Texts,
    TokenScore,
    confidence_of_text,
    decode_greedily,
    decode_samples,
    token_scores,
    uniform_numbers,
)
from longtail.generation.backends.local.loading import load_model
from longtail.generation.prompts.endings import (
    AFTER_THINKING,
    END,
    ENDS,
    FIRST_LINE,
    SENTENCE,
    cut_text,
    is_complete,
)
from longtail.study.models import Model

VOCABULARY = 6
END_ID = 0
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
    return Ending(n, frozenset({END_ID}), lambda tokens: tokens[-1] == 1)


def sampled(prompts: list[int], seeds: list[list[int]], n: int = 5) -> list[list[list[int]] | None]:
    found = decode_samples(TableStepper(prompts), ending(n), 0.7, seeds)
    return [None if texts is None else [one.tokens for one in texts] for texts in found]


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=6), st.lists(st.integers(0, 50), min_size=1, max_size=8)
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
        if token == END_ID:
            expected[()] = p
        elif token == 1:
            expected[(1,)] = p
        else:
            second = (TABLE[(4 + token) % len(TABLE)] / 0.7).double().softmax(0).tolist()
            for after, q in enumerate(second):
                text = (token,) if after == END_ID else (token, after)
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


TEXT_PIECES = ("\n", "\n\n", " ", "a", "b\n", "\nc", "é", ". ", " He", "!", "<think>\n", "</think>")


TOKENS = st.lists(st.integers(0, 11), min_size=1, max_size=12)


class TextPieces:
    """A tokenizer of few pieces."""

    added_tokens_decoder: ClassVar[dict[int, Any]] = {}

    def batch_decode(self, written: list[list[int]], **options: Any) -> list[str]:
        return ["".join(TEXT_PIECES[token] for token in tokens) for tokens in written]


@given(TOKENS | st.tuples(TOKENS, TOKENS).map(lambda two: [10, *two[0], 11, *two[1]]), st.sampled_from(ENDS))
def test_a_text_is_done_as_soon_as_it_is_complete(tokens: list[int], end: str) -> None:
    is_done_at = Texts(TextPieces()).is_done(end)
    for n in range(1, len(tokens) + 1):
        text = "".join(TEXT_PIECES[token] for token in tokens[:n])
        is_done = is_done_at(tokens[:n])
        assert is_done == is_complete(text, end)
        if is_done:
            if not {10, 11} & {*tokens}:  # a closing mark later on makes reasoning of what is before it
                assert cut_text(text, end) == cut_text("".join(TEXT_PIECES[token] for token in tokens), end)
            break


PROMPTS = [f"Q: {'abc de ' * (i % 9)}{i} A:" for i in range(12)]
N_NEW = 12
PIECES = ("</s>", " Paris", ".", "\n", ".\n", "\n\n", " He", " is", "", "<think>", "</think>")
NAMES = [*ARCHITECTURES, *ODD_CAUSAL, "t5", "mt5", "bart", "bart_forced"]


class Pieces:
    """A tokenizer of few pieces, the first of them special."""

    added_tokens_decoder: ClassVar[dict[int, Any]] = {0: AddedToken("</s>", special=True)}

    def batch_decode(self, written: list[list[int]], **options: Any) -> list[str]:
        return ["".join(PIECES[token] for token in tokens if token) for tokens in written]


@pytest.mark.parametrize(
    ("tokens", "end", "kept"),
    [
        ((1,), FIRST_LINE, (0,)),
        ((1, 2, 3), FIRST_LINE, (0, 1)),
        ((1, 4), FIRST_LINE, (0, 1)),
        ((5, 1, 3), FIRST_LINE, (1,)),
        ((3, 3, 1, 3), FIRST_LINE, (2,)),
        ((0, 1, 3), FIRST_LINE, (1,)),
        ((1, 0), FIRST_LINE, (0,)),
        ((3,), FIRST_LINE, ()),
        ((), FIRST_LINE, ()),
        ((0, 0), END, ()),
        ((1, 3, 1), END, (0, 1, 2)),
        ((1, 2, 6, 7), SENTENCE, (0, 1)),
        ((1, 7, 1, 2, 3), SENTENCE, (0, 1, 2, 3)),
        ((9, 1, 3, 7, 10, 5, 1, 2, 3, 7), f"{AFTER_THINKING}{FIRST_LINE}", (6, 7)),
        ((9, 1, 3, 7, 10, 5, 1, 2, 6), f"{AFTER_THINKING}{SENTENCE}", (6, 7)),
        ((9, 1, 10, 1, 3, 1), END, (3, 4, 5)),
        ((9, 1, 3, 7), f"{AFTER_THINKING}{FIRST_LINE}", ()),
    ],
)
def test_tokens_of_the_kept_text_count(tokens: tuple[int, ...], end: str, kept: tuple[int, ...]) -> None:
    texts = Texts(Pieces())
    scores = [TokenScore(-(2.0**place), float(place), place / 8) for place in range(len(tokens))]
    (text,) = texts.decode([tokens])
    found = confidence_of_text(tokens, scores, text, end, texts)
    if not kept:
        assert found is None
        return
    assert found is not None
    assert found.confidence_tokens == len(kept)
    assert found.sum_log_probability == sum(-(2.0**place) for place in kept)
    assert found.least_probability == pytest.approx(math.exp(-(2.0 ** kept[-1])))
    assert found.first_probability == pytest.approx(math.exp(-(2.0 ** kept[0])))
    assert found.first_margin == kept[0] / 8
    assert found.mean_entropy == pytest.approx(sum(kept) / len(kept))


def test_scores_are_those_of_a_softmax_in_double_precision() -> None:
    drawn = torch.Generator().manual_seed(0)
    logits = torch.randn((7, 100_000), generator=drawn) * 6
    logits[1, 500:] = -math.inf
    logits[2, 3], logits[3, 4] = 300, 1e30
    logits[4, 1:] = -math.inf
    logits[5, :2] = 40
    rows = torch.tensor([0, 0, 1, 2, 3, 4, 5, 6])
    tokens = torch.tensor([7, 99_999, 499, 3, 4, 0, 1, 5])
    found = token_scores(logits.clone(), *logits.max(dim=-1), rows, tokens)
    p = logits.double().softmax(dim=-1)
    best = p.topk(2).values
    entropies = torch.special.entr(p).sum(dim=-1)
    wanted = torch.stack(
        [logits.double().log_softmax(dim=-1)[rows, tokens], entropies[rows], (best[:, 0] - best[:, 1])[rows]]
    )
    assert found.dtype == torch.float64
    torch.testing.assert_close(found, wanted, atol=2e-5, rtol=1e-6)


def places(tokenizer: Any, tokens: list[int], text: str, end: str) -> list[int]:
    """Places of the tokens of the kept text, by decoding every beginning of the tokens."""
    kept = cut_text(text, end)
    start = text.index(kept)
    beginnings = [tokenizer.decode(tokens[:n], skip_special_tokens=True) for n in range(len(tokens) + 1)]
    whole = text[: start + len(kept)]
    ends = [n for n, own in enumerate(beginnings) if own == whole]
    stop = max(ends) if ends else min(n for n, own in enumerate(beginnings) if own.startswith(whole))
    first = max(n for n, own in enumerate(beginnings) if len(own) <= start and own == text[: len(own)])
    special = {
        tokenizer.convert_tokens_to_ids(name) for name in ("<pad>", "<s>", "</s>", "<extra_id_0>", "<eos>")
    }
    return [place for place in range(first, stop) if tokens[place] not in special]


def generated(model: Model) -> tuple[Any, list[tuple[list[int], tuple[torch.Tensor, ...]]]]:
    """The tokenizer, and for each of `PROMPTS` the tokens that `generate` writes, and its scores at each of them."""
    plain, found = load_model(model), []
    for prompt in PROMPTS:
        ids = torch.tensor(plain.encode([prompt]))
        theirs = plain.model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=N_NEW, do_sample=False, num_beams=1,
            pad_token_id=0, output_scores=True, return_dict_in_generate=True,
        )  # fmt: skip
        start = 1 if model.encoder_decoder else ids.shape[1]
        found.append((theirs.sequences[0, start:].tolist(), theirs.scores))
    return plain.tokenizer, found


@pytest.mark.parametrize(
    ("name", "end"),
    [*((name, FIRST_LINE) for name in NAMES), *((name, END) for name in ("llama", "mamba", "t5"))],
)
def test_texts_and_confidence_equal_those_of_generate_one_by_one(
    folders: dict[str, Path], name: str, end: str
) -> None:
    model = Model(
        name, str(folders[name]), device="cpu", encoder_decoder=name in ENCODER_DECODERS, batch_tokens=300
    )
    answers = TransformersBackend(model).generate(PROMPTS, Decoding(N_NEW, end=end))
    tokenizer, theirs = generated(model)
    n_kept = 0
    for ours, (tokens, scores) in zip(answers, theirs, strict=True):
        assert isinstance(ours, Generation)
        whole = tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        assert cut_text(ours.text, end) == cut_text(whole, end)
        assert whole.startswith(ours.text)
        numbers = []
        for place in places(tokenizer, tokens, ours.text, end):
            p = scores[place][0].double().softmax(dim=-1)
            best = p.topk(2).values
            entropy = torch.special.entr(p).sum()
            numbers.append((p[tokens[place]].item(), (best[0] - best[1]).item(), entropy.item()))
        n_kept += len(numbers)
        if not numbers:
            assert ours.confidence is None
            continue
        probabilities, margins, entropies = zip(*numbers, strict=True)
        assert ours.confidence is not None
        assert ours.confidence.confidence_tokens == len(numbers)
        found = (
            ours.confidence.sum_log_probability, ours.confidence.least_probability,
            ours.confidence.first_probability, ours.confidence.first_margin, ours.confidence.mean_entropy,
        )  # fmt: skip
        wanted = (
            sum(map(math.log, probabilities)), min(probabilities), probabilities[0], margins[0],
            sum(entropies) / len(entropies),
        )  # fmt: skip
        assert found == pytest.approx(wanted, abs=1e-4)
    assert n_kept > len(PROMPTS)
