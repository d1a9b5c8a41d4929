"""Fusion-in-Decoder: many passages against the plain forward pass over their states, one prompt at a time."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch
from transformers.modeling_outputs import BaseModelOutput

from longtail.errors import BackendError
from longtail.generation.backends.base import Decoding, Failure, Scored
from longtail.generation.backends.hf import FusionInDecoder, TransformersBackend
from longtail.generation.backends.local.encoder_decoder import BREAK, KeptStates, join_parts, parts_of
from longtail.generation.prompts.endings import END
from longtail.study.models import Model

PROMPTS = ["Q: ab cd A:", "Q: h A:", "Q: ef gh ab A:", "Q: ab cd A:"]
PASSAGES = [["abc de. " * 3, "f", "Q: gh\n" * 5], ["a"], [], ["f", "abc de. " * 3]]
CANDIDATES = ["<extra_id_0> ab", "<extra_id_0> abc de", "<extra_id_0> h"]
NEW_TOKENS = 9
TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def model(folders: dict[str, Path]) -> Model:
    return Model(
        "reader", str(folders["t5"]), backend="fusion_in_decoder", device="cpu", encoder_decoder=True
    )


@pytest.fixture(scope="module")
def reader(model: Model) -> FusionInDecoder:
    return FusionInDecoder(model)


def fused_states(reader: FusionInDecoder, texts: list[str]) -> torch.Tensor:
    """The encoder's states of each text alone, behind one another: (1, tokens, width)."""
    encoder, own = reader._loaded.model.get_encoder(), reader._loaded.encode(texts)
    with torch.inference_mode():
        return torch.cat([encoder(torch.tensor([ids])).last_hidden_state for ids in own], dim=1)


def plain_logits(reader: FusionInDecoder, states: torch.Tensor, tokens: list[int]) -> torch.Tensor:
    with torch.inference_mode():
        return reader._loaded.model(
            encoder_outputs=BaseModelOutput(last_hidden_state=states),
            decoder_input_ids=torch.tensor([[0, *tokens]]),
            use_cache=False,
        ).logits[0]


def texts_of(prompt: str, passages: list[str]) -> list[str]:
    return [f"{prompt} {passage}" for passage in passages] or [prompt]


def test_texts_are_those_of_a_plain_forward_pass_over_all_states(reader: FusionInDecoder) -> None:
    found = reader.generate(PROMPTS, Decoding(NEW_TOKENS, end=END), passages=PASSAGES)
    written = set()
    for prompt, passages, own in zip(PROMPTS, PASSAGES, found, strict=True):
        states = fused_states(reader, texts_of(prompt, passages))
        tokens: list[int] = []
        while len(tokens) < NEW_TOKENS:
            token = int(plain_logits(reader, states, tokens)[-1].argmax())
            if token in reader._loaded.end_ids:
                break
            tokens.append(token)
        assert not isinstance(own, Failure)
        assert own.text == reader._texts.decode([tokens])[0]
        assert own.prompt_tokens == states.shape[1]
        written.add(own.text)
    assert len(written) > 1


def test_scores_are_those_of_a_plain_forward_pass_over_all_states(reader: FusionInDecoder) -> None:
    found = reader.score(PROMPTS, [CANDIDATES] * len(PROMPTS), passages=PASSAGES)
    targets = reader._loaded.encode(CANDIDATES)
    for prompt, passages, own in zip(PROMPTS, PASSAGES, found, strict=True):
        states = fused_states(reader, texts_of(prompt, passages))
        assert isinstance(own, Scored)
        for target, score in zip(targets, own.scores, strict=True):
            tokens = target[:-1]
            steps = plain_logits(reader, states, tokens)[: len(tokens)].log_softmax(dim=-1)
            expected = float(steps[range(len(tokens)), tokens].sum())
            assert score.log_likelihood == pytest.approx(expected, abs=TOLERANCE)
            assert score.n_tokens == len(tokens)


def test_what_is_scored_and_then_written_is_encoded_once(reader: FusionInDecoder) -> None:
    """The scores and texts are those that each gets alone."""
    asked, decoding = (PROMPTS, [CANDIDATES] * len(PROMPTS)), Decoding(NEW_TOKENS, end=END)
    n_parts: list[int] = []
    encoder = reader._loaded.model.get_encoder()
    hook = encoder.register_forward_hook(lambda *found: n_parts.append(len(found[-1].last_hidden_state)))
    try:
        reader.forget()
        scored = reader.score(*asked, passages=PASSAGES)
        assert sum(n_parts) == sum(len(own) or 1 for own in PASSAGES)
        written = reader.generate(PROMPTS, decoding, passages=PASSAGES)
        assert sum(n_parts) == sum(len(own) or 1 for own in PASSAGES)
        assert [own.shared_tokens for own in written] == [own.prompt_tokens for own in scored]
        reader.forget()
        alone = reader.generate(PROMPTS, decoding, passages=PASSAGES)
        assert sum(n_parts) == 2 * sum(len(own) or 1 for own in PASSAGES)
        assert {own.shared_tokens for own in alone} == {0}
    finally:
        hook.remove()
    assert [own.text for own in written] == [own.text for own in alone]
    more = reader.generate([*PROMPTS, "Q: gh A:"], decoding, passages=[*PASSAGES, ["a"]])
    assert [own.text for own in more[:-1]] == [own.text for own in alone]


