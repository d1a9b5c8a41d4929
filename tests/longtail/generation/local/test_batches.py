"""Batches that shrink, by a model that really runs out of memory beyond a number of tokens."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tiny_models import texts, tiny
from transformers import LlamaForCausalLM

from longtail.errors import BackendError
from longtail.generation.backends.base import Decoding, Failure, Generation
from longtail.generation.backends.hf import TransformersBackend
from longtail.generation.backends.local import batches as module
from longtail.generation.backends.local.batches import DeviceBatches, Row
from longtail.models.limits import is_out_of_memory

PROMPTS = [f"Q: {'abc de ' * (i % 9)}{i} A:" for i in range(60)]
DECODING = Decoding(15)


class NarrowLlama(LlamaForCausalLM):
    """Has room for so many tokens a pass, and remembers how many each had."""

    room = 1 << 30
    seen: list[int]

    def forward(self, input_ids: torch.Tensor, **options: Any) -> Any:
        self.seen.append(input_ids.numel())
        if input_ids.numel() > self.room:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate a lot")
        return super().forward(input_ids, **options)


@pytest.fixture
def folder(folders: dict[str, Path]) -> Path:
    return folders["llama"]


def narrow(folder: Path, room: int, **keys: Any) -> tuple[TransformersBackend, NarrowLlama]:
    backend = TransformersBackend(tiny(folder, **keys))
    model = backend._loaded.model
    model.__class__ = NarrowLlama
    model.room, model.seen = room, []
    return backend, model


def test_out_of_memory_halves_the_batch(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    wide, free = narrow(folder, 1 << 30)
    expected = wide.generate(PROMPTS, DECODING)
    backend, model = narrow(folder, max(free.seen) // 3)
    with caplog.at_level(logging.WARNING):
        results = backend.generate(PROMPTS, DECODING)
    assert texts(results) == texts(expected)
    assert "out of memory with" in caplog.text
    assert max(r.batch_size for r in results if isinstance(r, Generation)) < 60
    n_before = len(model.seen)
    assert texts(backend.generate(PROMPTS, DECODING)) == texts(expected)
    refused = [n for n in model.seen[n_before:] if n > model.room]
    assert len(refused) <= 1, "what was learnt of the memory lasts"


def test_one_prompt_too_many_for_the_memory_fails_alone(folder: Path) -> None:
    backend, _ = narrow(folder, 60)
    results = backend.generate([*PROMPTS[:5], "z" * 70, *PROMPTS[5:9]], DECODING)
    assert [type(r) for r in results] == [Generation] * 5 + [Failure] + [Generation] * 4
    assert isinstance(results[5], Failure)
    assert "out of memory with one prompt of 71 tokens" in results[5].reason


@pytest.mark.parametrize(
    ("gibibytes", "keys", "width", "tokens"),
    [
        (1, {}, 2, 16_384),  # OPT-6.7B in bfloat16: 0.5 MiB a token, 2,048 of them, but never so few
        (31, {}, 2, 63_488),
        (500, {}, 2, 262_144),
        (1, {"num_key_value_heads": 8}, 2, 16_384),
        (8, {"num_key_value_heads": 8, "head_dim": 64}, 4, 65_536),
        (500, {"num_attention_heads": None}, 2, 16_384),  # no attention
    ],
)
def test_a_batch_has_as_many_tokens_as_memory_holds(
    gibibytes: int, keys: dict[str, int], width: int, tokens: int
) -> None:
    config = SimpleNamespace(
        **{"num_hidden_layers": 32, "num_attention_heads": 32, "hidden_size": 4096, **keys}
    )
    assert module.tokens_in(gibibytes << 30, config, width) == tokens


class Crowded:
    """Steppers of a device with room for one row at a time, and for none while something is kept from before."""

    def __init__(self) -> None:
        self.is_kept = True
        self.shared_tokens: list[int] = []
        self.seconds = 0.0

    def perf_counter(self) -> float:
        """Time that passes only while a batch is opened."""
        return self.seconds

    def batches(self, prompts: Sequence[Any], new_tokens: Sequence[int], budget: int) -> list[dict[int, int]]:
        n, rows = max(1, budget // 2), range(len(prompts))
        return [dict.fromkeys(rows[start : start + n], 0) for start in rows[::n]]

    def open(self, prompts: Sequence[Any], shared: Sequence[int]) -> Crowded:
        self.seconds += 0.5
        if self.is_kept or len(prompts) > 1:
            raise torch.OutOfMemoryError("CUDA out of memory")
        self.shared_tokens = [0]
        return self

    def forget(self) -> None:
        self.is_kept = False


def test_a_prompt_alone_is_tried_without_what_is_kept_and_no_time_is_lost(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend, _ = narrow(folder, 1 << 30)
    crowded = Crowded()
    monkeypatch.setattr(module, "time", crowded)
    batches = DeviceBatches(backend._loaded, crowded, 16)  # type: ignore[arg-type]
    rows = [Row((token,), 0) for token in range(1, 5)]
    found = list(batches.run(range(4), rows, [1] * 4, lambda stepper, rows: ["text"] * len(rows)))
    assert [done.results for done in found] == [["text"]] * 4
    assert sorted(row for done in found for row in done.rows) == [0, 1, 2, 3]
    assert sum(done.seconds for done in found) == crowded.seconds > 4 * 0.5  # some were tried in vain


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory."),
        RuntimeError("CUDA error: out of memory"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes"),
    ],
)
def test_kinds_of_out_of_memory(error: Exception) -> None:
    assert is_out_of_memory(error)
    assert not is_out_of_memory(RuntimeError("shapes cannot be multiplied"))


def test_other_errors_are_one_line(folder: Path) -> None:
    backend, model = narrow(folder, 1 << 30)
    model.lm_head = torch.nn.Linear(7, 7)
    with pytest.raises(BackendError, match="model tiny: ") as caught:
        backend.generate(PROMPTS[:2], DECODING)
    assert "\n" not in str(caught.value)
