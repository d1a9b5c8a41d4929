"""Which of the ways to run a local model is right for it."""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longtail.generation.backends.local.attention import UnsupportedAttentionError
from longtail.generation.backends.local.decoding import Steppers
from longtail.generation.backends.local.loading import LoadedModel, difference
from longtail.generation.backends.local.packed import PackedSteppers
from longtail.models.limits import first_line, is_out_of_memory
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
        proof = _proof(loaded)
        if proof.is_file():
            return PackedSteppers(loaded, batch_tokens)
        before = loaded.model.config._attn_implementation
        packed, reason = _try(loaded, batch_tokens)
        if packed:
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


def _try(loaded: LoadedModel, batch_tokens: int) -> tuple[PackedSteppers | None, str]:
    """Packed steppers, or the reason why they are not right."""
    import torch

    checked = Progress(_LOG, f"{loaded.name}: checking packed against plain passes")
    try:
        with checked, torch.inference_mode():
            prompts, parents, added = _trial(loaded.model)
            forked = [[*prompts[parent], *tokens] for parent, tokens in zip(parents, added, strict=True)]
            alone = _plain(loaded, [*prompts, *(tokens[:-1] for tokens in forked), *forked])
            packed = PackedSteppers(loaded, batch_tokens)
            batch = packed.open(prompts, group_cost=0)
            together = [batch.start(), batch.step(parents, [tokens[0] for tokens in added])]
            together.append(batch.step(range(len(parents)), [tokens[1] for tokens in added]))
    except UnsupportedAttentionError as refusal:
        return None, f"its attention has {refusal}"
    except Exception as failure:  # whatever a model's code raises where it is called in an unforeseen way
        if is_out_of_memory(failure):
            raise
        return None, first_line(failure)
    finally:
        loaded.free_memory()
    packed.prefixes.clear()
    reason = difference(loaded.model, torch.cat(together), alone)
    return (None, reason) if reason else (packed, "")


def _trial(model: Any) -> tuple[list[list[int]], list[int], list[list[int]]]:
    """Prompts with and without a common prefix, states that continue them with a fork, and their tokens."""
    import torch

    drawn = torch.Generator().manual_seed(0)
    size = min(model.get_input_embeddings().weight.shape[0], 1 << 15)

    def some(n: int) -> list[int]:
        tokens: list[int] = torch.randint(size, (n,), generator=drawn).tolist()
        return tokens

    shared = some(4)
    prompts = [[*shared, *some(2)], some(3), [*shared, *some(3)], some(2)]
    parents = [0, 0, 2, 3]
    return prompts, parents, [some(2) for _ in parents]


def _plain(loaded: LoadedModel, sequences: list[list[int]]) -> torch.Tensor:
    """Logits after each sequence: (sequences, vocabulary). A sequence that begins another one is read off that one's row.

    One plain forward pass of the model: the tokens on the right that fill the rows change nothing before them.
    """
    import torch

    rows: list[list[int]] = []
    for tokens in sorted(sequences, key=len, reverse=True):
        if all(row[: len(tokens)] != tokens for row in rows):
            rows.append(tokens)
    ids = [[*row, *row[-1:] * (len(rows[0]) - len(row))] for row in rows]
    passed = loaded.model(input_ids=torch.tensor(ids, device=loaded.device), use_cache=False)
    logits: torch.Tensor = passed.logits
    return torch.cat([
        next(logits[i, len(tokens) - 1 : len(tokens)] for i, row in enumerate(rows) if row[: len(tokens)] == tokens)
        for tokens in sequences
    ]).float()  # fmt: skip
