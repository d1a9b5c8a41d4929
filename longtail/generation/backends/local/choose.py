"""Which of the ways to run a local model is right for it."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from longtail.generation.backends.local.attention import IMPLEMENTATION
from longtail.generation.backends.local.decoding import Stepper, Steppers
from longtail.generation.backends.local.loading import LoadedModel, find_difference
from longtail.generation.backends.local.packed import PackedSteppers
from longtail.progress import Progress
from longtail.storage.fingerprints import code_version, fingerprint
from longtail.storage.home import longtail_home

if TYPE_CHECKING:
    import torch

_LOG = logging.getLogger(__name__)


def choose_steppers(loaded: LoadedModel, batch_tokens: int) -> Steppers:
    """Encoder-decoders have steppers of their own. Causal models are packed where a trial shows that this is right.

    Prefixes of at most `batch_tokens` tokens, or the states of an encoder, are kept for later batches.
    """
    if loaded.is_encoder_decoder:
        from longtail.generation.backends.local.encoder_decoder import EncoderDecoderSteppers

        return EncoderDecoderSteppers(loaded, batch_tokens)
    reason = PackedSteppers.fits(loaded.model)
    if not reason:
        proof, before = _proof(loaded), loaded.model.config._attn_implementation
        packed = PackedSteppers(loaded, batch_tokens)
        if proof.is_file():
            return packed
        reason = _try(loaded, packed, before)
        if not reason:
            with contextlib.suppress(OSError):  # a home that cannot be written: tried again next time
                proof.parent.mkdir(parents=True, exist_ok=True)
                proof.touch()
            return packed
        loaded.model.set_attn_implementation(before)
    from longtail.generation.backends.local.cached import CachedSteppers

    _LOG.info("%s: padded batches, as the packed path is not for it: %s", loaded.name, reason)
    return CachedSteppers(loaded)


def _proof(loaded: LoadedModel) -> Path:
    """The file that exists if a trial of the same weights, settings, code, libraries and kind of device has passed."""
    import torch
    import transformers

    is_cpu = loaded.device.type == "cpu"
    device = torch.backends.cpu.get_cpu_capability() if is_cpu else torch.cuda.get_device_name(loaded.device)
    config = {**loaded.model.config.to_dict(), "_name_or_path": ""}  # another temporary folder each time
    versions = [torch.__version__, transformers.__version__, code_version(__name__)]
    return longtail_home() / "cache" / "packed" / fingerprint(loaded.revision, config, device, versions)


def _try(loaded: LoadedModel, packed: PackedSteppers, before: str) -> str:
    """Why packed batches do not give what plain passes, with the attention of `before`, give; empty where they do."""

    def open_batch(prompts: Sequence[Sequence[int]]) -> Stepper:
        loaded.model.set_attn_implementation(IMPLEMENTATION)
        return packed.open(prompts, group_cost=0)

    def run_alone(prompt: list[int], tokens: list[int]) -> torch.Tensor:
        loaded.model.set_attn_implementation(before)
        return loaded.run_alone(prompt, tokens)

    try:
        with Progress(_LOG, f"{loaded.name}: checking packed against plain passes"):
            reasons = (find_difference(loaded.model, open_batch, run_alone, (2, 3), n) for n in (0, 4))
            return next(filter(None, reasons), "")
    finally:
        loaded.model.set_attn_implementation(IMPLEMENTATION)
        packed.forget()
        loaded.free_memory()
