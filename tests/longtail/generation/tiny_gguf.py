"""A tiny GGUF file with random weights, written by package `gguf` as llama.cpp's converter writes a Llama."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

_BLOCK = 32
"""Weights that Q8_0 stores together; a matrix whose rows are no multiple of it stays as it is."""
TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"


def write_tiny_gguf(path: Path, source: Path, architecture: str = "llama") -> dict[str, np.ndarray]:
    """Write the Llama in folder `source` with its matrices rounded to Q8_0.

    Returns the rounded weights under their names in `source`.
    """
    import gguf

    config = json.loads((source / "config.json").read_text())
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_name("tiny")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])
    _add_tokenizer(writer, json.loads((source / "tokenizer.json").read_text())["model"])
    rounded = _add_weights(writer, source, config)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return rounded


def _add_tokenizer(writer: Any, words: dict[str, Any]) -> None:
    vocabulary: dict[str, int] = words["vocab"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(sorted(vocabulary, key=vocabulary.__getitem__))
    writer.add_token_types(
        [3 if word == "<eos>" else 1 for word in sorted(vocabulary, key=vocabulary.__getitem__)]
    )
    writer.add_token_merges([" ".join(pair) for pair in words["merges"]])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)
    writer.add_add_bos_token(False)
    writer.add_chat_template(TEMPLATE)


def _add_weights(writer: Any, source: Path, config: dict[str, Any]) -> dict[str, np.ndarray]:
    import gguf
    from safetensors.numpy import load_file

    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config["num_hidden_layers"])
    heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
    rounded = {}
    for name, weight in load_file(source / "model.safetensors").items():
        own = names.get_name(name, try_suffixes=(".weight",))
        if weight.shape[-1] % _BLOCK or weight.ndim == 1:
            rounded[name] = weight
            writer.add_tensor(own, weight)
            continue
        blocks = gguf.quants.quantize(weight, gguf.GGMLQuantizationType.Q8_0)
        rounded[name] = gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType.Q8_0)
        n_heads = next((n for key, n in heads.items() if key in name), None)
        if n_heads:  # llama.cpp pairs the dimensions of rotary positions in another order
            half = weight.shape[0] // n_heads // 2
            blocks = blocks.reshape(n_heads, 2, half, -1).swapaxes(1, 2).reshape(blocks.shape)
        writer.add_tensor(own, blocks, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    return rounded
