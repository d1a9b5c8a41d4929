"""The confidence of answers: equal to transformers' own scores, over the tokens that are kept and no others."""

from __future__ import annotations

import functools
import math
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from other_models import ENCODER_DECODERS, ODD_CAUSAL, save_other_model
from tiny_models import ARCHITECTURES, save_tiny_model
from tokenizers import AddedToken

from longtail.generation.backends.base import Decoding, Generation
from longtail.generation.backends.hf import TransformersBackend
from longtail.generation.backends.local.decoding import (
    Texts,
    TokenScore,
    confidence_of_text,
    token_scores,
)
from longtail.generation.backends.local.loading import load_model
from longtail.generation.prompts.endings import (
    AFTER_THINKING,
    END,
    FIRST_LINE,
    SENTENCE,
    cut_text,
)
from longtail.study.models import Model

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


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("models")
    return {
        name: (save_tiny_model if name in ARCHITECTURES else save_other_model)(root / name, name)
        for name in NAMES
    }


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


@functools.lru_cache(maxsize=1)  # for both ends of answers
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


@pytest.mark.parametrize("end", [FIRST_LINE, END])
@pytest.mark.parametrize("name", NAMES)
def test_confidence_equals_the_scores_of_generate(folders: dict[str, Path], name: str, end: str) -> None:
    model = Model(
        name, str(folders[name]), device="cpu", encoder_decoder=name in ENCODER_DECODERS, batch_tokens=300
    )
    answers = TransformersBackend(model).generate(PROMPTS, Decoding(N_NEW, end=end))
    tokenizer, theirs = generated(model)
    n_kept = 0
    for ours, (tokens, scores) in zip(answers, theirs, strict=True):
        assert isinstance(ours, Generation)
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
