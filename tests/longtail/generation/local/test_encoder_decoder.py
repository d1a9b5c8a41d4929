"""Encoder-decoders: batches against `generate` one by one, forks, candidates against the plain forward pass."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import COPIED, ENCODER_DECODERS, LENGTH, assert_forks_are_exact, save_tiny_model

from longtail.errors import BackendError
from longtail.generation.backends.base import Decoding, Failure, Generation, Scored
from longtail.generation.backends.hf import TransformersBackend
from longtail.generation.backends.local.encoder_decoder import CROSS_ATTENTION, EncoderDecoderSteppers
from longtail.generation.backends.local.loading import LoadedModel, load_model
from longtail.study.models import Model

PROMPTS = [f"Q: {'abc de ' * (i % 9)}{i} A:" for i in range(25)]
CANDIDATES = ["a", "ab", "abc de", "Qd", "é\n"]
NEW_TOKENS = 15
ENDS = list(range(1, 420, 9))
"""So many that some texts end early."""
TOLERANCE = 1e-4
"""Of logits, whose spread is about 2: batches of other sizes are summed in another order."""


@pytest.fixture(scope="module")
def models(folders: dict[str, Path]) -> dict[str, LoadedModel]:
    names = [*ENCODER_DECODERS, *COPIED]
    return {name: load_model(Model(name, str(folders[name]), device="cpu")) for name in names}


def plain_logits(loaded: LoadedModel, prompt: list[int], decoded: list[int]) -> torch.Tensor:
    """Logits at each decoder position, by one forward pass without a cache."""
    with torch.inference_mode():
        out = loaded.model(
            input_ids=torch.tensor([prompt]), decoder_input_ids=torch.tensor([decoded]), use_cache=False
        )
    logits: torch.Tensor = out.logits[0].float()
    return logits


@pytest.mark.parametrize("name", [*ENCODER_DECODERS, *COPIED])
def test_forked_states_have_the_logits_of_their_own_sequences(
    models: dict[str, LoadedModel], name: str
) -> None:
    loaded = models[name]
    steppers = EncoderDecoderSteppers(loaded, 4096)
    prompts = loaded.encode(PROMPTS[:6])

    def plain(prompt: list[int], tokens: list[int]) -> torch.Tensor:
        return plain_logits(loaded, prompt, [*steppers.start, *tokens])[-1]

    assert_forks_are_exact(steppers.open(prompts), prompts, plain, TOLERANCE)


def test_cross_attention_is_shared_where_the_architecture_takes_it(models: dict[str, LoadedModel]) -> None:
    for name in ("t5", "mt5", "bart"):
        EncoderDecoderSteppers(models[name], 4096)
        assert models[name].model.config._attn_implementation == CROSS_ATTENTION
    EncoderDecoderSteppers(models["longt5"], 4096)
    assert models["longt5"].model.config._attn_implementation != CROSS_ATTENTION


def test_forks_do_not_copy_the_prompts_keys_and_values(models: dict[str, LoadedModel]) -> None:
    stepper = EncoderDecoderSteppers(models["t5"], 4096).open(models["t5"].encode(PROMPTS[:2]))
    with torch.inference_mode():
        stepper.start()
        stepper.step([0] * 40 + [1] * 40, list(range(80)))
    assert len(stepper._cache.cross_attention_cache.layers[0].keys) == 2
    assert len(stepper._cache.self_attention_cache.layers[0].keys) == 80


def own_tokens(steppers: EncoderDecoderSteppers, texts: list[str]) -> list[list[int]]:
    """What is scored of each candidate."""
    return [list(target.tokens[target.n_unscored :]) for target in steppers.targets(texts)]


@pytest.mark.parametrize("name", ["t5", "bart", "bart_forced"])
def test_candidates_are_targets_without_their_end(models: dict[str, LoadedModel], name: str) -> None:
    loaded = models[name]
    steppers = EncoderDecoderSteppers(loaded, 4096)
    sentinel = [f"<extra_id_0> {text}" for text in CANDIDATES]
    for texts in (CANDIDATES, sentinel):
        for text, ids in zip(texts, own_tokens(steppers, texts), strict=True):
            assert loaded.tokenizer.decode(ids) == text
            assert 1 not in ids
    assert all(ids[0] == 3 for ids in own_tokens(steppers, sentinel))


def test_a_forced_first_token_is_no_part_of_a_candidate(models: dict[str, LoadedModel]) -> None:
    steppers = EncoderDecoderSteppers(models["bart_forced"], 4096)
    assert steppers.start == [1]
    assert steppers.targets(["<s>ab"]) == steppers.targets(["ab"])
    (target,) = steppers.targets(["ab"])
    assert (target.tokens[0], target.n_unscored) == (2, 1)


def test_a_model_without_a_start_token_is_refused(tmp_path: Path, models: dict[str, LoadedModel]) -> None:
    loaded = load_model(Model("nowhere", str(save_tiny_model(tmp_path, "t5")), device="cpu"))
    for settings in (loaded.model.config, loaded.model.generation_config):
        settings.decoder_start_token_id = None
        settings.bos_token_id = None
    with pytest.raises(BackendError, match="name no decoder_start_token_id"):
        EncoderDecoderSteppers(loaded, 4096)


def test_lengths_bind_the_encoder(models: dict[str, LoadedModel]) -> None:
    assert models["t5"].room(15) == models["t5"].room(1000) == 64
    assert models["mt5"].room(15) is None
    assert models["bart"].room(15) == 96


def test_a_model_whose_batches_differ_is_refused(
    models: dict[str, LoadedModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = models["t5_deep_decoder"]
    plain = type(loaded.model).forward

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        out = plain(self, *args, **kwargs)
        if kwargs.get("past_key_values") is not None:
            out.logits = out.logits.flip(-1)
        return out

    monkeypatch.setattr(loaded.model, "forward", forward.__get__(loaded.model))
    with pytest.raises(BackendError, match="architecture t5 cannot be run in batches: its logits differ"):
        EncoderDecoderSteppers(loaded, 4096)


BACKENDS = ["t5", "mt5", "bart", "bart_forced"]


@pytest.fixture(scope="module")
def backends(tmp_path_factory: pytest.TempPathFactory) -> dict[str, TransformersBackend]:
    root = tmp_path_factory.mktemp("backends")
    found = {}
    for name in BACKENDS:
        folder = save_tiny_model(root / name, name)
        settings = json.loads((folder / "generation_config.json").read_text())
        (folder / "generation_config.json").write_text(json.dumps({**settings, "eos_token_id": ENDS}))
        found[name] = TransformersBackend(
            Model(name, str(folder), device="cpu", batch_tokens=400, encoder_decoder=True)
        )
    return found


def test_an_encoder_decoder_is_declared(tmp_path: Path) -> None:
    """The form of prompts follows the study, so the study must be right."""
    folder = save_tiny_model(tmp_path / "t5", "t5")
    with pytest.raises(BackendError, match="it is an encoder-decoder; set encoder_decoder: true"):
        TransformersBackend(Model("t5", str(folder), device="cpu"))
    with pytest.raises(BackendError, match="it is not an encoder-decoder; set encoder_decoder: false"):
        TransformersBackend(Model("s", "sandbox:s", device="cpu", encoder_decoder=True))


def test_long_prompts_lose_their_beginning(backends: dict[str, TransformersBackend]) -> None:
    long, short = backends["t5"].generate(["é" * 500 + "x" * 100, "x" * 100], Decoding(NEW_TOKENS))
    assert isinstance(long, Generation)
    assert isinstance(short, Generation)
    assert long.prompt_tokens == short.prompt_tokens == 64
    assert (short.n_truncated_tokens, long.n_truncated_tokens) == (37, 1037)
    assert long.text == short.text
    candidates = [["<extra_id_0> ab", "<extra_id_0> h"]] * 2
    cut, uncut = backends["t5"].score(["é" * 500 + "x" * 100, "x" * 63], candidates)
    assert isinstance(cut, Scored)
    assert isinstance(uncut, Scored)
    assert (cut.n_truncated_tokens, uncut.n_truncated_tokens) == (1037, 0)
    assert cut.scores == uncut.scores


@pytest.mark.parametrize("name", BACKENDS)
def test_scores_are_those_of_one_forward_pass_each(
    models: dict[str, LoadedModel], backends: dict[str, TransformersBackend], name: str
) -> None:
    loaded = models[name]
    candidates = [f"<extra_id_0> {text}" for text in CANDIDATES]
    steppers = EncoderDecoderSteppers(loaded, 4096)
    targets = steppers.targets(candidates)
    scored = backends[name].score(PROMPTS[:6], [candidates] * 6)
    for ids, found in zip(loaded.encode(PROMPTS[:6]), scored, strict=True):
        assert isinstance(found, Scored)
        for target, score in zip(targets, found.scores, strict=True):
            logs = plain_logits(loaded, ids, [*steppers.start, *target.tokens]).double().log_softmax(dim=-1)
            places = range(target.n_unscored, len(target.tokens))
            expected = sum(logs[place, target.tokens[place]].item() for place in places)
            assert score.n_tokens == len(places)
            assert score.log_likelihood == pytest.approx(expected, abs=1e-3)


def test_more_new_tokens_than_the_decoder_holds(backends: dict[str, TransformersBackend]) -> None:
    with pytest.raises(BackendError, match="lower max_new_tokens"):
        backends["bart"].generate(["a"], Decoding(LENGTH))
    scored, failure = backends["bart"].score(["a", "a"], [["b"], ["b" * 200]])
    assert isinstance(scored, Scored)
    assert failure == Failure("the longest candidate leaves no room for the prompt")


def test_the_word_start_stands_between_sentinel_and_candidate_whatever_the_tokenizer_makes_of_it(
    models: dict[str, LoadedModel],
) -> None:
    """T5's token 3: the tokenizer has it as a piece of its own; elsewhere the two lists of targets are the same."""
    steppers = EncoderDecoderSteppers(models["t5"], 4096)
    tokenizer, encode = models["t5"].tokenizer, models["t5"].encode
    plain, started = steppers.targets(["<extra_id_0> ab", "<extra_id_0>\u2581 ab"])
    assert plain == started
    (whole,) = encode(["<extra_id_0> ab"])
    assert plain.tokens == tuple(whole[:-1])
    n = tokenizer.add_tokens(["\u2581"])
    try:
        ids = steppers.targets(["<extra_id_0>\u2581 ab"])[0].tokens
        assert ids == (whole[0], tokenizer.convert_tokens_to_ids("\u2581"), *whole[1:-1])
    finally:
        assert n == 1
