"""The optimisation of the Fusion-in-Decoder reference model: the encoder-decoder learns to read several passages.

Each passage is encoded behind the query, alone, and the decoder attends to the states of all passages (Izacard & Grave,
2021). The decoder writes the sentinel and the object.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longtail.relations.cloze import SENTINEL
from longtail.sandbox.world import World
from tools.reference_models.clozes import Cloze, ClozeSampler, cloze_facts
from tools.reference_models.encoder_decoder import new_optimizer, rates
from tools.reference_models.loop import FRESH_SEEDS, save
from tools.reference_models.search import title_of
from tools.reference_models.tokenizer import load_fusion_tokenizer

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
    """`steps` of `read` queries with the right passage among `n_passages`.

    With `titles_alone`, the model only says which title is right, and answers nothing.
    """

    name: str
    steps: int
    n_passages: int
    read: int
    titles_alone: bool = False


PHASES = (
    FusionPhase("titles", 200, 2, 32, titles_alone=True),
    FusionPhase("two passages", 200, 2, 16),
    FusionPhase("four passages", 500, 4, 12),
)
_NOT_SCORED = -100


def start_from(folder: Path, tokenizer: PreTrainedTokenizerFast) -> T5ForConditionalGeneration:
    """The encoder-decoder in `folder`, with a new embedding for the sentinel, drawn like the others."""
    import torch
    from transformers import T5ForConditionalGeneration

    torch.manual_seed(SEED)
    model = T5ForConditionalGeneration.from_pretrained(folder, dtype=torch.float32)
    model.resize_token_embeddings(len(tokenizer), mean_resizing=True)
    return model


@dataclass(frozen=True)
class _Trainer:
    """What changes while the model learns; `head` says of each encoded passage whether it is the right one."""

    model: T5ForConditionalGeneration
    tokenizer: PreTrainedTokenizerFast
    head: torch.nn.Linear
    optimizer: torch.optim.Optimizer

    def parameters(self) -> list[torch.nn.Parameter]:
        return [*self.model.parameters(), *self.head.parameters()]


def _learner(start: Path, device: str) -> _Trainer:
    import torch

    tokenizer = load_fusion_tokenizer()
    model = start_from(start, tokenizer)
    head = new_head(model.config.d_model)
    for part in (model, head):
        torch.nn.Module.to(part, device)
    optimizer = new_optimizer(model)
    optimizer.add_param_group({"params": list(head.parameters()), "factor": 1.0, "weight_decay": 0.0})
    return _Trainer(model, tokenizer, head, optimizer)


def train(start: Path, out: Path, device: str, say: Callable[[str], None]) -> None:
    """Train the model from the encoder-decoder in `start`; write it to `out` (fp16 safetensors, with its tokenizer)."""
    learner = _learner(start, device)
    sampler = ClozeSampler(cloze_facts(World()), [World(seed, 800) for seed in FRESH_SEEDS], SEED)
    all_rates = iter(rates(sum(phase.steps for phase in PHASES), PEAK))
    learner.model.train()
    for phase in PHASES:
        _run_phase(learner, sampler, phase, all_rates, say)
    save(learner.model, learner.tokenizer, out)


def _run_phase(
    learner: _Trainer,
    sampler: ClozeSampler,
    phase: FusionPhase,
    all_rates: Iterator[float],
    say: Callable[[str], None],
) -> None:
    import torch

    average, started = 0.0, time.monotonic()
    for step, rate in enumerate(islice(all_rates, phase.steps)):
        for group in learner.optimizer.param_groups:
            group["lr"] = rate * group["factor"]
        learner.optimizer.zero_grad(set_to_none=True)
        shown = sampler.read(phase.read, phase.n_passages)
        loss = _titles_loss(learner, shown) if phase.titles_alone else _reading_loss(learner, shown)
        average = loss.item() if step == 0 else 0.97 * average + 0.03 * loss.item()
        if not phase.titles_alone:
            loss = loss + _reading_loss(learner, sampler.remembered(REMEMBERED))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(learner.parameters(), 1.0)
        learner.optimizer.step()
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


def _titles_loss(learner: _Trainer, samples: Sequence[Cloze]) -> torch.Tensor:
    """The loss of telling the right title."""
    import torch

    titles = [with_titles_alone(one) for one in samples]
    with torch.autocast(learner.model.device.type, dtype=torch.bfloat16):
        states = fused(learner.model, learner.tokenizer, titles)
    return _matching_loss(learner, samples, states)


def _reading_loss(learner: _Trainer, samples: Sequence[Cloze]) -> torch.Tensor:
    """Mean cross-entropy of the targets' tokens, and with passages the loss of telling the right one."""
    import torch

    model, tokenizer = learner.model, learner.tokenizer
    targets = tokenizer([f"{SENTINEL} {one.answer}" for one in samples], return_tensors="pt", padding=True)
    labels = targets["input_ids"].masked_fill(targets["attention_mask"] == 0, _NOT_SCORED).to(model.device)
    with torch.autocast(model.device.type, dtype=torch.bfloat16):
        states = fused(model, tokenizer, samples)
        logits = model(
            **states,
            decoder_input_ids=torch.nn.functional.pad(labels[:, :-1].clamp(min=0), (1, 0)),
            use_cache=False,
        ).logits
    loss = torch.nn.functional.cross_entropy(
        logits.float().flatten(0, 1), labels.flatten(), ignore_index=_NOT_SCORED
    )
    return loss + _matching_loss(learner, samples, states) if samples[0].passages else loss


def _matching_loss(learner: _Trainer, samples: Sequence[Cloze], fused: dict[str, Any]) -> torch.Tensor:
    states, mask = fused["encoder_outputs"].last_hidden_state, fused["attention_mask"]
    apart = mask.reshape(len(samples), len(samples[0].passages), -1)
    right = [one.right for one in samples if one.right is not None]
    return matching_loss(learner.head, states.reshape(*apart.shape, -1), apart, right)


def with_titles_alone(sample: Cloze) -> Cloze:
    """The sample with its passages cut behind their titles."""
    return dataclasses.replace(sample, passages=tuple(map(title_of, sample.passages)))


def new_head(width: int) -> torch.nn.Linear:
    """Reads from one state of the encoder whether the passage is about the query's subject; for training only."""
    import torch

    return torch.nn.Linear(width, 1)


def matching_loss(
    head: torch.nn.Linear, states: torch.Tensor, mask: torch.Tensor, right: Sequence[int]
) -> torch.Tensor:
    """Mean binary cross-entropy over all tokens; right and wrong passages have the same weight.

    It teaches the encoder to compare the query's subject with a passage's title. The answers' loss does not: a model
    that cannot yet choose gets no hint which passage was right. Titles alone teach it in some hundred steps, whole
    passages do not.

    `states` are (n_samples, n_passages, n_tokens, width), `mask` (n_samples, n_passages, n_tokens); `right` has the place
    of each sample's right passage. There are at least two passages.
    """
    import torch

    is_right = torch.zeros(mask.shape, device=mask.device)
    is_right[range(len(right)), list(right)] = 1
    weights = mask * torch.where(is_right > 0, mask.shape[1] - 1, 1)
    losses = torch.nn.functional.binary_cross_entropy_with_logits(
        head(states.float()).squeeze(-1), is_right, reduction="none"
    )
    return (losses * weights).sum() / weights.sum()
