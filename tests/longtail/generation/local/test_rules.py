"""Settings that a checkpoint carries: every answer equals `generate`'s, or the model is refused in one line."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import texts, tiny

from longtail.errors import BackendError
from longtail.generation.backends.base import Decoding, Identity, identify
from longtail.generation.backends.hf import TransformersBackend
from longtail.generation.backends.local.rules import FOLLOWED, REFUSED
from longtail.generation.engine.row_cache import row_key
from longtail.generation.engine.task import Request
from longtail.study.models import Model

PROMPTS = [f"Q: {'abc de ' * (i % 5)}{i} A:" for i in range(9)]
DECODING = Decoding(8)
ENDS = list(range(5, 420, 3))
"""So many that texts end early; 1 and 0, the end tokens of config.json, are none of them."""
VALUES: dict[str, Any] = {
    "sequence_bias": [[[i], 9.0] for i in range(20, 60)],
    "encoder_repetition_penalty": 1.7,
    "repetition_penalty": 1.7,
    "no_repeat_ngram_size": 1,
    "encoder_no_repeat_ngram_size": 1,
    "bad_words_ids": [[i] for i in range(5, 400, 3)] + [[i, i + 1] for i in range(5, 400)],
    "min_length": 200,
    "min_new_tokens": 5,
    "forced_bos_token_id": 40,
    "forced_eos_token_id": 1,
    "remove_invalid_values": True,
    "exponential_decay_length_penalty": [2, 1.9],
    "suppress_tokens": list(range(20, 300, 2)),
    "begin_suppress_tokens": list(range(20, 400, 2)),
}
IDLE = {
    **{name: idle[0] for name, (idle, _) in FOLLOWED.items() if idle},
    **{name: idle[0] for name, idle in REFUSED.items() if idle},
    "repetition_penalty": 1.0,
}
BEHIND_A_START = (
    "encoder_repetition_penalty", "encoder_no_repeat_ngram_size", "forced_bos_token_id", "forced_eos_token_id",
    "begin_suppress_tokens", "min_new_tokens",
)  # fmt: skip
"""Settings that see the prompt, or count from the decoder's start."""
OLD_KEY = "afbdf8879cfd61a48a20e201b5de601c706b5eb68c1c1707f1f19550309bc450"


@pytest.fixture
def carrying(folders: dict[str, Path], tmp_path: Path) -> Any:
    """A model's folder whose files carry settings."""

    def carry(architecture: str, file: str = "generation_config.json", **settings: Any) -> Path:
        folder = tmp_path / f"{architecture}-{len(list(tmp_path.iterdir()))}"
        shutil.copytree(folders[architecture], folder)
        there = json.loads((folder / file).read_text())
        (folder / file).write_text(json.dumps({**there, **settings}))
        if file == "config.json":
            (folder / "generation_config.json").unlink()
        return folder

    return carry


def named(folder: Path) -> Model:
    return tiny(folder, batch_tokens=300, encoder_decoder=folder.name.startswith("bart"))


def answers(folder: Path) -> list[str]:
    return texts(TransformersBackend(named(folder)).generate(PROMPTS, DECODING))


def generated(folder: Path, architecture: str) -> list[str]:
    """Texts by `generate`, a prompt at a time, up to the end token."""
    import transformers

    auto = transformers.AutoModelForSeq2SeqLM if architecture == "bart" else transformers.AutoModelForCausalLM
    model = auto.from_pretrained(folder, dtype=torch.float32)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    named = model.generation_config.eos_token_id
    ends = named if isinstance(named, list) else [named]
    found = []
    for prompt in PROMPTS:
        ids = tokenizer(prompt, return_tensors="pt")["input_ids"]
        mask = torch.ones_like(ids)
        out = model.generate(
            ids, attention_mask=mask, max_new_tokens=8, do_sample=False, num_beams=1, pad_token_id=0
        )
        new = out[0, 1 if architecture == "bart" else ids.shape[1] :].tolist()
        kept = new[:-1] if new and new[-1] in ends else new
        found.append(tokenizer.decode(kept, skip_special_tokens=True, clean_up_tokenization_spaces=False))
    return found


