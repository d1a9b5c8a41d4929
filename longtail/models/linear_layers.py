"""Faster linear layers on a CPU that is not Intel's.

PyTorch multiplies float32 matrices by MKL, which uses AVX2 alone on processors of other makers. oneDNN, which PyTorch
also carries, uses AVX-512 there: twice as fast from a few dozen rows on (a prompt has that many tokens). With fewer rows
MKL is as fast or faster. The two differ by rounding.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

LEAST_ROWS = 16
_CPUINFO = Path("/proc/cpuinfo")


def use_fastest(model: Any) -> Any:
    """Let the float32 linear layers of a model on the CPU use oneDNN where it is faster; return the model.

    Only for models that no gradient is computed of (`use_trainable`).
    """
    import torch

    if not is_onednn_faster():
        return model
    for layer in model.modules():
        if type(layer) is torch.nn.Linear and layer.weight.dtype == torch.float32 and layer.weight.is_cpu:
            vars(layer)["forward"] = functools.partial(_linear, layer)
    return model


def use_trainable(model: Any) -> Any:
    """Give a model its own linear layers back, which gradients flow through; return the model."""
    for layer in model.modules():
        if isinstance(vars(layer).get("forward"), functools.partial):
            del vars(layer)["forward"]
    return model


@functools.cache
def is_onednn_faster() -> bool:
    """Whether PyTorch would use MKL on a processor of another maker, and has oneDNN's operator."""
    import torch

    has_both = torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()
    has_operator = has_both and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    return has_operator and cpu_info("vendor_id") not in ("", "GenuineIntel")


def cpu_info(field: str) -> str:
    """What Linux says of the processor, as `vendor_id` or `model name`; empty where it does not."""
    try:
        lines = _CPUINFO.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(field)), "")


def _linear(layer: Any, values: Any) -> Any:
    import torch

    if values.dtype != torch.float32 or values.numel() < LEAST_ROWS * layer.in_features:
        return torch.nn.functional.linear(values, layer.weight, layer.bias)
    return torch.ops.mkldnn._linear_pointwise(values, layer.weight, layer.bias, "none", [], "")
