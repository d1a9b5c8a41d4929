"""How many parameters the local weights of a model have."""

from __future__ import annotations

import json
import math
import re
import struct
from pathlib import Path
from typing import Any

from dagster_project.core.errors import BackendError
from dagster_project.core.study.model_paths import place_of
from dagster_project.core.study.models import Model
from dagster_project.core.study.reference_models import reference_model_path

_SANDBOX = "sandbox:"
# Causal masks and rotary tables in old checkpoints: these are buffers, not parameters.
_BUFFER = re.compile(r"(\.attn\.bias|\.attention\.bias|masked_bias|inv_freq|position_ids)$")
_MAX_HEADER_BYTES = 100_000_000


def local_parameters(model: Model) -> int | None:
    """The parameters of local weights; None if the weights are not local."""
    if not model.generates:
        return None
    if model.path.startswith(_SANDBOX):
        folder = reference_model_path(model.path.removeprefix(_SANDBOX))
    else:
        folder = place_of(model.path, model.study_folder)
    return count_parameters(folder) or None if folder.is_dir() else None


def count_parameters(folder: Path) -> int:
    """The number of parameters in the safetensors files of `folder`; only the headers are read.

    Tied weights are stored once and counted once; buffers are left out. Errors: `BackendError` naming the file.
    """
    return sum(
        math.prod(entry["shape"])
        for file in sorted(folder.glob("*.safetensors"))
        for name, entry in _header(file).items()
        if name != "__metadata__" and not _BUFFER.search(name)
    )


def _header(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as stream:
            (length,) = struct.unpack("<Q", stream.read(8))
            if length > _MAX_HEADER_BYTES:
                raise ValueError(f"a header of {length} bytes")
            header = json.loads(stream.read(length))
            shapes = [entry["shape"] for name, entry in header.items() if name != "__metadata__"]
            if not all(isinstance(size, int) for shape in shapes for size in shape):
                raise ValueError("a shape is no list of whole numbers")
            return dict(header)
    except (OSError, struct.error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BackendError(f"{file}: not a safetensors file ({error}); fetch the weights again") from None