def is_beginning(ours: list[str], theirs: list[str]) -> bool:
    """Whether each of our texts is `generate`'s, or its beginning with a complete first line."""
    pairs = list(zip(ours, theirs, strict=True))
    return all(a == b or (b.startswith(a) and "\n" in a) for a, b in pairs)


def test_every_setting_that_changes_texts_is_tried() -> None:
    assert set(VALUES) == set(FOLLOWED)


@pytest.mark.parametrize(
    ("setting", "architecture"),
    [
        *((name, "gpt2") for name in VALUES),
        *((name, "bart") for name in BEHIND_A_START),
        ("no_repeat_ngram_size", "mistral"),
    ],
)
def test_answers_equal_generate(
    carrying: Any, folders: dict[str, Path], setting: str, architecture: str
) -> None:
    ends = {"eos_token_id": ENDS} if setting.startswith(("min_", "exponential")) else {}
    folder = carrying(architecture, **{setting: VALUES[setting]}, **ends)
    assert is_beginning(answers(folder), generated(folder, architecture))
    assert setting in identify(named(folder)).rules


@pytest.mark.parametrize("setting", ["forced_eos_token_id", "suppress_tokens", "repetition_penalty"])
def test_settings_change_answers(carrying: Any, folders: dict[str, Path], setting: str) -> None:
    assert answers(carrying("bart", **{setting: VALUES[setting]})) != answers(folders["bart"])


def test_without_generation_settings_those_of_the_configuration_count(carrying: Any) -> None:
    both = {"forced_bos_token_id": 2, "forced_eos_token_id": 1, "no_repeat_ngram_size": 1}
    folder = carrying("bart", "config.json", **both)
    assert is_beginning(answers(folder), generated(folder, "bart"))
    assert (
        identify(named(folder)).rules == "forced_bos_token_id=2 forced_eos_token_id=1 no_repeat_ngram_size=1"
    )
    silent = carrying("bart", **dict.fromkeys(both))
    config = silent / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), **both}))
    assert is_beginning(answers(silent), generated(silent, "bart"))
    assert identify(named(silent)).rules == ""


def test_end_tokens_are_those_of_the_generation_settings(carrying: Any) -> None:
    folder = carrying("gpt2", eos_token_id=ENDS)
    assert is_beginning(answers(folder), generated(folder, "gpt2"))
    assert identify(named(folder)).rules.startswith("eos_token_id=sha256:")
    assert identify(named(carrying("gpt2", eos_token_id=[0, 7]))).rules == ""


def test_samples_follow_the_settings_too(carrying: Any) -> None:
    rest = [i for i in range(420) if i not in (0, 70, 71)]
    backend = TransformersBackend(
        named(carrying("gpt2", suppress_tokens=rest, min_new_tokens=7, forced_eos_token_id=0))
    )
    (found,) = backend.sample(PROMPTS[:1], Decoding(8, 2.0), [range(20)])
    assert isinstance(found, list)
    letters = {backend._loaded.tokenizer.decode([i]) for i in (70, 71)}
    assert {sample.new_tokens for sample in found} == {7}
    assert {letter for sample in found for letter in sample.text} == letters


