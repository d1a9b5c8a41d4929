"""The optimisation of the Fusion-in-Decoder reference model: the encoder-decoder learns to read several passages.

What belongs here: what PyTorch does, and the recipe. What does not: the samples (`training.clozes`), the encoder-decoder
(`training.encoder_decoder`) and the gates (`training.fusion_gates`).

Each passage is encoded behind the query, alone, and the decoder attends to the states of all passages (Izacard & Grave,
2021). The decoder writes the sentinel and the object.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dagster_project.core.cloze import SENTINEL
from dagster_project.core.sandbox.training.clozes import Cloze, ClozeSampler, cloze_facts
from dagster_project.core.sandbox.training.encoder_decoder import new_optimizer, rates
from dagster_project.core.sandbox.training.loop import FRESH_SEEDS, save
from dagster_project.core.sandbox.training.tokenizer import load_fusion_tokenizer
from dagster_project.core.sandbox.world import World

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerFast, T5ForConditionalGeneration

PEAK = 2.5e-3
"""The peak of the learning rate."""
REMEMBERED = 40
"""Known facts without passages in a step."""
SEED = 1


@dataclass(frozen=True)
class FusionPhase:
    """`steps` of `read` queries with the right passage among `n_passages`, and `misled` known facts with wrong ones."""

    name: str
    steps: int
    n_passages: int
    read: int
    misled: int


PHASES = (FusionPhase("one passage", 400, 1, 40, 2), FusionPhase("several passages", 700, 4, 14, 2))
_NOT_SCORED = -100


def start_from(folder: Path, tokenizer: PreTrainedTokenizerFast) -> T5ForConditionalGeneration:
    """The encoder-decoder in `folder`, with a new embedding for the sentinel, drawn like the others."""
    import torch
    from transformers import T5ForConditionalGeneration

    torch.manual_seed(SEED)
    model = T5ForConditionalGeneration.from_pretrained(folder, dtype=torch.float32)
    model.resize_token_embeddings(len(tokenizer), mean_resizing=True)
    return model


def train(start: Path, out: Path, device: str, say: Callable[[str], None]) -> None:
    """Train the model from the encoder-decoder in `start`; write it to `out` (fp16 safetensors, with its tokenizer)."""
    import torch

    tokenizer = load_fusion_tokenizer()
    model = start_from(start, tokenizer)
    torch.nn.Module.to(model, device)
    fresh = [fact for seed in FRESH_SEEDS for fact in cloze_facts(World(seed, 800))]
    sampler = ClozeSampler(cloze_facts(World()), fresh, SEED)
    optimizer = new_optimizer(model)
    all_rates = iter(rates(sum(phase.steps for phase in PHASES), PEAK))
    model.train()
    for phase in PHASES:
        _run_phase(model, tokenizer, optimizer, sampler, phase, all_rates, say)
    save(model, tokenizer, out)


def _run_phase(
    model: T5ForConditionalGeneration,
    tokenizer: PreTrainedTokenizerFast,
    optimizer: torch.optim.Optimizer,
    sampler: ClozeSampler,
    phase: FusionPhase,
    all_rates: Iterator[float],
    say: Callable[[str], None],
) -> None:
    import torch

    average, started = 0.0, time.monotonic()
    for step, rate in enumerate(islice(all_rates, phase.steps)):
        for group in optimizer.param_groups:
            group["lr"] = rate * group["factor"]
        optimizer.zero_grad(set_to_none=True)
        shown = sampler.read(phase.read, phase.n_passages) + sampler.misled(phase.misled, phase.n_passages)
        loss = _loss(model, tokenizer, shown)
        average = loss.item() if step == 0 else 0.97 * average + 0.03 * loss.item()
        (loss + _loss(model, tokenizer, sampler.remembered(REMEMBERED))).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 50 == 49:
            pace = (time.monotonic() - started) / (step + 1)
            say(f"  f {phase.name} {step + 1}/{phase.steps}: loss {average:.3f}, {pace:.2f} s a step")


def fused(
    model: T5ForConditionalGeneration, tokenizer: PreTrainedTokenizerFast, samples: Sequence[Cloze]
) -> dict[str, Any]:
    """The encoder's states of each sample's passages behind one another, and their mask: arguments for the decoder.

    All samples have the same number of passages.
    """
    from transformers.modeling_outputs import BaseModelOutput

    texts = [
        text
        for one in samples
        for text in ([f"{one.query} {passage}" for passage in one.passages] or [one.query])
    ]
    inputs = tokenizer(texts, return_tensors="pt", padding=True).to(model.device)
    states = model.get_encoder()(**inputs).last_hidden_state
    joined = states.reshape(len(samples), -1, states.shape[-1])
    mask = inputs["attention_mask"].reshape(len(samples), -1)
    return {"encoder_outputs": BaseModelOutput(last_hidden_state=joined), "attention_mask": mask}


def _loss(
    model: T5ForConditionalGeneration, tokenizer: PreTrainedTokenizerFast, samples: Sequence[Cloze]
) -> torch.Tensor:
    """Mean cross-entropy of the targets' tokens."""
    import torch

    targets = tokenizer([f"{SENTINEL} {one.answer}" for one in samples], return_tensors="pt", padding=True)
    labels = targets["input_ids"].masked_fill(targets["attention_mask"] == 0, _NOT_SCORED).to(model.device)
    with torch.autocast(model.device.type, dtype=torch.bfloat16):
        logits = model(
            **fused(model, tokenizer, samples),
            decoder_input_ids=torch.nn.functional.pad(labels[:, :-1].clamp(min=0), (1, 0)),
            use_cache=False,
        ).logits
    return torch.nn.functional.cross_entropy(
        logits.float().flatten(0, 1), labels.flatten(), ignore_index=_NOT_SCORED
    )
