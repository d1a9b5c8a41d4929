"""The optimisation of the encoder-decoder reference model: its shape, its first weights, its phases, the loss.

The model must copy before it reads, and read before it gets facts. Copying random tokens is learned in some hundred
steps, since nothing else helps there; copying names is not, because guessing their syllables helps at first.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longtail.sandbox.world import World
from tools.reference_models.loop import FRESH_SEEDS, save
from tools.reference_models.pairs import Pair, PairSampler
from tools.reference_models.samples import items
from tools.reference_models.tokenizer import VOCABULARY_SIZE, load_pair_tokenizer

if TYPE_CHECKING:
    import torch
    from transformers import T5ForConditionalGeneration

WIDTH, HEADS, ENCODER_LAYERS, DECODER_LAYERS = 64, 4, 4, 2
RATE, WARM_UP, DECAY = 3e-3, 100, 0.4
"""The peak of the learning rate, over how many steps it rises, and the last part of all steps, over which it falls."""
QUESTION_TOKENS = 1_056
SEED = 1
_NOT_SCORED = -100


@dataclass(frozen=True)
class PairPhase:
    """`steps` of batches of about `n_tokens`, beside a batch of known questions if `with_questions`.

    The phase ends earlier once the loss is below `until_loss`.
    """

    name: str
    steps: int
    n_tokens: int
    shares: dict[str, float]
    with_questions: bool = False
    until_loss: float = 0.0


PHASES = (
    PairPhase("repeating", 400, 1024, {"repeat": 1.0}, until_loss=0.15),
    PairPhase("copying", 1200, 2048, {"short_reading": 0.6, "look_up": 0.3, "repeat": 0.1}),
    PairPhase(
        "facts",
        1300,
        2048,
        {"reading": 0.66, "unrelated": 0.24, "own_passage": 0.05, "look_up": 0.05},
        with_questions=True,
    ),
)


def new_model() -> T5ForConditionalGeneration:
    """A T5 with tied embeddings whose attention begins near look-ups: a query equals its key, a value its output."""
    import torch
    from transformers import T5Config, T5ForConditionalGeneration
    from transformers.models.t5.modeling_t5 import T5Attention

    torch.manual_seed(SEED)
    starts: dict[str, Any] = {"pad_token_id": 0, "eos_token_id": 0, "decoder_start_token_id": 0}
    model = T5ForConditionalGeneration(
        T5Config(
            vocab_size=VOCABULARY_SIZE,
            d_model=WIDTH,
            d_kv=WIDTH // HEADS,
            d_ff=(WIDTH * 8 // 3 + 7) // 8 * 8,
            num_layers=ENCODER_LAYERS,
            num_decoder_layers=DECODER_LAYERS,
            num_heads=HEADS,
            relative_attention_max_distance=256,
            dropout_rate=0.0,
            feed_forward_proj="gated-silu",
            **starts,
        )
    )
    with torch.no_grad():
        model.shared.weight.mul_(0.2)
        for part in model.modules():
            if isinstance(part, T5Attention):
                part.k.weight.copy_(part.q.weight.normal_(0, 0.05))
                torch.nn.init.orthogonal_(part.v.weight).mul_(0.7)
                part.o.weight.copy_(part.v.weight.T)
        _look_at_neighbours(model)
    return model


def _look_at_neighbours(model: Any) -> None:
    """Let the first heads begin with the token before and the token after, and one more with what is near.

    A column is a head, a row a bucket of distances: row 1 is the token before, and in the encoder row 17 the one after.
    """
    import torch

    encoder = model.encoder.block[0].layer[0].SelfAttention.relative_attention_bias.weight
    decoder = model.decoder.block[0].layer[0].SelfAttention.relative_attention_bias.weight
    near = -0.5 * torch.arange(32.0)
    for bias in (encoder.zero_(), decoder.zero_()):
        bias[1, 0] = 5
    encoder[17, 1] = 5
    encoder[:, 2] = near[:16].repeat(2)
    decoder[:, 1] = near


def train(out: Path, device: str, say: Callable[[str], None]) -> None:
    """Train the model and write it to `out` (Hugging Face format, fp16 safetensors, with its tokenizer)."""
    import torch

    model = new_model()
    torch.nn.Module.to(model, device)
    say(f"e: {sum(part.numel() for part in model.parameters()):,} parameters on {device}")
    fresh = [item for seed in FRESH_SEEDS for item in items(World(seed, 800))]
    sampler = PairSampler(items(World()), fresh, SEED)
    optimizer = new_optimizer(model)
    all_rates = rates(sum(phase.steps for phase in PHASES), RATE)
    started, n_done = time.monotonic(), 0
    for phase in PHASES:
        n_done += _run_phase(model, optimizer, sampler, phase, all_rates[n_done : n_done + phase.steps], say)
        say(f"e: {phase.name} done after {time.monotonic() - started:.0f} s")
    save(model, load_pair_tokenizer(), out)


def rates(n_steps: int, peak: float) -> list[float]:
    """The learning rate of every step: it rises to `peak` and falls."""
    return [
        peak * min(1.0, (step + 1) / WARM_UP) * min(1.0, max(0.02, (n_steps - step) / (DECAY * n_steps)))
        for step in range(n_steps)
    ]


def new_optimizer(model: T5ForConditionalGeneration) -> torch.optim.Optimizer:
    """For a T5 of width `WIDTH`: it divides its tied embeddings' output by the root of the width, so they need larger
    steps; so do biases."""
    import torch

    groups: dict[float, list[torch.nn.Parameter]] = {1.0: [], 5.0: [], WIDTH**0.5: []}
    for name, part in model.named_parameters():
        factor = WIDTH**0.5 if name.startswith("shared") else 5.0 if "relative" in name else 1.0
        groups[factor].append(part)
    return torch.optim.AdamW(
        [
            {"params": parts, "factor": factor, "weight_decay": 0.05 * (factor != 5.0)}
            for factor, parts in groups.items()
        ],
        lr=RATE,
        betas=(0.9, 0.98),
    )


def _run_phase(
    model: T5ForConditionalGeneration,
    optimizer: torch.optim.Optimizer,
    sampler: PairSampler,
    phase: PairPhase,
    rates: list[float],
    say: Callable[[str], None],
) -> int:
    """Returns the number of steps that the phase took."""
    import torch

    batches = sampler.batches(phase.n_tokens, phase.shares, phase.steps)
    questions = sampler.batches(QUESTION_TOKENS, {"questions": 1.0}, phase.steps)
    average, started = 0.0, time.monotonic()
    model.train()
    for step, rate in enumerate(rates):
        for group in optimizer.param_groups:
            group["lr"] = rate * group["factor"]
        optimizer.zero_grad(set_to_none=True)
        loss = _loss(model, next(batches))
        average = loss.item() if step == 0 else 0.97 * average + 0.03 * loss.item()
        total = loss + _loss(model, next(questions)) if phase.with_questions else loss
        total.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 50 == 49:
            pace = (time.monotonic() - started) / (step + 1)
            say(f"  e {phase.name} {step + 1}/{phase.steps}: loss {average:.3f}, {pace:.2f} s a step")
        if average < phase.until_loss:
            return step + 1
    return len(rates)


def _loss(model: T5ForConditionalGeneration, pairs: list[Pair]) -> torch.Tensor:
    """Mean cross-entropy of the targets' tokens."""
    import torch

    device = model.device
    sources, mask = (
        _padded([pair.source for pair in pairs], 0),
        _padded([[1] * len(pair.source) for pair in pairs], 0),
    )
    labels = torch.tensor(_padded([pair.target for pair in pairs], _NOT_SCORED), device=device)
    with torch.autocast(device.type, dtype=torch.bfloat16):
        logits = model(
            input_ids=torch.tensor(sources, device=device),
            attention_mask=torch.tensor(mask, device=device),
            decoder_input_ids=torch.nn.functional.pad(labels[:, :-1].clamp(min=0), (1, 0)),
            use_cache=False,
        ).logits
    return torch.nn.functional.cross_entropy(
        logits.float().flatten(0, 1), labels.flatten(), ignore_index=_NOT_SCORED
    )


def _padded(rows: list[list[int]], fill: int) -> list[list[int]]:
    longest = max(map(len, rows))
    return [row + [fill] * (longest - len(row)) for row in rows]
