"""The optimisation of one reference model: its shape, its phases, the loss.

Here: what PyTorch does. Not here: the texts (`samples.py`) and the judgement (`gates.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dagster_project.core.sandbox.training.samples import Sampler, items
from dagster_project.core.sandbox.training.tokenizer import VOCABULARY_SIZE, load_tokenizer
from dagster_project.core.sandbox.world import World

if TYPE_CHECKING:
    import torch
    from transformers import LlamaForCausalLM

TOKENS_PER_STEP = 2048
FIRST_SHARES = {"short_reading": 0.65, "drills": 0.35}
MAIN_SHARES = {"questions": 0.36, "reading": 0.36, "unrelated": 0.14, "own_passage": 0.04, "background": 0.05,
               "drills": 0.05}


@dataclass(frozen=True)
class Phase:
    """`steps` of rows of `row_length` tokens; the phase may end earlier, once reading is learned."""

    name: str
    steps: int
    row_length: int
    shares: dict[str, float]
    until_loss: float | None = None
    least_steps: int = 0


@dataclass(frozen=True)
class Recipe:
    """The shape of one model and how it is trained. `width` is the hidden size, `rate` the peak learning rate."""

    size: str
    width: int
    rate: float
    phases: tuple[Phase, ...]
    seed: int = 1


def _phases(first: int, least: int, main: int, long: int) -> tuple[Phase, ...]:
    return (
        Phase("copying", first, 128, FIRST_SHARES, until_loss=0.35, least_steps=least),
        Phase("facts", main, 384, MAIN_SHARES),
        Phase("long rows", long, 1152, MAIN_SHARES),
    )


RECIPES = {
    "s": Recipe("s", 64, 4e-3, _phases(1600, 1000, 1300, 250)),
    "m": Recipe("m", 128, 3e-3, _phases(1800, 1000, 1500, 250)),
    "l": Recipe("l", 224, 2e-3, _phases(1800, 1000, 1500, 250)),
}


def new_model(recipe: Recipe) -> LlamaForCausalLM:
    """A Llama of four layers and four heads with tied embeddings, its weights drawn from the recipe's seed."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(recipe.seed)
    return LlamaForCausalLM(LlamaConfig(
        vocab_size=VOCABULARY_SIZE, hidden_size=recipe.width, intermediate_size=(recipe.width * 8 // 3 + 7) // 8 * 8,
        num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=2048,
        tie_word_embeddings=True, bos_token_id=0, eos_token_id=0, pad_token_id=0,
    ))


def train(recipe: Recipe, out: Path, device: str, say: Callable[[str], None]) -> None:
    """Train one model and write it to `out` (Hugging Face format, fp16 safetensors, tokenizer beside it)."""
    import torch

    model = new_model(recipe).to(device)
    say(f"{recipe.size}: {sum(p.numel() for p in model.parameters()):,} parameters on {device}, "
        f"{torch.get_num_threads()} threads")
    fresh = [item for seed in range(9100, 9108) for item in items(World(seed, 800))]
    sampler = Sampler(items(World()), fresh, recipe.seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=recipe.rate, betas=(0.9, 0.98), weight_decay=0.05)
    planned = [phase.steps for phase in recipe.phases]
    started = time.monotonic()
    for place, phase in enumerate(recipe.phases):
        before, rest = (0, 0) if place == 0 else (sum(planned[1:place]), sum(planned[1:]))
        _run_phase(model, optimizer, sampler, phase, device, say,
                   rate=lambda step, b=before, r=rest: recipe.rate * _schedule(b + step, r))
        say(f"{recipe.size}: {phase.name} done after {time.monotonic() - started:.0f} s")
        save(model, out)


def _schedule(step: int, total: int) -> float:
    """Warm-up in the first phase (total 0), then constant, decaying over the last 40 % of all later steps."""
    if total == 0:
        return min(1.0, (step + 1) / 100)
    return min(1.0, max(0.02, (total - step) / (0.4 * total)))


def _run_phase(model: LlamaForCausalLM, optimizer: torch.optim.Optimizer, sampler: Sampler, phase: Phase,
               device: str, say: Callable[[str], None], rate: Callable[[int], float]) -> None:
    import torch

    per_step = round(TOKENS_PER_STEP / phase.row_length)
    rows = sampler.rows(phase.row_length, phase.shares, phase.steps * per_step)
    average, started = 0.0, time.monotonic()
    model.train()
    for step in range(phase.steps):
        for group in optimizer.param_groups:
            group["lr"] = rate(step)
        batch = [next(rows) for _ in range(per_step)]
        ids = torch.tensor([row[0] for row in batch], device=device)
        weights = torch.tensor([row[1] for row in batch], device=device)
        loss, answers = _loss(model, ids, weights, device)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        average = answers if step == 0 else 0.97 * average + 0.03 * answers
        if step % 50 == 49:
            say(f"  {phase.name} {step + 1}/{phase.steps}: answer loss {average:.3f}, "
                f"{(time.monotonic() - started) / (step + 1):.2f} s a step")
        if phase.until_loss is not None and step >= phase.least_steps and average < phase.until_loss:
            return


def _loss(model: LlamaForCausalLM, ids: torch.Tensor, weights: torch.Tensor, device: str
          ) -> tuple[torch.Tensor, float]:
    """Weighted cross-entropy of the next tokens, and its mean over answers' tokens alone."""
    import torch

    with torch.autocast(device, dtype=torch.bfloat16):
        hidden = model.model(input_ids=ids[:, :-1], use_cache=False).last_hidden_state
        # Half of the lightly weighted tokens, at twice their weight: the same loss in the mean, sooner.
        targets, weights = ids[:, 1:].reshape(-1), weights[:, 1:].reshape(-1)
        light = weights < 0.1
        keep = (~light | (torch.rand_like(weights) < 0.3)).nonzero().squeeze(1)
        weights = torch.where(light, weights / 0.3, weights)[keep]
        logits = model.lm_head(hidden.reshape(-1, hidden.shape[-1])[keep])
    losses = torch.nn.functional.cross_entropy(logits.float(), targets[keep], reduction="none")
    answers = losses.detach()[weights == 1.0]
    return (losses * weights).sum() / weights.sum(), float(answers.mean()) if len(answers) else 0.0


def save(model: LlamaForCausalLM, out: Path) -> None:
    """Write weights (fp16), config and tokenizer to the folder `out`."""
    import copy

    import torch

    out.mkdir(parents=True, exist_ok=True)
    half = copy.deepcopy(model).to("cpu", torch.float16)
    half.generation_config.do_sample = False
    half.save_pretrained(out, safe_serialization=True)
    load_tokenizer().save_pretrained(out)
