"""From a study's model to tokenizer and weights in memory, and whether batches of it give what it gives alone.

Weights are safetensors only, and no code of a model's repository runs.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longtail.errors import BackendError
from longtail.generation.backends.local.decoding import Stepper
from longtail.generation.backends.local.rules import Settings, read_settings
from longtail.models.limits import (
    decoder_length,
    end_ids,
    first_line,
    input_length,
    is_encoder_decoder,
    is_out_of_memory,
)
from longtail.models.model_files import ModelFiles
from longtail.models.placement import Lease, check_spread, find_device, lease_device, placement, use_fastest
from longtail.models.weights import find_weights, has_tokenizer
from longtail.study.models import Model

if TYPE_CHECKING:
    import torch


_LOG = logging.getLogger(__name__)


@dataclass
class LoadedModel:
    """A language model ready to run.

    `device` takes inputs; `devices` are all that hold weights. `length` is the longest input in tokens: that of the
    encoder in an encoder-decoder, else prompt and new tokens together. `decoder_length` is that of a separate decoder.
    Both are None where nothing declares one. `n_embeddings` token ids have an embedding. `settings` are the
    checkpoint's own for decoding.
    """

    name: str
    tokenizer: Any
    model: Any
    device: Any
    devices: tuple[Any, ...]
    end_ids: frozenset[int]
    length: int | None
    decoder_length: int | None
    n_embeddings: int
    is_encoder_decoder: bool
    lease: Lease
    settings: Settings

    def room(self, max_new_tokens: int) -> int | None:
        """Tokens that a prompt may have; None for any number. Errors: `BackendError` where there is none."""
        limit = self.decoder_length if self.is_encoder_decoder else self.length
        if limit is not None and limit <= max_new_tokens:
            place = "its decoder's start token" if self.is_encoder_decoder else "a prompt"
            raise BackendError(
                f"model {self.name}: its length of {limit} tokens leaves no room for {place} before "
                f"{max_new_tokens} new ones; lower max_new_tokens"
            )
        if self.length is None or self.is_encoder_decoder:
            return self.length
        return self.length - max_new_tokens

    def encode(self, texts: Sequence[str], *, special: bool = True) -> list[list[int]]:
        """Token ids of each text with the `special` tokens of an input, not cut.

        Added tokens that the model has no embedding for (a pad token, mostly) are left out.
        """
        # a tokenizer takes no lone surrogates
        clean = [text.encode("utf-8", "replace").decode() for text in texts]
        if not clean:
            return []
        ids: list[list[int]] = self.tokenizer(clean, verbose=False, add_special_tokens=special)["input_ids"]
        if len(self.tokenizer) > self.n_embeddings:
            return [[i for i in tokens if i < self.n_embeddings] for tokens in ids]
        return ids

    def run_alone(self, prompt: list[int], tokens: list[int], start: Sequence[int] = ()) -> torch.Tensor:
        """The logits after one sequence, by the plain forward pass without a cache: (1, vocabulary).

        A separate decoder has `start` and `tokens`.
        """
        import torch

        texts = {"input_ids": [*prompt, *tokens]}
        if self.is_encoder_decoder:
            texts = {"input_ids": prompt, "decoder_input_ids": [*start, *tokens]}
        ids = {name: torch.tensor([text], device=self.device) for name, text in texts.items()}
        logits: torch.Tensor = self.model(**ids, use_cache=False).logits[:, -1].float()
        return logits

    def refuse_batches(self, why: str) -> BackendError:
        """The error of a model whose batches do not give what its prompts give alone."""
        return BackendError(
            f"model {self.name}: architecture {self.model.config.model_type} cannot be run in batches: {why}; ask a"
            " server that runs it, by backend openai"
        )

    def close(self) -> None:
        """Free the weights, which nothing else may hold any more, and give the GPUs back."""
        self.model = None
        self.free_memory()
        self.lease.release()

    def free_memory(self) -> None:
        """Give back to the devices what no tensor uses any more."""
        if self.device.type == "cuda":
            import torch

            gc.collect()
            torch.cuda.empty_cache()


def load_model(model: Model) -> LoadedModel:
    """Load a model onto its device, which is leased until `lease.release`. Errors: `BackendError`, in one line."""
    import torch

    device = find_device(model)
    weights = find_weights(model, is_read=True)
    files = weights.files
    settings = read_settings(files)
    device, lease = lease_device(model, device)
    try:
        with files.as_folder() as folder:
            tokenizer, config = _tokenizer(files, folder), _config(files, folder)
            loaded = use_fastest(_weights(model, files, folder, config, device))
        n_embeddings = _embeddings(files, loaded, tokenizer)
    except BaseException:
        lease.release()
        raise
    _log_settings(model, settings)
    devices = tuple(torch.device("cuda", i) for i in lease.positions) or (device,)
    return LoadedModel(
        name=model.name,
        tokenizer=tokenizer,
        model=loaded,
        device=loaded.device,
        devices=devices,
        end_ids=end_ids(loaded, tokenizer),
        length=input_length(config, tokenizer),
        decoder_length=decoder_length(config),
        n_embeddings=n_embeddings,
        is_encoder_decoder=is_encoder_decoder(config),
        lease=lease,
        settings=settings,
    )


def _log_settings(model: Model, settings: Settings) -> None:
    """Log each way in which the model differs from the checkpoint's files."""
    if settings.dtype and settings.dtype != model.dtype:
        _LOG.info(
            "%s: its files are %s; it answers in %s, the study's dtype",
            model.name,
            settings.dtype,
            model.dtype,
        )
    if settings.text:
        _LOG.info("%s: decoding follows its own settings %s", model.name, settings.text)


