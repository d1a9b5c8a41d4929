"""The paths of the shipped reference models.

What belongs here: paths. What does not: how the models were made (`sandbox.training`) and what they are
(`sandbox/weights/README.md`).
"""

from __future__ import annotations

from pathlib import Path

from dagster_project.core.errors import BackendError

SIZES = ("s", "m", "l")
WEIGHTS = Path(__file__).parent / "sandbox" / "weights"


def reference_model_path(size: str) -> Path:
    """The folder of reference model `size` (s, m or l, in any case), for `from_pretrained`."""
    if size.lower() not in SIZES:
        raise BackendError(f"unknown reference model {size!r}: use one of {', '.join(SIZES)}")
    path = WEIGHTS / size.lower()
    if not (path / "model.safetensors").is_file():
        raise BackendError(
            f"no weights in {path}: restore them from the repository, or run `make reference-models`"
        )
    return path
