"""Cross-attention in which all states of a prompt read the same keys and values.

Without it each state carries a copy of its prompt's keys and values: 7.5 GB for 200 candidates after 512 tokens of
t5-base. The function recognises cross-attention where the number of rows differs from that of queries. Where both
numbers are equal, every state must have its own row.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

NAME = "longtail_shared_cross_attention"


@dataclass(frozen=True)
class Groups:
    """Where each state stands in a grid of (prompts, most states of a prompt): `places`, row by row."""

    places: torch.Tensor
    n_prompts: int
    width: int

    @staticmethod
    def of(owners: torch.Tensor, n_prompts: int) -> Groups:
        """From each state's prompt, which never falls."""
        import torch

        counts = torch.bincount(owners, minlength=n_prompts)
        width = int(counts.max())
        first = counts.cumsum(0) - counts
        within = torch.arange(len(owners), device=owners.device) - first[owners]
        return Groups(owners * width + within, n_prompts, width)


_GROUPS: ContextVar[Groups | None] = ContextVar("_GROUPS", default=None)


@contextlib.contextmanager
def grouped(groups: Groups | None) -> Iterator[None]:
    """Within, models whose attention is `NAME` read cross-attention by these groups."""
    token = _GROUPS.set(groups)
    try:
        yield
    finally:
        _GROUPS.reset(token)


def register() -> None:
    """Make `NAME` known to transformers as an attention implementation."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    AttentionInterface.register(NAME, _attention)
    AttentionMaskInterface.register(NAME, sdpa_mask)


def _attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    **kwargs: Any,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """`query` (states, heads, 1, size), `key` and `value` (prompts, heads, tokens, size): (states, 1, heads, size)."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    groups = _GROUPS.get()
    if groups is None or len(key) == len(query):
        return sdpa_attention_forward(module, query, key, value, attention_mask, **kwargs)
    _, heads, _, size = query.shape
    grid = query.new_zeros(groups.n_prompts * groups.width, heads, size)
    grid[groups.places] = query[:, :, 0]
    rows = grid.view(groups.n_prompts, groups.width, heads, size).transpose(1, 2)
    kwargs["is_causal"] = False
    out, _ = sdpa_attention_forward(module, rows, key, value, attention_mask, **kwargs)
    return out.reshape(groups.n_prompts * groups.width, heads, -1)[groups.places][:, None], None