def _tokenizer(files: ModelFiles, folder: Path) -> Any:
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    except Exception as error:  # raises whatever its many loaders raise
        if not has_tokenizer(folder):
            raise files.refusal("there are no tokenizer files; tokenizer.json is wanted") from error
        raise files.refusal(f"its tokenizer does not load: {_reason(error, files, folder)}") from error


def _config(files: ModelFiles, folder: Path) -> Any:
    """The configuration of a causal or encoder-decoder language model.

    The attention is chosen here, as a configuration may name any, even code from the hub.
    """
    from transformers import AutoConfig
    from transformers.models.auto import modeling_auto

    try:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
        config._attn_implementation = None
        config._experts_implementation = None
    except Exception as error:
        reason = _reason(error, files, folder)
        if "custom code" in reason:
            reason = "it needs code of its own repository, which is never run"
        raise files.refusal(reason) from error
    kind = "SEQ_TO_SEQ_CAUSAL_LM" if is_encoder_decoder(config) else "CAUSAL_LM"
    is_masked = any("MaskedLM" in name for name in config.architectures or ())
    if type(config) not in getattr(modeling_auto, f"MODEL_FOR_{kind}_MAPPING") or is_masked:
        raise BackendError(
            f"model {files.model}: architecture {config.model_type} generates no text; use a causal or an "
            "encoder-decoder language model"
        )
    return config


def _weights(model: Model, files: ModelFiles, folder: Path, config: Any, device: Any) -> Any:
    import torch
    import transformers

    transformers.utils.logging.disable_progress_bar()
    kind = "AutoModelForSeq2SeqLM" if is_encoder_decoder(config) else "AutoModelForCausalLM"
    load: Any = getattr(transformers, kind).from_pretrained
    try:
        loaded, report = load(
            folder,
            config=config,
            dtype=getattr(torch, model.dtype),
            use_safetensors=True,
            trust_remote_code=False,
            output_loading_info=True,
            **placement(model, device),
        )
        if model.quantisation == "none" and model.device_map is None:
            loaded = loaded.to(device)
    except Exception as error:
        raise _loading_error(files, folder, device, error) from error
    if report["missing_keys"]:
        names = ", ".join(sorted(report["missing_keys"])[:3])
        raise BackendError(
            f"model {model.name}: the files in {files.folder} lack weights of the model, as {names}"
        )
    check_spread(model, getattr(loaded, "hf_device_map", {}))
    return loaded.eval()


def _loading_error(files: ModelFiles, folder: Path, device: Any, error: Exception) -> BackendError:
    if is_out_of_memory(error):
        return BackendError(
            f"model {files.model}: its weights do not fit the memory of {device}; use a smaller dtype, quantisation "
            "8bit or 4bit, or device_map auto"
        )
    reason = _reason(error, files, folder)
    if "ignore_mismatched_sizes" in reason:
        reason = "config.json gives the weights other sizes than the files do"
    return files.refusal(reason)