def test_the_states_that_are_kept_are_those_of_the_last_prompts(reader: FusionInDecoder) -> None:
    loaded = reader._loaded
    prompts = [tuple(own) for own in loaded.encode(["Q: ab cd A:", "Q: h A:", "Q: ef gh ab A:"])]
    kept = KeptStates(loaded.model.get_encoder(), loaded.device, len(prompts[0]) + len(prompts[2]))
    with torch.inference_mode():
        for prompt in prompts:
            assert kept.read([prompt])[2] == [0]
        out, mask, shared = kept.read([prompts[1], prompts[2], prompts[0]])
        plain, plain_mask, none = KeptStates(loaded.model.get_encoder(), loaded.device, 0).read(
            [prompts[1], prompts[2], prompts[0]]
        )
    assert shared == [len(prompts[1]), len(prompts[2]), 0]
    assert none == [0, 0, 0]
    assert torch.equal(mask, plain_mask)
    states = mask.bool()
    assert torch.allclose(out.last_hidden_state[states], plain.last_hidden_state[states], atol=1e-5)


def test_without_passages_it_reads_as_any_encoder_decoder(reader: FusionInDecoder, model: Model) -> None:
    plain = TransformersBackend(dataclasses.replace(model, backend="transformers"))
    decoding = Decoding(NEW_TOKENS, end=END)
    reader.forget()
    assert [row.text for row in reader.generate(PROMPTS, decoding)] == [
        row.text for row in plain.generate(PROMPTS, decoding)
    ]
    asked = PROMPTS, [CANDIDATES] * len(PROMPTS)
    assert [row.scores for row in reader.score(*asked)] == [row.scores for row in plain.score(*asked)]


def test_a_long_passage_loses_its_end_and_the_row_says_so(model: Model) -> None:
    short = FusionInDecoder(dataclasses.replace(model, passage_tokens=16))
    (own,) = short.generate(["Q: ab A:"], Decoding(4, end=END), passages=[["gh " * 40, "a"]])
    assert own.prompt_tokens == 16 + len(short._loaded.encode(["Q: ab A: a"])[0])
    assert own.n_truncated_tokens == len(short._loaded.encode(["Q: ab A: " + "gh " * 40])[0]) - 16
    (same,) = short.generate(["Q: ab A:"], Decoding(4, end=END), passages=[["gh " * 80, "a"]])
    assert same.text == own.text
    assert short.identity.rules != FusionInDecoder.identify(model).rules


def test_a_prompt_that_leaves_a_passage_no_room_fails_alone(model: Model) -> None:
    short = FusionInDecoder(dataclasses.replace(model, passage_tokens=16))
    prompts, passages = ["gh " * 40, "Q: ab A:"], [["a"], ["a"]]
    decoding, reason = Decoding(4, end=END), "the prompt leaves no room for a passage; raise passage_tokens"
    found = [
        short.generate(prompts, decoding, passages=passages),
        short.score(prompts, [CANDIDATES] * 2, passages=passages),
        short.sample(prompts, dataclasses.replace(decoding, temperature=1.0), [[1]] * 2, passages=passages),
    ]
    for refused, answered in found:
        assert isinstance(refused, Failure)
        assert refused.reason.startswith(reason)
        assert not isinstance(answered, Failure)
    (alone,) = short.generate(prompts[:1], decoding)
    assert not isinstance(alone, Failure)
    assert alone.n_truncated_tokens > 0


def test_the_order_of_parts_stays_and_a_break_is_no_token() -> None:
    parts = [[1, 2], [3], [4, 5, 6]]
    assert join_parts(parts) == (1, 2, BREAK, 3, BREAK, 4, 5, 6)
    assert parts_of(join_parts(parts)) == parts
    assert parts_of([7]) == [[7]]


def test_a_model_that_is_no_encoder_decoder_is_refused_by_name(model: Model) -> None:
    wrong = dataclasses.replace(model, encoder_decoder=False)
    with pytest.raises(
        BackendError, match="model reader: backend fusion_in_decoder needs an encoder-decoder"
    ):
        FusionInDecoder(wrong)