@pytest.mark.parametrize("setting", REFUSED)
def test_a_setting_that_cannot_be_followed_is_refused(carrying: Any, setting: str) -> None:
    value = {"guidance_scale": 1.5, "watermarking_config": {}, "stop_strings": ["a"], "token_healing": True}
    with pytest.raises(BackendError) as caught:
        identify(named(carrying("gpt2", **{setting: value[setting]})))
    assert f"ask for {setting}, which is not built; delete that key from generation_config.json" in str(
        caught.value
    )


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("repetition_penalty", "1.2"),
        ("forced_eos_token_id", 10**6),
        ("bad_words_ids", [[10**6]]),
        ("begin_suppress_tokens", ["a"]),
        ("sequence_bias", {"a": 1}),
        ("no_repeat_ngram_size", -1),
    ],
)
def test_a_value_that_makes_no_sense_is_refused(carrying: Any, setting: str, value: Any) -> None:
    with pytest.raises(BackendError) as caught:
        TransformersBackend(named(carrying("gpt2", **{setting: value})))
    assert "\n" not in str(caught.value)
    assert setting in str(caught.value)


def test_idle_settings_and_ways_to_search_leave_texts_and_keys_alone(
    carrying: Any, folders: dict[str, Path]
) -> None:
    search = {"do_sample": True, "temperature": 0.6, "top_p": 0.9, "num_beams": 4, "max_length": 50}
    folder = carrying("gpt2", **{**IDLE, **search})
    assert answers(folder) == answers(folders["gpt2"])
    assert identify(named(folder)).rules == ""


def test_settings_that_are_followed_are_in_the_key_and_no_others() -> None:
    plain = Identity("r", "float32", "none", "transformers", "5")
    ruled = Identity("r", "float32", "none", "transformers", "5", "forced_eos_token_id=2")
    assert row_key("a", plain, Request(Decoding(8))) != row_key("a", ruled, Request(Decoding(8)))
    assert ruled.decoding(DECODING) == "v1 greedy first_line max_new_tokens=8 forced_eos_token_id=2"
    # as earlier versions wrote it: their rows stay
    assert row_key("a" * 64, plain, Request(Decoding(15))).hex() == OLD_KEY


def test_every_setting_of_this_transformers_is_known() -> None:
    from transformers import GenerationConfig

    harmless = {
        "bos_token_id", "cache_config", "cache_implementation", "compile_config", "continuous_batching_config",
        "decoder_start_token_id", "disable_compile", "eos_token_id", "low_memory", "max_cache_len", "output_attentions",
        "output_hidden_states", "output_logits", "output_scores", "pad_token_id", "prefill_chunk_size",
        "return_dict_in_generate", "transformers_version", "use_cache", "_from_model_config",
    }  # fmt: skip
    of_samples = {
        "temperature", "top_k", "top_p", "min_p", "top_h", "typical_p", "epsilon_cutoff", "eta_cutoff",
        "renormalize_logits",
    }  # fmt: skip
    of_search = {
        "do_sample", "num_beams", "num_beam_groups", "penalty_alpha", "dola_layers", "constraints", "force_words_ids",
        "prompt_lookup_num_tokens", "use_mtp",
        "max_length", "max_new_tokens", "max_time", "early_stopping", "length_penalty", "diversity_penalty",
        "num_return_sequences", "is_assistant", "num_assistant_tokens", "num_assistant_tokens_schedule",
        "assistant_confidence_threshold", "assistant_early_exit", "assistant_lookbehind", "target_lookbehind",
        "assistant_ensemble_weight", "speculation_type", "max_matching_ngram_size",
    }  # fmt: skip
    known = {*FOLLOWED, *REFUSED, *harmless, *of_samples, *of_search}
    assert set(GenerationConfig().to_dict()) <= known


def test_files_of_another_number_format_answer_in_the_studys(
    folders: dict[str, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from transformers import AutoModelForCausalLM

    folder = Path(shutil.copytree(folders["gpt2"], tmp_path / "half"))
    AutoModelForCausalLM.from_pretrained(folder).half().save_pretrained(folder)
    with caplog.at_level(logging.INFO):
        assert is_beginning(answers(folder), generated(folder, "gpt2"))
    assert "tiny: its files are float16; it answers in float32, the study's dtype" in caplog.text
    assert identify(named(folder)).dtype == "float32"
