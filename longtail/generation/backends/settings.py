"""A checkpoint's own settings of decoding, and which of them a study follows: read from its files, without an engine.

The reference is transformers' `generate(do_sample=False, num_beams=1, max_new_tokens=…)`, with which the papers
decoded: it follows a checkpoint's settings of tokens that are forced, forbidden, made likelier or less likely, and so
does a study. The study alone chooses how to search and how to sample (SPEC §3), whatever a checkpoint proposes. Like
`generate` it reads `generation_config.json`, and `config.json` only where there is none.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from longtail.models.model_files import CONFIG, GENERATION, ModelFiles

FOLLOWED: Mapping[str, tuple[Any, ...]] = MappingProxyType({
    "sequence_bias": (),
    "encoder_repetition_penalty": (1,),
    "repetition_penalty": (1,),
    "no_repeat_ngram_size": (0,),
    "encoder_no_repeat_ngram_size": (0,),
    "bad_words_ids": ([],),
    "min_length": (0,),
    "min_new_tokens": (0,),
    "forced_bos_token_id": (),
    "forced_eos_token_id": (),
    "remove_invalid_values": (False,),
    "exponential_decay_length_penalty": (),
    "suppress_tokens": ([],),
    "begin_suppress_tokens": ([],),
})  # fmt: skip
"""Settings that change greedy texts, in the order in which `generate` applies them, with values that change nothing."""
REFUSED: Mapping[str, tuple[Any, ...]] = MappingProxyType({
    "guidance_scale": (1,),
    "watermarking_config": (),
    "stop_strings": ([], ""),
    "token_healing": (False,),
})  # fmt: skip
"""Settings that `generate` follows and Longtail cannot."""
SEARCH: Mapping[str, tuple[Any, ...]] = MappingProxyType({
    "do_sample": (False,),
    "num_beams": (1,),
    "num_beam_groups": (1,),
    "penalty_alpha": (0,),
    "dola_layers": (),
    "constraints": ([],),
    "force_words_ids": ([],),
    "prompt_lookup_num_tokens": (0,),
    "use_mtp": (False,),
})  # fmt: skip
"""Other ways to search than the study's; they are left aside."""
_END = "eos_token_id"
_NESTED = ("decoder", "generator", "text_config")
_MAX_SHOWN = 60


@dataclass(frozen=True)
class Settings:
    """What greedy decoding of a checkpoint follows, what is left aside, and the number format of its files.

    `dtype` is empty where no file says it.
    """

    followed: Mapping[str, Any]
    left_aside: tuple[str, ...]
    dtype: str

    @property
    def text(self) -> str:
        """The settings as rows and the row cache's keys state them; empty where none is followed."""
        return " ".join(f"{name}={_shown(value)}" for name, value in sorted(self.followed.items()))


def read_settings(files: ModelFiles) -> Settings:
    """The settings of a checkpoint. Errors: `BackendError` where one is needed that Longtail cannot follow."""
    config = files.settings(CONFIG)
    named = _named(files, config)
    for name, idle in REFUSED.items():
        if _is_set(named.get(name), idle):
            raise files.refusal(
                f"its generation settings ask for {name}, which is not built; delete that key from "
                f"{_source(files)}, or ask a server that runs the model, by backend openai"
            )
    followed = {name: named[name] for name, idle in FOLLOWED.items() if _is_set(named.get(name), idle)}
    if "min_new_tokens" in followed:
        followed.pop("min_length", None)
    ends = _ids(named.get(_END))
    if ends and not _ids(config.get(_END)) <= ends:
        followed[_END] = sorted(ends)
    left = tuple(name for name, idle in SEARCH.items() if _is_set(named.get(name), idle))
    return Settings(MappingProxyType(followed), left, _dtype(config))


def _named(files: ModelFiles, config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings where `generate` looks for them: in the parts of a configuration where the whole has none."""
    if dict(files.paths).get(GENERATION):
        return files.settings(GENERATION)
    parts = [config[name] for name in _NESTED if isinstance(config.get(name), dict)]
    inner: Mapping[str, Any] = next((part for part in parts if part), {})
    return {**inner, **{name: value for name, value in config.items() if value is not None}}


def _source(files: ModelFiles) -> str:
    return GENERATION if GENERATION in dict(files.paths) else CONFIG


def _is_set(value: Any, idle: tuple[Any, ...]) -> bool:
    return value is not None and value not in idle


def _ids(named: Any) -> frozenset[Any]:
    found = named if isinstance(named, list) else [named]
    return frozenset(i for i in found if isinstance(i, int))


def _dtype(config: Mapping[str, Any]) -> str:
    """`dtype`, or `torch_dtype` as older files call it."""
    parts = [config, *(config[name] for name in _NESTED if isinstance(config.get(name), dict))]
    named = (part.get(key) for part in parts for key in ("dtype", "torch_dtype"))
    return next((name.removeprefix("torch.") for name in named if isinstance(name, str)), "")


def _shown(value: Any) -> str:
    """The value as JSON; a long one as the beginning of its SHA-256."""
    text = json.dumps(value, separators=(",", ":"), sort_keys=True)
    if len(text) <= _MAX_SHOWN:
        return text
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()[:16]}"
