"""Tiny models with random weights and byte-level tokenizers, for tests."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from longtail.generation.backends.base import Failure, Generation
from longtail.study.models import Model

LENGTH = 96
_HIDDEN: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": LENGTH,
}
_GROUPED = {**_HIDDEN, "num_key_value_heads": 2}
_T5: dict[str, Any] = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_heads": 4, "decoder_start_token_id": 0}
_BART: dict[str, Any] = {
    "d_model": 32,
    "encoder_layers": 3,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": LENGTH,
    "decoder_start_token_id": 1,
    "forced_eos_token_id": None,
}


def _config(name: str, **keys: Any) -> Callable[[dict[str, Any]], Any]:
    def build(common: dict[str, Any]) -> Any:
        import transformers

        return getattr(transformers, f"{name}Config")(**common, **keys)

    return build


PLAIN = {
    "llama": _config("Llama", **_GROUPED),
    "gpt2": _config("GPT2", n_embd=32, n_layer=2, n_head=4, n_positions=LENGTH),
    "gpt_neox": _config("GPTNeoX", **_HIDDEN),
    "opt": _config(
        "OPT", hidden_size=32, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=LENGTH,
        ffn_dim=48, word_embed_proj_dim=32,
    ),
}  # fmt: skip
"""Causal models for the packed path, whose one special token is `<eos>`."""
ARCHITECTURES = tuple(PLAIN)
ENCODER_DECODERS = {
    "t5": _config("T5", **_T5, num_layers=2, n_positions=64),
    "t5_deep_decoder": _config("T5", **_T5, num_layers=1, num_decoder_layers=3),
    "mt5": _config("MT5", **_T5, num_layers=2),
    "bart": _config("Bart", **_BART),
    "bart_forced": _config("Bart", **_BART),
}
COPIED = {"longt5": _config("LongT5", **_T5, num_layers=2, local_radius=4)}
"""Encoder-decoders whose cross-attention takes no shared rows."""
ODD_CAUSAL = {
    "mistral": _config("Mistral", **_GROUPED, sliding_window=6),
    "gemma2": _config("Gemma2", **_GROUPED, head_dim=8, sliding_window=6, query_pre_attn_scalar=8),
    "bloom": _config("Bloom", hidden_size=32, n_layer=2, n_head=4),
    "gpt_oss": _config(
        "GptOss", **_GROUPED, head_dim=8, sliding_window=6, num_local_experts=4, num_experts_per_tok=2
    ),
    "mamba": _config("Mamba", hidden_size=32, num_hidden_layers=2, state_size=4),
}
UNFIT = {"rwkv": _config("Rwkv", hidden_size=32, num_hidden_layers=2, context_length=LENGTH)}
"""Causal models that no path fits."""


def tiny(path: Path | str, **keys: Any) -> Model:
    """A study's model in this folder, on the CPU."""
    return Model(**{"name": "tiny", "path": str(path), "device": "cpu", **keys})


def texts(results: Iterable[Generation | Failure]) -> list[str]:
    """The texts of those that are no failures."""
    return [result.text for result in results if isinstance(result, Generation)]


def save_tiny_model(folder: Path, architecture: str, seed: int = 0) -> Path:
    """Write model and tokenizer. Ids but of `PLAIN` ones: pad 0, end 1, begin 2, `<extra_id_0>` 3."""
    import torch
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

    causal = {**PLAIN, **ODD_CAUSAL, **UNFIT}
    if architecture in PLAIN:
        tokenizer = build_tokenizer("<eos> $A", ["<eos>"], bos_token="<eos>", eos_token="<eos>")
        ids = {"pad_token_id": 0, "eos_token_id": 0, "bos_token_id": 0}
    else:
        tokenizer = build_tokenizer(
            "$A" if architecture in causal else "$A </s>", ["<pad>", "</s>", "<s>", "<extra_id_0>"],
            eos_token="</s>", extra_special_tokens=["<extra_id_0>"],
        )  # fmt: skip
        ids = {"pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 2}
    ids["vocab_size"] = len(tokenizer)
    torch.manual_seed(seed)
    if architecture in causal:
        model = AutoModelForCausalLM.from_config(causal[architecture](ids))
    else:
        model = AutoModelForSeq2SeqLM.from_config({**ENCODER_DECODERS, **COPIED}[architecture](ids))
    draw_weights(model, 0.15 if architecture == "gemma2" else 0.3)
    model.generation_config.forced_bos_token_id = 2 if architecture == "bart_forced" else None
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def assert_forks_are_exact(
    stepper: Any, prompts: Sequence[list[int]], plain: Callable[[list[int], list[int]], Any], tolerance: float
) -> None:
    """Random forks and ends of a batch; `plain`: the logits after a prompt and the tokens behind it, by one pass."""
    import torch

    drawn = torch.Generator().manual_seed(3)
    with torch.inference_mode():
        found = stepper.start()
        states: list[tuple[int, list[int]]] = [(i, []) for i in range(len(prompts))]
        for width in (6, 14, 9, 9, 4, 3, 3, 1):
            for (prompt, tokens), logits in zip(states, found, strict=True):
                expected = plain(prompts[prompt], tokens)
                torch.testing.assert_close(logits, expected, atol=tolerance, rtol=tolerance)
            parents = sorted(torch.randint(len(states), (width,), generator=drawn).tolist())
            new = torch.randint(300, (width,), generator=drawn).tolist()
            states = [(states[p][0], [*states[p][1], t]) for p, t in zip(parents, new, strict=True)]
            found = stepper.step(parents, new)


def draw_weights(model: Any, spread: float) -> None:
    """Draw the matrices of a model anew."""
    import torch

    with torch.no_grad():
        for name, parameter in model.named_parameters():
            # Mamba's decay is set, not drawn: random ones overflow
            if parameter.ndim > 1 and not name.endswith("A_log"):
                parameter.normal_(0, spread)


def build_tokenizer(template: str, special: list[str], **names: Any) -> Any:
    """Byte-level, special tokens by the template; about one token in six holds a line end."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    draw = random.Random(1)
    text = ["".join(draw.choice("abcdefgh \n\n.:QA") for _ in range(40)) for _ in range(300)]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=420, special_tokens=special, initial_alphabet=alphabet)
    tokenizer.train_from_iterator(text, trainer)
    end = names["eos_token"]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=template, special_tokens=[(end, special.index(end))]
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)


def save_tiny_classifier(folder: Path) -> Path:
    """Write a classifier of three labels, the last of which is entailment, with random weights, and its tokenizer."""
    import torch
    import transformers

    tokenizer = build_tokenizer("<eos> $A", ["<eos>"], bos_token="<eos>", eos_token="<eos>")
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
    draw_weights(model, 0.3)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
