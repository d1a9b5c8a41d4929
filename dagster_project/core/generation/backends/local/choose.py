"""Which of the ways to run a local model is right for it.

What belongs here: the choice, and the trial of the packed path. What does not: the ways themselves.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from dagster_project.core.generation.backends.local.attention import UnsupportedAttentionError
from dagster_project.core.generation.backends.local.checks import allowed_distance
from dagster_project.core.generation.backends.local.loading import LoadedModel
from dagster_project.core.generation.backends.local.packed import PackedSteppers
from dagster_project.core.generation.backends.local.stepper import Steppers
from dagster_project.core.models.failures import first_line, is_out_of_memory
from dagster_project.core.progress import Progress

if TYPE_CHECKING:
    import torch

_LOG = logging.getLogger(__name__)


def choose_steppers(loaded: LoadedModel, batch_tokens: int) -> Steppers:
    """Encoder-decoders have steppers of their own. Causal models are packed where a trial shows that this is right.

    Prefixes of at most `batch_tokens` tokens, or the states of an encoder, are kept for later batches.
    """
    if loaded.is_encoder_decoder:
        from dagster_project.core.generation.backends.local.encoder_decoder import EncoderDecoderSteppers

        return EncoderDecoderSteppers(loaded, batch_tokens)
    reason = PackedSteppers.fits(loaded.model)
    if not reason:
        before = loaded.model.config._attn_implementation
        packed, reason = _tried(loaded, batch_tokens)
        if packed:
            return packed
        loaded.model.set_attn_implementation(before)
    from dagster_project.core.generation.backends.local.cached import CachedSteppers

    _LOG.info("%s: padded batches, as the packed path is not for it: %s", loaded.name, reason)
    return CachedSteppers(loaded)


def _tried(loaded: LoadedModel, batch_tokens: int) -> tuple[PackedSteppers | None, str]:
    """Packed steppers, or the reason why they are not right."""
    import torch

    checked = Progress(_LOG, f"{loaded.name}: checking packed against plain passes")
    try:
        with checked, torch.inference_mode():
            prompts, parents, added = _trial(loaded.model)
            forked = [[*prompts[parent], *own] for parent, own in zip(parents, added, strict=True)]
            alone = _plain(loaded, prompts, forked)
            packed = PackedSteppers(loaded, batch_tokens)
            batch = packed.open(prompts, group_cost=0)
            together = [batch.start(), batch.step(parents, [own[0] for own in added])]
            together.append(batch.step(range(len(parents)), [own[1] for own in added]))
        error = (torch.cat(together) - alone).square().mean(dim=1).sqrt()
        distance = (error / alone.std(dim=1).clamp(min=1e-6)).max()
    except UnsupportedAttentionError as refusal:
        return None, f"its attention has {refusal}"
    except Exception as failure:  # whatever a model's code raises where it is called in an unforeseen way
        if is_out_of_memory(failure):
            raise
        return None, first_line(failure)
    finally:
        loaded.free_memory()
    packed.prefixes.clear()
    if distance <= allowed_distance(loaded.model):
        return packed, ""
    return None, f"its logits differ by {distance:.2g} of their spread"


def _trial(model: Any) -> tuple[list[list[int]], list[int], list[list[int]]]:
    """Prompts with and without a common prefix, states that continue them with a fork, and their tokens."""
    import torch

    drawn = torch.Generator().manual_seed(0)
    size = min(model.get_input_embeddings().weight.shape[0], 1 << 15)

    def some(n: int) -> list[int]:
        tokens: list[int] = torch.randint(size, (n,), generator=drawn).tolist()
        return tokens

    shared = some(9)
    prompts = [[*shared, *some(3)], some(7), [*shared, *some(5)], some(4)]
    parents = [0, 0, 2, 3]
    return prompts, parents, [some(2) for _ in parents]


def _plain(loaded: LoadedModel, prompts: list[list[int]], forked: list[list[int]]) -> torch.Tensor:
    """Logits after each prompt, then before and after the last token of each fork: (prompts + 2 forks, vocabulary).

    One plain forward pass of the model: the tokens on the right that fill the rows change nothing before them.
    """
    import torch

    rows = [*prompts, *forked]
    longest = max(map(len, rows))
    ids = torch.tensor([[*own, *own[-1:] * (longest - len(own))] for own in rows], device=loaded.device)
    logits: torch.Tensor = loaded.model(input_ids=ids, use_cache=False).logits
    last = [(row, len(own) - 1) for row, own in enumerate(rows)]
    before = [(row, at - 1) for row, at in last[len(prompts) :]]
    row, at = torch.tensor([*last[: len(prompts)], *before, *last[len(prompts) :]], device=logits.device).T
    return logits[row, at].float()
