"""Causal models beyond the packed path: the path is chosen by trial, and answers equal `generate` one by one."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import ODD_CAUSAL, assert_forks_are_exact, save_tiny_model, tiny

from longtail.errors import BackendError
from longtail.generation.backends.base import Decoding, Generation
from longtail.generation.backends.hf import TransformersBackend, choose_steppers
from longtail.generation.backends.local.cached import CachedSteppers
from longtail.generation.backends.local.loading import LoadedModel, load_model
from longtail.generation.prompts.endings import cut_answer

PROMPTS = [f"Q: {'abc de ' * (i % 9)}{i} A:" for i in range(25)]
DECODING = Decoding(15)
TOLERANCE = 1e-4
"""Of logits, whose spread is about 2: batches of other sizes are summed in another order."""
PACKED_OR_NOT = [*ODD_CAUSAL, "llama", "gpt2"]


def load(folder: Path, **keys: Any) -> LoadedModel:
    return load_model(tiny(folder, **keys))


def one_by_one(loaded: LoadedModel, prompts: list[str], n_new: int = 15) -> list[list[int]]:
    """New tokens by `generate`, a prompt at a time, the end token left out."""
    found = []
    for ids in loaded.encode(prompts):
        out = loaded.model.generate(
            torch.tensor([ids]),
            attention_mask=torch.ones(1, len(ids), dtype=torch.long),
            max_new_tokens=n_new,
            do_sample=False,
            pad_token_id=0,
        )
        found.append([i for i in out[0, len(ids) :].tolist() if i not in loaded.end_ids])
    return found


@pytest.mark.parametrize("name", ["mistral", "gemma2", "bloom", "mamba"])
def test_a_model_that_the_packed_path_does_not_fit_takes_another_path(
    folders: dict[str, Path], name: str
) -> None:
    assert isinstance(choose_steppers(load(folders[name]), 10_000), CachedSteppers)


@pytest.mark.parametrize("name", PACKED_OR_NOT)
def test_forked_states_have_the_logits_of_their_own_sequences(folders: dict[str, Path], name: str) -> None:
    loaded = load(folders[name])
    steppers = CachedSteppers(loaded)
    prompts = loaded.encode(PROMPTS[:6])
    rows = steppers.batches(prompts, [15] * len(prompts), 10_000)[-1]
    prompts = [prompts[row] for row in rows]

    def plain(prompt: list[int], tokens: list[int]) -> torch.Tensor:
        logits: torch.Tensor = loaded.run_alone(prompt, tokens)[0]
        return logits

    assert_forks_are_exact(steppers.open(prompts), prompts, plain, TOLERANCE)


def test_an_architecture_whose_state_cannot_be_selected_is_named(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match="architecture rwkv keeps no cache that a batch can select from"):
        choose_steppers(load(save_tiny_model(tmp_path, "rwkv")), 10_000)


def test_a_model_that_depends_on_padding_gets_prompts_of_one_length(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = load(folders["mistral"])
    plain = loaded.model.forward

    def forward(self: Any, **kwargs: Any) -> Any:
        mask = kwargs.get("attention_mask")
        out = plain(**kwargs)
        if mask is not None and not mask.all():
            out.logits = out.logits.flip(-1)
        return out

    forward.__signature__ = inspect.signature(type(loaded.model).forward)  # type: ignore[attr-defined]
    monkeypatch.setattr(loaded.model, "forward", forward.__get__(loaded.model))
    steppers = CachedSteppers(loaded)
    prompts = [[1] * 4, [2] * 7, [3] * 4, [4] * 7, [5] * 4]
    assert [[*batch] for batch in steppers.batches(prompts, [15] * 5, 10_000)] == [[0, 2, 4], [1, 3]]
    assert [[*batch] for batch in steppers.batches(prompts, [15] * 5, 40)] == [[0, 2], [4], [1], [3]]


SHOTS = "".join(f"Q: who {'xyz'[i % 3]} {i}? A: {'abc'[i % 3] * 3}. " for i in range(4))
BEHIND = [f"{SHOTS}Q: {'ab' * (i % 4)}{i}" for i in range(16)]
SHARING = ["mistral", "gemma2", "bloom", "gpt_oss"]


@pytest.mark.parametrize("name", SHARING)
def test_prompts_that_begin_alike_share_their_beginning(folders: dict[str, Path], name: str) -> None:
    loaded = load(folders[name])
    decoding = Decoding(8)
    expected = loaded.tokenizer.batch_decode(one_by_one(loaded, BEHIND, 8), skip_special_tokens=True)
    backend = TransformersBackend(tiny(folders[name], batch_tokens=700))
    results = [result for result in backend.generate(BEHIND, decoding) if isinstance(result, Generation)]
    assert [cut_answer(result.text) for result in results] == [cut_answer(text) for text in expected]
    n_shared = max(result.shared_tokens for result in results)
    if isinstance(choose_steppers(loaded, 700), CachedSteppers):
        assert 32 <= n_shared < min(result.prompt_tokens for result in results)
        assert sum(result.shared_tokens == 0 for result in results) <= 3


def test_a_kept_prefix_serves_later_batches_until_it_is_forgotten(folders: dict[str, Path]) -> None:
    loaded = load(folders["mistral"])
    steppers = CachedSteppers(loaded)
    prompts = loaded.encode([f"{SHOTS}Q: ab{i}" for i in range(5)])
    batches = steppers.batches(prompts, [8] * 5, 2 * len(prompts[0]) + 20)
    assert [len(batch) for batch in batches] == [2, 2, 1]

    def shared() -> list[list[int]]:
        found = []
        for batch in batches:
            stepper = steppers.open([prompts[row] for row in batch])
            logits = stepper.start()
            for row, own in zip(batch, logits, strict=True):
                expected = loaded.model(input_ids=torch.tensor([prompts[row]])).logits[0, -1]
                torch.testing.assert_close(own, expected, atol=TOLERANCE, rtol=TOLERANCE)
            found.append([tokens > 0 for tokens in stepper.shared_tokens])
        return found

    with torch.inference_mode():
        assert shared() == [[False, True], [True, True], [True]]
        assert shared() == [[True, True], [True, True], [True]]
        steppers.forget()
        assert shared() == [[False, True], [True, True], [True]]


def test_positions_that_depend_on_the_longest_prompt(tmp_path: Path) -> None:
    folder = save_tiny_model(tmp_path, "mistral")
    config = json.loads((folder / "config.json").read_text())
    config["rope_parameters"] = {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 10_000.0}
    (folder / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 20}))
    loaded = load(folder)
    steppers = choose_steppers(loaded, 10_000)
    assert isinstance(steppers, CachedSteppers)
    prompts = [[5], [6] * 25, [7], [8] * 25]
    assert sorted([*batch] for batch in steppers.batches(prompts, [8] * 4, 10_000)) == [[0, 2], [1, 3]]
