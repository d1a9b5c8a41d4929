"""The shapes of OPT-6.7B, GPT-NeoX-20B and T5-small with random weights, for speed only: the texts mean nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longtail.relations.cloze import SENTINEL
from longtail.study.model_files import ENCODER_DECODER, reference_model_path

PEAKS = {"H200": (989e12, 4.8e12), "H100": (989e12, 3.35e12), "A100": (312e12, 2.0e12)}
"""By part of a chip's name: dense bf16 operations per second and bytes of memory per second (data sheets)."""


@dataclass(frozen=True)
class Shape:
    """A causal model's configuration: transformers' `model_type` and its keys."""

    name: str
    model_type: str
    keys: dict[str, Any]


OPT_6_7B = Shape(
    "OPT-6.7B",
    "opt",
    {
        "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "ffn_dim": 16384,
        "word_embed_proj_dim": 4096, "max_position_embeddings": 2048, "vocab_size": 50272,
    },
)  # fmt: skip
NEOX_20B = Shape(
    "GPT-NeoX-20B",
    "gpt_neox",
    {
        "hidden_size": 6144, "num_hidden_layers": 44, "num_attention_heads": 64, "intermediate_size": 24576,
        "max_position_embeddings": 2048, "vocab_size": 50432, "rotary_pct": 0.25,
    },
)  # fmt: skip
T5_SMALL = Shape(
    "T5-small",
    "t5",
    {
        "d_model": 512, "d_kv": 64, "d_ff": 2048, "num_layers": 6, "num_heads": 8, "vocab_size": 32128,
        "n_positions": 512, "decoder_start_token_id": 0,
    },
)  # fmt: skip
TINY = Shape(
    "tiny OPT",
    "opt",
    {
        "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 128,
        "word_embed_proj_dim": 64, "max_position_embeddings": 2048, "vocab_size": 2048,
    },
)  # fmt: skip
TINY_T5 = Shape(
    "tiny T5",
    "t5",
    {
        "d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4, "vocab_size": 4096,
        "n_positions": 512, "decoder_start_token_id": 0,
    },
)  # fmt: skip


def write_model(shape: Shape, folder: Path, device: str, dtype: str) -> int:
    """Write a model of this shape with seeded random weights, and the sandbox's tokenizer; returns its parameters.

    The tokenizer has 2,048 of the vocabulary's entries: prompts are real, but generated texts have no meaning.
    """
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

    config = AutoConfig.for_model(shape.model_type, **shape.keys, dtype=dtype)
    tokenizer = AutoTokenizer.from_pretrained(
        reference_model_path(ENCODER_DECODER if config.is_encoder_decoder else "l")
    )
    config.bos_token_id = config.pad_token_id = 0
    config.eos_token_id = shape.keys["vocab_size"] - 1
    auto: Any = AutoModelForCausalLM
    if config.is_encoder_decoder:
        auto, config.eos_token_id = AutoModelForSeq2SeqLM, tokenizer.eos_token_id
        tokenizer.add_tokens([SENTINEL])
    torch.manual_seed(0)
    with torch.device(device):
        model = auto.from_config(config, dtype=getattr(torch, dtype))
    for parameter in model.parameters():
        # T5 does not scale its attention, so it keeps the weights that it begins with
        if parameter.dim() > 1 and not config.is_encoder_decoder:
            parameter.data.normal_(0, 0.05)
    model.generation_config.eos_token_id = config.eos_token_id
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return int(sum(parameter.numel() for parameter in model.parameters()))


def peaks_of(chip: str) -> tuple[float, float] | None:
    """Peak bf16 operations and bytes per second of a chip, by its name; None if the chip is not listed."""
    return next((peaks for name, peaks in PEAKS.items() if name in chip), None)