def _reason(error: BaseException, files: ModelFiles, folder: Path) -> str:
    """The first line of an error's message, naming the model's folder rather than the one shown."""
    return first_line(error).replace(str(folder), str(files.folder))


def _embeddings(files: ModelFiles, loaded: Any, tokenizer: Any) -> int:
    """How many token ids the model knows. Errors: `BackendError` where the tokenizer has more of its own."""
    known = int(loaded.get_input_embeddings().weight.shape[0])
    if tokenizer.vocab_size > known:
        raise files.refusal(
            f"its tokenizer has {tokenizer.vocab_size} tokens and its weights {known} embeddings; they do not belong "
            "together"
        )
    return known


TOLERANCE = 0.01
LOW_PRECISION_TOLERANCE = 0.3
"""How far the logits of a batch may be from those of one sequence alone: the root mean square over the vocabulary,
as a share of their standard deviation. Logits after other tokens are about 1.4 away. Measured in float32: 1e-6;
with 16 bits and less, rounding alone depends on the batch.
"""
_MAX_DRAWN = 1 << 15


def find_difference(
    model: Any,
    open_batch: Callable[[Sequence[Sequence[int]]], Stepper],
    run_alone: Callable[[list[int], list[int]], torch.Tensor],
    lengths: tuple[int, int] = (5, 9),
    n_shared: int = 0,
) -> str:
    """Why two prompts of these lengths, the second forked, do not give what they give alone; empty if they do.

    Both begin with `n_shared` more tokens. `run_alone` takes a prompt and the tokens after it, and gives logits
    (1, vocabulary). Out of memory is raised.
    """
    import torch

    drawn = torch.Generator().manual_seed(0)
    size = min(model.get_input_embeddings().weight.shape[0], _MAX_DRAWN)
    shared = torch.randint(size, (n_shared,), generator=drawn).tolist()
    prompts = [[*shared, *torch.randint(size, (n,), generator=drawn).tolist()] for n in lengths]
    first, second, third, fourth = torch.randint(size, (4,), generator=drawn).tolist()
    try:
        with torch.inference_mode():
            batch = open_batch(prompts)
            # a state of each prompt; the second forks; the first is done, and the second's forks change places
            together = [
                batch.start(),
                batch.step([0, 1, 1], [first, second, third]),
                batch.step([1, 2], [third, fourth]),
            ]
            states = [
                (0, []),
                (1, []),
                (0, [first]),
                (1, [second]),
                (1, [third]),
                (1, [second, third]),
                (1, [third, fourth]),
            ]
            alone = [run_alone(prompts[prompt], tokens) for prompt, tokens in states]
    except Exception as error:  # whatever a model's code raises on what it does not know
        if is_out_of_memory(error):
            raise
        return first_line(error)
    return difference(model, torch.cat(together), torch.cat(alone))


def difference(model: Any, logits: torch.Tensor, expected: torch.Tensor) -> str:
    """How far logits of a batch are from those of one sequence alone, where it is more than rounding; else empty."""
    import torch

    is_exact = model.dtype == torch.float32 and not getattr(model, "is_quantized", False)
    distance = ((logits - expected).square().mean(dim=1).sqrt() / expected.std(dim=1).clamp(min=1e-6)).max()
    if distance <= (TOLERANCE if is_exact else LOW_PRECISION_TOLERANCE):
        return ""
    return f"its logits differ by {distance:.2g} of their spread"


def scales_positions(config: Any) -> bool:
    """Whether positions are scaled by the longest prompt of a batch."""
    ropes = getattr(config.get_text_config(), "rope_parameters", None) or {}
    kinds = {ropes.get("rope_type"), *(r.get("rope_type") for r in ropes.values() if isinstance(r, dict))}
    return bool(kinds & {"dynamic", "longrope"})


def pad(
    rows: Sequence[Sequence[int]], device: Any, *, on_left: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and mask, both (n, longest row)."""
    import torch

    longest = max(len(row) for row in rows)
    ids = torch.zeros((len(rows), longest), dtype=torch.long)
    mask = torch.zeros((len(rows), longest), dtype=torch.long)
    for place, row in enumerate(rows):
        start = longest - len(row) if on_left else 0
        ids[place, start : start + len(row)] = torch.tensor(row)
        mask[place, start : start + len(row)] = 1
    return ids.to(device), mask.to(device)
