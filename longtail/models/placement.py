"""Where a model goes, in which precision, and how fast its layers are on a CPU: what cannot be had is refused in one line
before anything is read.

`8bit` is bitsandbytes' LLM.int8(), `4bit` its NF4 with computation in the model's dtype; embeddings and heads
keep the dtype.

One process holds a GPU at a time, over all studies, homes and users of a machine. Its lease is a `flock` on a file
named after the GPU, in one folder per machine: `/tmp/longtail-leases`, or `$LONGTAIL_LEASES` (containers that share GPUs
need a folder that they share too). The kernel drops it with its process, also after kill -9. A process that holds a GPU
shares it with itself: a second model of the same process goes to the same GPU.

PyTorch multiplies float32 matrices by MKL, which uses AVX2 alone on processors of other makers than Intel. oneDNN, which
PyTorch also carries, uses AVX-512 there: twice as fast from a few dozen rows on (a prompt has that many tokens). With
fewer rows MKL is as fast or faster. The two differ by rounding.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import importlib.util
import logging
import os
import re
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longtail.errors import BackendError
from longtail.needs import install_command
from longtail.study.models import Model

_LOG = logging.getLogger(__name__)
_FOLDER = "/tmp/longtail-leases"  # noqa: S108 - every user's processes must agree on it, and TMPDIR is one's own
_POLL_SECONDS = 0.5
_REMIND_SECONDS = 30.0
_HELD: dict[Path, tuple[int, int]] = {}
"""The GPUs that this process holds, with the file's descriptor and the number of leases: a second `flock` of the same
process would wait for itself."""
_GUARD = threading.Lock()

LEAST_ROWS = 16
_CPUINFO = Path("/proc/cpuinfo")


def find_device(model: Model) -> Any:
    """The torch device of a model, a GPU's number still open. Errors: `BackendError` where the model's device,
    quantisation and device map cannot be had here.
    """
    device = _device(model)
    if model.quantisation != "none":
        if device.type != "cuda":
            raise BackendError(
                f"model {model.name}: quantisation {model.quantisation} needs a CUDA GPU, and the device is {device}; "
                "use quantisation none"
            )
        for package in ("bitsandbytes", "accelerate"):
            check_package(model, f"quantisation {model.quantisation}", package)
    if model.device_map is not None:
        if device.type != "cuda" or device.index is not None:
            raise BackendError(
                f"model {model.name}: device_map {model.device_map} spreads a model over all GPUs that torch sees, and "
                f"the device is {device}; use device cuda on a machine with GPUs, or leave device_map out"
            )
        check_package(model, f"device_map {model.device_map}", "accelerate")
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
    asked = f"model {model.name}: device {device} asked for, but torch sees"
    if device.type == "cuda" and not torch.cuda.is_available():
        raise BackendError(f"{asked} no CUDA; use auto or cpu")
    if device.type == "cuda" and device.index is not None and device.index >= torch.cuda.device_count():
        raise BackendError(f"{asked} {torch.cuda.device_count()} GPUs, counted from cuda:0")
    return device


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


@contextlib.contextmanager
def hold_device(model: Model) -> Iterator[Any]:
    """The torch device of a model, leased meanwhile; waits while others hold it. Errors: as of `find_device`."""
    device, lease = lease_device(model, find_device(model))
    try:
        yield device
    finally:
        lease.release()


def placement(model: Model, device: Any) -> dict[str, Any]:
    """What `from_pretrained` is told about devices and quantisation (bitsandbytes')."""
    if model.quantisation == "none":
        return {} if model.device_map is None else {"device_map": model.device_map}
    import torch
    from transformers import BitsAndBytesConfig

    # at float32 it says at every product that it computes in float16
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)
    dtype = getattr(torch, model.dtype)
    in_4_bits = {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_compute_dtype": dtype}
    how = {"load_in_8bit": True} if model.quantisation == "8bit" else in_4_bits
    return {"device_map": model.device_map or {"": device}, "quantization_config": BitsAndBytesConfig(**how)}


def check_spread(model: Model, spread: dict[str, Any]) -> None:
    """Errors: `BackendError` where parts of a model found no place on a GPU: each step would copy them there."""
    left = sorted(part for part, device in spread.items() if str(device) in ("cpu", "disk"))
    if left and model.device_map is not None:
        raise BackendError(
            f"model {model.name}: the GPUs have no room for {len(left)} of its {len(spread)} parts, as {left[0]}; use "
            "quantisation 8bit or 4bit, or more GPUs"
        )


@dataclass(frozen=True)
class Lease:
    """GPUs held for one model: `positions` among those visible, `paths` of their lock files."""

    positions: tuple[int, ...] = ()
    paths: tuple[Path, ...] = ()

    def release(self) -> None:
        """Give the GPUs back; to be called once."""
        with _GUARD:
            for path in self.paths:
                descriptor, n_leases = _HELD.pop(path)
                if n_leases > 1:
                    _HELD[path] = descriptor, n_leases - 1
                else:
                    os.close(descriptor)


def lease_folder() -> Path:
    """The folder of the lock files, made where it is missing and open to all users."""
    folder = Path(os.environ.get("LONGTAIL_LEASES") or _FOLDER)
    with contextlib.suppress(FileExistsError):
        folder.mkdir(parents=True)
        folder.chmod(0o1777)
    return folder


def visible_gpus() -> list[str]:
    """A name for each GPU that torch sees, the same in every process of the machine."""
    import torch

    if not torch.cuda.is_available():
        return []
    # slices of one GPU (MIG) may share its UUID, so the name under which they were made visible counts
    named = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    return [
        named[i].strip()
        if i < len(named) and named[i].strip().startswith("MIG-")
        else str(torch.cuda.get_device_properties(i).uuid)
        for i in range(torch.cuda.device_count())
    ]


def lease_one(gpus: Sequence[str], positions: Sequence[int], folder: Path, model_name: str) -> Lease:
    """The first free GPU among `positions` of the visible `gpus`; a GPU that this process holds already comes first.

    It waits, and says so, while all are taken. Errors: `BackendError`.
    """
    names = {position: re.sub(r"[^A-Za-z0-9-]", "_", gpus[position]) for position in positions}
    paths = {folder / f"gpu-{name}.lock": position for position, name in names.items()}
    reminded = float("-inf")
    while True:
        for path in sorted(paths, key=lambda path: path not in _HELD):
            if _acquire(path, model_name):
                return Lease((paths[path],), (path,))
        if time.monotonic() - reminded >= _REMIND_SECONDS:
            reminded = time.monotonic()
            owners = dict.fromkeys(path.read_text(errors="replace") or "another process" for path in paths)
            _LOG.info("%s: waiting for a GPU; held by %s", model_name, ", ".join(owners))
        time.sleep(_POLL_SECONDS)


def lease_all(gpus: Sequence[str], folder: Path, model_name: str) -> Lease:
    """All visible GPUs; waits, and says so, for those that are taken. Errors: `BackendError`.

    Every process takes them in the same order, so that two processes that want all never wait for each other.
    """
    leases: list[Lease] = []
    try:
        for position in sorted(range(len(gpus)), key=gpus.__getitem__):
            leases.append(lease_one(gpus, [position], folder, model_name))
    except BaseException:
        for lease in leases:
            lease.release()
        raise
    return Lease(*(sum((getattr(lease, name) for lease in leases), ()) for name in ("positions", "paths")))


def _acquire(path: Path, model_name: str) -> bool:
    with _GUARD:
        if path in _HELD:
            descriptor, n_leases = _HELD[path]
            _HELD[path] = descriptor, n_leases + 1
            return True
        descriptor = _open(path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"process {os.getpid()} with {model_name}".encode())
        _HELD[path] = descriptor, 1
        return True


def _open(path: Path) -> int:
    """Another user's file is opened without O_CREAT, which kernels refuse in a folder like /tmp."""
    try:
        with contextlib.suppress(FileNotFoundError):
            return os.open(path, os.O_RDWR | os.O_NOFOLLOW)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW)
        with contextlib.suppress(PermissionError):  # another user was quicker
            os.fchmod(descriptor, 0o666)
        return descriptor
    except OSError as error:
        raise BackendError(
            f"no GPU can be leased: {path} cannot be opened ({error.strerror}); set LONGTAIL_LEASES to a folder "
            "that every process on this machine may write to"
        ) from None


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
