"""What a model can take: how long its inputs and outputs may be, how many rows are a batch, and when memory ran out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_LENGTHS = (
    "max_encoder_position_embeddings",
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "max_sequence_length",
    "n_ctx",
)
"""The names under which configurations declare the longest input, in tokens."""
_DECODER_LENGTHS = ("max_decoder_position_embeddings", "max_position_embeddings")
_NO_LENGTH = 1 << 24
"""Tokenizers without a limit say an absurdly large one."""
_OUT_OF_MEMORY = ("allocate memory", "out of memory", "CUBLAS_STATUS_ALLOC_FAILED")
"""Messages of the CPU's allocator, of CUDA and of its libraries, which raise errors of general kinds."""


def is_encoder_decoder(config: Any) -> bool:
    """Whether a configuration is an encoder-decoder's."""
    return bool(getattr(config, "is_encoder_decoder", False))


def end_ids(model: Any, tokenizer: Any) -> frozenset[int]:
    """The tokens that end a text: those of the generation settings, as for `generate`. Where these name none, those
    of the configuration and the tokenizer. Empty where nothing is declared.
    """
    ids = _ids(model.generation_config.eos_token_id)
    return ids or _ids(model.config.eos_token_id) | _ids(tokenizer.eos_token_id)


def _ids(named: Any) -> frozenset[int]:
    return frozenset(i for i in (named if isinstance(named, list) else [named]) if i is not None)


def input_length(config: Any, tokenizer: Any) -> int | None:
    """The longest input in tokens: what the configuration declares, else the tokenizer; None where neither does.

    T5 counts relative positions, so nothing in it ends at a length. The length that its checkpoints declare (512, that of
    pretraining) holds all the same. mT5's checkpoints declare none and take any length.
    """
    text = config if is_encoder_decoder(config) else config.get_text_config()
    declared = (getattr(text, name, None) for name in _LENGTHS)
    longest = next((length for length in declared if isinstance(length, int) and length > 0), None)
    if longest is None and tokenizer.model_max_length < _NO_LENGTH:
        longest = int(tokenizer.model_max_length)
    return longest


def decoder_length(config: Any) -> int | None:
    """The longest text of a separate decoder in tokens; None where nothing declares it."""
    return next((n for name in _DECODER_LENGTHS if (n := getattr(config, name, None))), None)


def input_limit(tokenizer: Any, config: Any) -> int | None:
    """How many tokens an encoder without a decoder reads at once; None where nothing says it."""
    declared = getattr(config, "max_position_embeddings", None) or 0
    # the first positions of RoBERTa and its kin belong to padding
    has_padding = any(kin in config.model_type for kin in ("roberta", "mpnet", "camembert"))
    places = declared - (config.pad_token_id + 1 if has_padding else 0)
    known = [n for n in (tokenizer.model_max_length, places) if 0 < n < _NO_LENGTH]
    return min(known, default=None)


def plan_batches(prompts: Sequence[Sequence[int]], new_tokens: Sequence[int], budget: int) -> list[list[int]]:
    """Indices of `prompts` in batches of at most `budget` tokens (a batch of one may exceed it).

    A row costs its tokens and its `new_tokens`, padded to the batch's longest row, so rows of similar cost are together.
    """
    cost = [len(prompt) + new for prompt, new in zip(prompts, new_tokens, strict=True)]
    planned: list[list[int]] = []
    for row in sorted(range(len(cost)), key=cost.__getitem__):
        if not planned or (len(planned[-1]) + 1) * cost[row] > budget:
            planned.append([])
        planned[-1].append(row)
    return planned


def is_out_of_memory(error: BaseException) -> bool:
    """Whether a device or the machine had too little memory."""
    import torch

    text = str(error)
    said = any(words in text for words in _OUT_OF_MEMORY)
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or said


def first_line(error: BaseException) -> str:
    """The first line of an error's message, or its kind where it has none."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
