"""Where a model goes, and in which precision: decided, or refused in one line, before anything is read.

`8bit` is bitsandbytes' LLM.int8(), `4bit` its NF4 with computation in the model's dtype; embeddings and heads
keep the dtype.
"""

from __future__ import annotations

import importlib.util
import logging
from typing import Any

from longtail.errors import BackendError
from longtail.models.devices import (
    Lease,
    lease_all,
    lease_folder,
    lease_one,
    visible_gpus,
)
from longtail.needs import install_command
from longtail.study.models import Model


def find_device(model: Model) -> Any:
    """The torch device of a model, a GPU's number still open. Errors: `BackendError` where the model's device,
    quantisation and device map cannot be had here.
    """
    device = _device(model)
    _check_quantisation(model, device)
    _check_device_map(model, device)
    return device


def _device(model: Model) -> Any:
    import torch

    name = model.device
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise BackendError(
            f"model {model.name}: {name!r} is no torch device; use auto, cpu or cuda"
        ) from None
    if device.type == "cuda":
        _check_cuda(model, device)
    return device


def _check_cuda(model: Model, device: Any) -> None:
    import torch

    if not torch.cuda.is_available():
        raise BackendError(
            f"model {model.name}: device {device} asked for, but torch sees no CUDA; use auto or cpu"
        )
    if device.index is not None and device.index >= torch.cuda.device_count():
        raise BackendError(
            f"model {model.name}: device {device} asked for, but torch sees {torch.cuda.device_count()} GPUs, "
            "counted from cuda:0"
        )


def _check_quantisation(model: Model, device: Any) -> None:
    if model.quantisation == "none":
        return
    if device.type != "cuda":
        raise BackendError(
            f"model {model.name}: quantisation {model.quantisation} needs a CUDA GPU, and the device is {device}; "
            "use quantisation none"
        )
    check_package(model, f"quantisation {model.quantisation}", "bitsandbytes")
    check_package(model, f"quantisation {model.quantisation}", "accelerate")


def _check_device_map(model: Model, device: Any) -> None:
    if model.device_map is None:
        return
    if device.type != "cuda" or device.index is not None:
        raise BackendError(
            f"model {model.name}: device_map {model.device_map} spreads a model over all GPUs that torch sees, and "
            f"the device is {device}; use device cuda on a machine with GPUs, or leave device_map out"
        )
    check_package(model, f"device_map {model.device_map}", "accelerate")


def check_package(model: Model, wish: str, package: str) -> None:
    """Errors: `BackendError` where `package`, of the extra `quantised`, is not installed."""
    if importlib.util.find_spec(package) is None:
        raise BackendError(
            f"model {model.name}: {wish} needs the package {package}, which is not installed; "
            f"run: {install_command('[quantised]')}"
        )


def lease_device(model: Model, device: Any) -> tuple[Any, Lease]:
    """The device with its number, and its lease; waits while others hold it."""
    import torch

    if device.type != "cuda":
        return device, Lease()
    gpus, folder = visible_gpus(), lease_folder()
    if model.device_map is not None:
        return device, lease_all(gpus, folder, model.name)
    positions = range(len(gpus)) if device.index is None else [device.index]
    lease = lease_one(gpus, positions, folder, model.name)
    # some kernels run on the current device, wherever their tensors are
    torch.cuda.set_device(lease.positions[0])
    return torch.device("cuda", lease.positions[0]), lease


def placement(model: Model, device: Any) -> dict[str, Any]:
    """What `from_pretrained` is told about devices and quantisation."""
    placement: dict[str, Any] = {}
    if model.device_map is not None:
        placement["device_map"] = model.device_map
    elif model.quantisation != "none":
        placement["device_map"] = {"": device}
    if model.quantisation != "none":
        placement["quantization_config"] = quantisation_config(model)
    return placement


def quantisation_config(model: Model) -> Any:
    """bitsandbytes' settings for `8bit` and `4bit`."""
    import torch
    from transformers import BitsAndBytesConfig

    # at float32 it says at every product that it computes in float16
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)
    if model.quantisation == "8bit":
        return BitsAndBytesConfig(load_in_8bit=True)
    return BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=getattr(torch, model.dtype)
    )


def check_spread(model: Model, spread: dict[str, Any]) -> None:
    """Errors: `BackendError` where parts of a model found no place on a GPU: each step would copy them there."""
    left = sorted(part for part, device in spread.items() if str(device) in ("cpu", "disk"))
    if left and model.device_map is not None:
        raise BackendError(
            f"model {model.name}: the GPUs have no room for {len(left)} of its {len(spread)} parts, as {left[0]}; use "
            "quantisation 8bit or 4bit, or more GPUs"
        )
