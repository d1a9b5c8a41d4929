"""Greedy decoding of one padded batch of token ids.

What belongs here: the loop over a causal language model. What does not: text, batches, loading, devices'
limits.

Written out, as the answers of this platform are short: rows that are done leave the batch at once (most
answers end after a few tokens), and a step costs one forward pass and little Python.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def decode_greedily(
    model: Any,
    prompts: Sequence[Sequence[int]],
    max_new_tokens: int,
    is_done: Callable[[list[int]], bool],
    end_ids: frozenset[int],
    accepted: frozenset[str],
) -> list[list[int] | None]:
    """The new tokens of each prompt, the end token left out; None where the model's scores are not finite.

    `prompts`: n lists of token ids, none empty, padded here on the left; `is_done` looks at a row's new
    tokens. `accepted`: the optional arguments that the model's `forward` takes.
    """
    import torch
    from transformers import DynamicCache

    ids, mask = _padded(prompts, model.device)
    cache = DynamicCache(config=model.config)
    written: list[list[int]] = [[] for _ in prompts]
    failed: set[int] = set()
    alive = list(range(len(prompts)))
    with torch.inference_mode():
        for step in range(max_new_tokens):
            tokens, finite = _next_tokens(model, ids, mask, cache, accepted)
            kept = []
            for i, row in enumerate(alive):
                if not finite[i]:
                    failed.add(row)
                elif tokens[i] not in end_ids:
                    written[row].append(tokens[i])
                    if not is_done(written[row]):
                        kept.append(i)
            if not kept or step == max_new_tokens - 1:
                break
            if len(kept) < len(alive):
                index = torch.tensor(kept, device=model.device)
                cache.batch_select_indices(index)
                mask = mask[index]
                alive = [alive[i] for i in kept]
            ids = torch.tensor([[tokens[i]] for i in kept], device=model.device)
            mask = torch.cat([mask, mask.new_ones((len(kept), 1))], dim=1)
    return [None if row in failed else tokens for row, tokens in enumerate(written)]


def _padded(prompts: Sequence[Sequence[int]], device: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and mask, both (n, longest prompt), padding on the left."""
    import torch

    longest = max(len(prompt) for prompt in prompts)
    ids = torch.zeros((len(prompts), longest), dtype=torch.long)
    mask = torch.zeros((len(prompts), longest), dtype=torch.long)
    for row, prompt in enumerate(prompts):
        ids[row, longest - len(prompt) :] = torch.tensor(prompt)
        mask[row, longest - len(prompt) :] = 1
    return ids.to(device), mask.to(device)


def _next_tokens(
    model: Any, ids: torch.Tensor, mask: torch.Tensor, cache: Any, accepted: frozenset[str]
) -> tuple[list[int], list[bool]]:
    """One step: the best next token of each row, and whether its score is finite."""
    optional: dict[str, Any] = {"logits_to_keep": 1}
    if "position_ids" in accepted:
        positions = (mask.cumsum(dim=1) - 1).clamp(min=0)
        optional["position_ids"] = positions[:, -ids.shape[1] :]
    optional = {name: value for name, value in optional.items() if name in accepted}
    out = model(input_ids=ids, attention_mask=mask, past_key_values=cache, use_cache=True, **optional)
    best, tokens = out.logits[:, -1].max(dim=-1)
    return tokens.tolist(), best.isfinite().tolist()
