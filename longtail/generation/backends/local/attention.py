"""Attention over keys and values held apart: one set for many queries, merged afterwards.

Attention to a union of disjoint key sets is the average of the attentions to each, weighted by the sums of
their exponentials. So a prefix that a thousand questions share is read once for all of them, never copied.
Shapes: H query heads, G key-value heads (H a multiple of G), d the head's size. Log-sum-exps are float32.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import torch

    Part = tuple[torch.Tensor, torch.Tensor]
    """Attention to some of the keys: output (…, queries, d), and log-sum-exp (…, queries)."""

IMPLEMENTATION = "longtail_packed"
_UNSUPPORTED = ("sliding_window", "softcap", "s_aux", "cu_seq_lens_q", "position_bias")


class Pass(Protocol):
    """One forward pass, which is asked once per layer, in the order of layers."""

    def attend(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float
    ) -> torch.Tensor:
        """Keep key and value (G, n, d); attention of query (H, n, d) as (n, H, d)."""
        ...


CURRENT: ContextVar[Pass] = ContextVar("longtail_pass")


def register() -> None:
    """Make `IMPLEMENTATION` known to transformers; without a mask function of its own no mask is built."""
    from transformers import AttentionInterface

    AttentionInterface.register(IMPLEMENTATION, _attention)


def _attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """What a layer calls, with one packed sequence: query (1, H, n, d), key and value (1, G, n, d)."""
    unsupported = [name for name in _UNSUPPORTED if options.get(name) is not None]
    if attention_mask is not None or unsupported or not getattr(module, "is_causal", True):
        raise NotImplementedError(f"its attention has {', '.join(unsupported) or 'a mask of its own'}")
    scale = scaling if scaling is not None else query.shape[-1] ** -0.5
    return CURRENT.get().attend(query[0], key[0], value[0], scale)[None], None


def attend_prefix(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float) -> Part:
    """All queries (H, n, d) see all keys (G, m, d): output (H, n, d) and log-sum-exp (H, n)."""
    heads, n, d = query.shape
    folded = query.reshape(1, key.shape[0], -1, d)
    fused = find_kernel(query.device.type, query.dtype)
    if fused is None:
        out, lse = attend_block(folded, key[None], value[None], scale)
    else:
        out, lse = fused(folded, key[None], value[None], scale, False)
    return out.reshape(heads, n, -1), lse.reshape(heads, n)


def attend_causally(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float) -> Part:
    """Rows of queries (H, rows, n, d) see the keys (G, rows, n, d) of their row up to their own place."""
    repeat = query.shape[0] // key.shape[0]
    n = query.shape[2]
    fused = find_kernel(query.device.type, query.dtype)
    if repeat > 1:
        key, value = key.repeat_interleave(repeat, 0), value.repeat_interleave(repeat, 0)
    if fused is None or (n <= _SHORT and query.device.type == "cpu"):
        return attend_block(query, key, value, scale, _causal_mask(n, query.device))
    return fused(query, key, value, scale, True)


def attend_block(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    scale: float,
    mask: torch.Tensor | None = None,
) -> Part:
    """Attention written out, in float32: query (…, n, d), key and value (…, m, d), mask added to (…, n, m)."""
    scores = (query.float() * scale) @ key.float().transpose(-1, -2)
    if mask is not None:
        scores += mask
    top = scores.amax(-1, keepdim=True)
    weights = scores.sub_(top).exp_()
    total = weights.sum(-1, keepdim=True)
    out = (weights @ value.float()).div_(total)
    return out, (total.log_() + top).squeeze(-1)


def merge(parts: Sequence[Part]) -> torch.Tensor:
    """Attention to the union of the parts' keys."""
    import torch

    if len(parts) == 1:
        return parts[0][0]
    lses = torch.stack([lse for _, lse in parts])
    weights = lses.softmax(0).unsqueeze(-1)
    merged = parts[0][0] * weights[0]
    for (out, _), weight in zip(parts[1:], weights[1:], strict=True):
        merged = merged.addcmul(out.to(merged.dtype), weight)
    return merged


_SHORT = 48
"""Up to this many tokens per row, written-out causal attention is faster on a CPU than the fused kernel."""


@functools.lru_cache(maxsize=64)
def _causal_mask(n: int, device: torch.device) -> torch.Tensor:
    import torch

    return torch.full((n, n), float("-inf"), device=device).triu_(1)


@functools.lru_cache(maxsize=16)
def find_kernel(device_type: str, dtype: torch.dtype) -> Any:
    """torch's fused kernel with log-sum-exp that agrees here with attention written out; None where none does.

    The kernels lie below torch's public functions, which keep the log-sum-exp to themselves; hence the trial.
    """
    import torch

    for kernel in _KERNELS.get(device_type, ()):
        # by cpu generator, so that the state of the global one stays as it is
        draw = torch.Generator().manual_seed(0)
        q, k, v = (torch.randn((2, 2, n, 64), generator=draw).to(device_type, dtype) for n in (40, 40, 40))
        try:
            close = all(_agree(kernel(q, k, v, 0.125, causal), q, k, v, causal) for causal in (True, False))
        except (RuntimeError, AttributeError, TypeError, ValueError):
            continue
        if close:
            return kernel
    return None


def _agree(part: Part, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> bool:
    import torch

    mask = _causal_mask(q.shape[2], q.device) if causal else None
    pairs = zip(part, attend_block(q, k, v, 0.125, mask), strict=True)
    return all(a.shape == b.shape and torch.allclose(a.float(), b, atol=0.03, rtol=0.03) for a, b in pairs)


def _cpu_flash(q: Any, k: Any, v: Any, scale: float, causal: bool) -> Part:
    import torch

    op = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    out, lse = op(q, k, v, 0.0, causal, scale=scale)
    return out, lse


def _cuda_flash(q: Any, k: Any, v: Any, scale: float, causal: bool) -> Part:
    import torch

    d = v.shape[-1]
    q, k, v = (_in_eights(x) for x in (q, k, v))
    part = torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal, False, scale=scale)
    return part[0][..., :d], part[1][..., : q.shape[2]]


def _cuda_efficient(q: Any, k: Any, v: Any, scale: float, causal: bool) -> Part:
    import torch

    d = v.shape[-1]
    q, k, v = (_in_eights(x) for x in (q, k, v))
    op = torch.ops.aten._scaled_dot_product_efficient_attention
    part = op(q, k, v, None, True, 0.0, causal, scale=scale)
    return part[0][..., :d], part[1][..., : q.shape[2]]


def _in_eights(x: torch.Tensor) -> torch.Tensor:
    """Heads filled with zeros to a multiple of 8, which the kernels want; zeros change no product."""
    import torch

    missing = -x.shape[-1] % 8
    return torch.nn.functional.pad(x, (0, missing)) if missing else x


_KERNELS: dict[str, tuple[Any, ...]] = {"cpu": (_cpu_flash,), "cuda": (_cuda_flash, _cuda_efficient)}
