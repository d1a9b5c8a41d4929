"""Causal language models of four architectures with random weights and a byte-level tokenizer, for tests."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

ARCHITECTURES = ("llama", "gpt2", "gpt_neox", "opt")
LENGTH = 96


def save_tiny_model(folder: Path, architecture: str, seed: int = 0) -> Path:
    """Write model and tokenizer; at most 96 tokens, and about one token in six holds a line end."""
    import torch
    from transformers import AutoModelForCausalLM

    tokenizer = _tokenizer()
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(_config(architecture, len(tokenizer)))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(0, 0.3)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _config(architecture: str, vocabulary: int) -> Any:
    import transformers

    common: dict[str, Any] = {
        "vocab_size": vocabulary,
        "bos_token_id": 0,
        "eos_token_id": 0,
        "pad_token_id": 0,
    }
    wide = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "max_position_embeddings": LENGTH,
    }
    if architecture == "llama":
        return transformers.LlamaConfig(**common, **wide, intermediate_size=48, num_key_value_heads=2)
    if architecture == "gpt2":
        return transformers.GPT2Config(**common, n_embd=32, n_layer=2, n_head=4, n_positions=LENGTH)
    if architecture == "gpt_neox":
        return transformers.GPTNeoXConfig(**common, **wide, intermediate_size=48)
    return transformers.OPTConfig(**common, **wide, ffn_dim=48, word_embed_proj_dim=32)


def _tokenizer() -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    draw = random.Random(1)
    text = ["".join(draw.choice("abcdefgh \n\n.:QA") for _ in range(40)) for _ in range(300)]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=420, special_tokens=["<eos>"], initial_alphabet=alphabet)
    tokenizer.train_from_iterator(text, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single="<eos> $A", special_tokens=[("<eos>", 0)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<eos>", eos_token="<eos>")


def save_tiny_classifier(folder: Path) -> Path:
    """Write a classifier of three labels, the last of which is entailment, with random weights, and its tokenizer."""
    import torch
    import transformers

    tokenizer = _tokenizer()
    tokenizer.pad_token = tokenizer.eos_token
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        max_position_embeddings=LENGTH,
        id2label={0: "contradiction", 1: "neutral", 2: "ENTAILMENT"},
    )
    model = transformers.BertForSequenceClassification(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(0, 0.3)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
