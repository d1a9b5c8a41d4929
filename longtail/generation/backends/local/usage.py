"""What a local model occupies: memory, and how busy its devices are."""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Sequence
from typing import Any

from longtail.generation.backends.base import Usage


class Gauge:
    """The devices of one model. Utilisation needs package nvidia-ml-py, and is None without it or without GPUs."""

    def __init__(self, devices: Sequence[Any]) -> None:
        self._devices = [device for device in devices if device.type == "cuda"]
        self._name = ", ".join(map(_name, devices))
        self._handles = _handles(self._devices)
        self._n_readings, self._sum = 0, 0.0

    def read(self) -> None:
        """Look at the devices once; to be called once per batch, while it runs or right after."""
        if not self._handles:
            return
        import pynvml

        with contextlib.suppress(pynvml.NVMLError):
            rates = [pynvml.nvmlDeviceGetUtilizationRates(handle).gpu for handle in self._handles]
            self._n_readings += 1
            self._sum += sum(rates) / len(rates) / 100

    def usage(self) -> Usage:
        """Peak memory is what torch allocated on all GPUs together, or the most that the process held."""
        if not self._devices:
            return Usage(self._name, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        import torch

        peak = sum(torch.cuda.max_memory_allocated(device) for device in self._devices)
        busy = self._sum / self._n_readings if self._n_readings else None
        return Usage(self._name, peak / 2**20, busy)


def _name(device: Any) -> str:
    if device.type != "cuda":
        return str(device)
    import torch

    return f"{device} ({torch.cuda.get_device_name(device)})"


def _handles(devices: Sequence[Any]) -> list[Any]:
    """NVML's handles of torch's devices, by their UUIDs: the two count devices differently."""
    if not devices:
        return []
    try:
        import pynvml
        import torch

        pynvml.nvmlInit()
        names = [f"GPU-{torch.cuda.get_device_properties(device).uuid}" for device in devices]
        return [pynvml.nvmlDeviceGetHandleByUUID(name) for name in names]
    except Exception:  # not installed, no driver, a slice of a GPU: no figure then, and no dead run
        return []
