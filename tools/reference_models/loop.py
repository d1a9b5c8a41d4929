"""The optimisation of one reference model: its shape, its phases, the loss."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from longtail.sandbox.world import World
from tools.reference_models.samples import ANSWER, Row, Sampler, items
from tools.reference_models.tokenizer import VOCABULARY_SIZE, load_tokenizer

if TYPE_CHECKING:
    import torch
    from transformers import LlamaForCausalLM, PreTrainedModel, PreTrainedTokenizerFast

TOKENS_PER_STEP = 2048
FRESH_SEEDS = range(9100, 9108)  # worlds for learning to read; no evaluation uses them
LIGHT, LIGHT_KEPT = 0.1, 0.3
FIRST_SHARES = {"short_reading": 0.65, "drills": 0.35}
MAIN_SHARES = {
    "questions": 0.36,
    "reading": 0.36,
    "unrelated": 0.14,
    "own_passage": 0.04,
    "background": 0.05,
    "drills": 0.05,
}
LAST_SHARES = {
    "questions": 0.50,
    "reading": 0.26,
    "unrelated": 0.12,
    "own_passage": 0.03,
    "background": 0.05,
    "drills": 0.04,
}


@dataclass(frozen=True)
class Phase:
    """`steps` of rows of `row_length` tokens; the phase may end earlier, when the model has learned to read."""

    name: str
    steps: int
    row_length: int
    shares: dict[str, float]
    until_loss: float | None = None
    least_steps: int = 0


@dataclass(frozen=True)
class Course:
    """Phases that share one course of the learning rate, whose peak is `peak` times the recipe's rate.

    The rate rises over `warm_up` steps (with a new optimiser; 0 continues with the previous one) and falls over the
    last `decay` of all steps.
    """

    phases: tuple[Phase, ...]
    peak: float = 1.0
    warm_up: int = 0
    decay: float = 0.0

    def rates(self) -> list[list[float]]:
        """The factor of the learning rate for every step of every phase."""
        total = sum(phase.steps for phase in self.phases)
        factors = []
        for step in range(total):
            rising = (step + 1) / self.warm_up if self.warm_up else 1.0
            falling = max(0.02, (total - step) / (self.decay * total)) if self.decay else 1.0
            factors.append(self.peak * min(1.0, rising, falling))
        parts = []
        for phase in self.phases:
            parts.append(factors[: phase.steps])
            factors = factors[phase.steps :]
        return parts


@dataclass(frozen=True)
class Recipe:
    """The shape of one model and its training. `width` is the hidden size, `rate` the peak learning rate."""

    size: str
    width: int
    rate: float
    courses: tuple[Course, ...]
    seed: int = 1


def _copying(steps: int) -> Course:
    """Reading must be learned first: a model that gets facts from the start does not learn it."""
    return Course(
        (Phase("copying", steps, 128, FIRST_SHARES, until_loss=0.35, least_steps=1000),), warm_up=100
    )


def _facts(steps: int) -> Course:
    return Course(
        (Phase("facts", steps, 384, MAIN_SHARES), Phase("long rows", 250, 1152, MAIN_SHARES)), decay=0.4
    )


_MORE_FACTS = Course(
    (Phase("more facts", 650, 384, LAST_SHARES), Phase("long rows again", 150, 1152, LAST_SHARES)),
    peak=0.8,
    warm_up=50,
    decay=0.5,
)

RECIPES = {
    "s": Recipe("s", 64, 4e-3, (_copying(1600), _facts(1300))),
    "m": Recipe("m", 128, 3e-3, (_copying(1800), _facts(1500))),
    "l": Recipe("l", 224, 2e-3, (_copying(1800), _facts(1500), _MORE_FACTS)),
}


def new_model(recipe: Recipe) -> LlamaForCausalLM:
    """A Llama of four layers and four heads with tied embeddings, its weights drawn from the seed."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(recipe.seed)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY_SIZE,
            hidden_size=recipe.width,
            intermediate_size=(recipe.width * 8 // 3 + 7) // 8 * 8,
            num_hidden_layers=4,
            num_attention_heads=4,
            num_key_value_heads=4,
            max_position_embeddings=2048,
            tie_word_embeddings=True,
            bos_token_id=0,
            eos_token_id=0,
            pad_token_id=0,
        )
    )


