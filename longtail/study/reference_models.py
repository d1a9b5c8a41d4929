"""The paths of the shipped reference models."""

from __future__ import annotations

from pathlib import Path

from longtail.errors import BackendError

SIZES = ("s", "m", "l")
"""The decoder-only models, which differ only in size."""
ENCODER_DECODER = "e"
FUSION = "f"
"""The encoder-decoder, trained further to read several passages (Fusion-in-Decoder)."""
INSTRUCTION_TUNED = "i"
"""The smallest decoder-only model, trained further to follow grounding prompts."""
NAMES = (*SIZES, ENCODER_DECODER, FUSION, INSTRUCTION_TUNED)
WEIGHTS = Path(__file__).parents[1] / "sandbox" / "weights"


def reference_model_path(name: str) -> Path:
    """The folder of reference model `name` (s, m, l, e, f or i, in any case), for `from_pretrained`."""
    if name.lower() not in NAMES:
        raise BackendError(f"unknown reference model {name!r}: use one of {', '.join(NAMES)}")
    path = WEIGHTS / name.lower()
    if not (path / "model.safetensors").is_file():
        raise BackendError(
            f"no weights in {path}: restore them from the repository, or run `make reference-models`"
        )
    return path