def train(recipe: Recipe, out: Path, device: str, say: Callable[[str], None]) -> None:
    """Train one model and write it to `out` (Hugging Face format, fp16 safetensors, with its tokenizer)."""
    import torch

    model = new_model(recipe)
    torch.nn.Module.to(model, device)
    n_parameters = sum(part.numel() for part in model.parameters())
    say(f"{recipe.size}: {n_parameters:,} parameters on {device}, {torch.get_num_threads()} threads")
    fresh = [item for seed in FRESH_SEEDS for item in items(World(seed, 800))]
    sampler = Sampler(items(World()), fresh, recipe.seed)
    optimizer = new_optimizer(model)
    started = time.monotonic()
    for course in recipe.courses:
        if course.warm_up:
            optimizer = new_optimizer(model)
        for phase, factors in zip(course.phases, course.rates(), strict=True):
            rates = [recipe.rate * factor for factor in factors]
            run_phase(recipe.size, model, optimizer, sampler, phase, rates, say)
            say(f"{recipe.size}: {phase.name} done after {time.monotonic() - started:.0f} s")
            save(model, load_tokenizer(), out)


def new_optimizer(model: LlamaForCausalLM) -> torch.optim.Optimizer:
    import torch

    return torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.98), weight_decay=0.05)


def run_phase(
    size: str,
    model: LlamaForCausalLM,
    optimizer: torch.optim.Optimizer,
    sampler: Sampler,
    phase: Phase,
    rates: list[float],
    say: Callable[[str], None],
) -> None:
    import torch

    rows_per_step = round(TOKENS_PER_STEP / phase.row_length)
    rows = sampler.rows(phase.row_length, phase.shares, phase.steps * rows_per_step)
    average, started = 0.0, time.monotonic()
    model.train()
    for step, rate in enumerate(rates):
        for group in optimizer.param_groups:
            group["lr"] = rate
        loss, answer_loss = _loss(model, [next(rows) for _ in range(rows_per_step)])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        average = answer_loss if step == 0 else 0.97 * average + 0.03 * answer_loss
        if step % 50 == 49:
            pace = (time.monotonic() - started) / (step + 1)
            place = f"{phase.name} {step + 1}/{phase.steps}"
            say(f"  {size} {place}: answer loss {average:.3f}, {pace:.2f} s a step")
        if phase.until_loss is not None and step >= phase.least_steps and average < phase.until_loss:
            return


def _loss(model: LlamaForCausalLM, rows: list[Row]) -> tuple[torch.Tensor, float]:
    """Weighted cross-entropy of the next tokens, and its mean over the answers' tokens only."""
    import torch

    device = model.device
    ids = torch.tensor([row.ids for row in rows], device=device)
    targets = ids[:, 1:].reshape(-1)
    weights = torch.tensor([row.weights for row in rows], device=device)[:, 1:].reshape(-1)
    # Only a part of the lightly weighted tokens is used, with a larger weight: the same mean loss, but faster.
    is_light = weights < LIGHT
    kept = (~is_light | (torch.rand_like(weights) < LIGHT_KEPT)).nonzero().squeeze(1)
    weights = torch.where(is_light, weights / LIGHT_KEPT, weights)[kept]
    with torch.autocast(device.type, dtype=torch.bfloat16):
        hidden = model.model(input_ids=ids[:, :-1], use_cache=False).last_hidden_state
        logits = model.lm_head(hidden.reshape(-1, hidden.shape[-1])[kept])
    losses = torch.nn.functional.cross_entropy(logits.float(), targets[kept], reduction="none")
    answers = losses.detach()[weights == ANSWER]
    return (losses * weights).sum() / weights.sum(), float(answers.mean()) if len(answers) else 0.0


def save(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, out: Path) -> None:
    """Write weights (fp16), config and tokenizer to the folder `out`."""
    import copy

    import torch

    out.mkdir(parents=True, exist_ok=True)
    half = copy.deepcopy(model)
    torch.nn.Module.to(half, "cpu", torch.float16)
    half.generation_config.do_sample = False
    half.save_pretrained(out, safe_serialization=True)
    tokenizer.save_pretrained(out)
    config = out / "tokenizer_config.json"  # older releases of transformers know the class under this name
    config.write_text(
        config.read_text("utf-8").replace("TokenizersBackend", "PreTrainedTokenizerFast"), "utf-8"
    )
    (out / "model.safetensors").chmod(0o644)
