"""A checkpoint's own settings of decoding: which a study follows, and what they do to logits.

The reference is transformers' `generate(do_sample=False, num_beams=1, max_new_tokens=…)`, with which the papers
decoded: it follows a checkpoint's settings of tokens that are forced, forbidden, made likelier or less likely, and so
does a study. The study alone chooses how to search and how to sample (SPEC §3), whatever a checkpoint proposes. Like
`generate` it reads `generation_config.json`, and `config.json` only where there is none.

Each state is treated as `generate` treats a prompt that is alone: without padding. So states whose processors see
equally many tokens are treated together.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from longtail.errors import BackendError
from longtail.models.limits import first_line
from longtail.models.model_files import CONFIG, GENERATION, ModelFiles

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class _Seen:
    """What processors are told of a group of states.

    That is the prompts, how many tokens stand before a text, the place of its first free token, the length at which it
    ends, and the end tokens.
    """

    prompts: Any
    n_before: int
    first_free: int
    max_length: int
    ends: Any


FOLLOWED: Mapping[str, tuple[tuple[Any, ...], Callable[[Any, Any, _Seen], Any]]] = MappingProxyType({
    "sequence_bias": ((), lambda made, value, seen: made.SequenceBiasLogitsProcessor(value)),
    "encoder_repetition_penalty": (
        (1,), lambda made, value, seen: made.EncoderRepetitionPenaltyLogitsProcessor(value, seen.prompts)),
    "repetition_penalty": ((1,), lambda made, value, seen: made.RepetitionPenaltyLogitsProcessor(value)),
    "no_repeat_ngram_size": ((0,), lambda made, value, seen: made.NoRepeatNGramLogitsProcessor(value)),
    "encoder_no_repeat_ngram_size": (
        (0,), lambda made, value, seen: made.EncoderNoRepeatNGramLogitsProcessor(value, seen.prompts)),
    "bad_words_ids": (([],), lambda made, value, seen: made.NoBadWordsLogitsProcessor(value, seen.ends)),
    "min_length": ((0,), lambda made, value, seen: made.MinLengthLogitsProcessor(value, seen.ends)),
    "min_new_tokens": (
        (0,), lambda made, value, seen: made.MinNewTokensLengthLogitsProcessor(seen.n_before, value, seen.ends)),
    "forced_bos_token_id": ((), lambda made, value, seen: made.ForcedBOSTokenLogitsProcessor(value)),
    "forced_eos_token_id": (
        (), lambda made, value, seen: made.ForcedEOSTokenLogitsProcessor(seen.max_length, value, seen.ends.device)),
    "remove_invalid_values": ((False,), lambda made, value, seen: made.InfNanRemoveLogitsProcessor()),
    "exponential_decay_length_penalty": (
        (), lambda made, value, seen: made.ExponentialDecayLengthPenalty(value, seen.ends, seen.n_before)),
    "suppress_tokens": (
        ([],), lambda made, value, seen: made.SuppressTokensLogitsProcessor(value, seen.ends.device)),
    "begin_suppress_tokens": (
        ([],),
        lambda made, value, seen: made.SuppressTokensAtBeginLogitsProcessor(
            value, seen.first_free, seen.ends.device)),
})  # fmt: skip
"""Settings that change greedy texts, in the order in which `generate` applies them: with values that change nothing, and
the processor that `generate` makes of another value, by a class of `transformers.generation.logits_process` (`made`)."""
REFUSED: Mapping[str, tuple[Any, ...]] = MappingProxyType({
    "guidance_scale": (1,),
    "watermarking_config": (),
    "stop_strings": ([], ""),
    "token_healing": (False,),
})  # fmt: skip
"""Settings that `generate` follows and Longtail cannot."""
_END = "eos_token_id"
_NESTED = ("decoder", "generator", "text_config")
_MAX_SHOWN = 60


@dataclass(frozen=True)
class Settings:
    """What greedy decoding of a checkpoint follows, and the number format of its files.

    `dtype` is empty where no file says it.
    """

    followed: Mapping[str, Any]
    dtype: str

    @property
    def text(self) -> str:
        """The settings as rows and the row cache's keys state them; empty where none is followed."""
        return " ".join(f"{name}={_text_of(value)}" for name, value in sorted(self.followed.items()))


def read_settings(files: ModelFiles) -> Settings:
    """The settings of a checkpoint. Errors: `BackendError` where one is needed that Longtail cannot follow."""
    config = files.settings(CONFIG)
    named = _read_config(files, config)
    for name, idle in REFUSED.items():
        if _is_set(named.get(name), idle):
            raise files.refusal(
                f"its generation settings ask for {name}, which is not built; delete that key from "
                f"{_source(files)}, or ask a server that runs the model, by backend openai"
            )
    followed = {name: named[name] for name, (idle, _) in FOLLOWED.items() if _is_set(named.get(name), idle)}
    if "min_new_tokens" in followed:
        followed.pop("min_length", None)
    ends = _ids(named.get(_END))
    if ends and not _ids(config.get(_END)) <= ends:
        followed[_END] = sorted(ends)
    return Settings(MappingProxyType(followed), _dtype(config))


def _read_config(files: ModelFiles, config: Mapping[str, Any]) -> Mapping[str, Any]:
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
    values = named if isinstance(named, list) else [named]
    return frozenset(i for i in values if isinstance(i, int))


def _dtype(config: Mapping[str, Any]) -> str:
    """`dtype`, or `torch_dtype` as older files call it."""
    parts = [config, *(config[name] for name in _NESTED if isinstance(config.get(name), dict))]
    named = (part.get(key) for part in parts for key in ("dtype", "torch_dtype"))
    return next((name.removeprefix("torch.") for name in named if isinstance(name, str)), "")


def _text_of(value: Any) -> str:
    """The value as JSON; a long one as the beginning of its SHA-256."""
    text = json.dumps(value, separators=(",", ":"), sort_keys=True)
    if len(text) <= _MAX_SHOWN:
        return text
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()[:16]}"


_OF_PROMPT = ("encoder_repetition_penalty", "encoder_no_repeat_ngram_size")
_OF_ENDS = ("min_length", "min_new_tokens", "exponential_decay_length_penalty")
"""Settings that do nothing without an end token."""

Adjust = Callable[["torch.Tensor", Sequence[tuple[int, list[int]]]], "torch.Tensor"]
"""From logits, and each state's prompt (its place) and tokens so far, to the logits to choose from."""


class Rules:
    """The rules of one checkpoint; `start` is what its decoder begins with, empty for a decoder-only model."""

    def __init__(self, followed: Mapping[str, Any], end_ids: frozenset[int], start: Sequence[int]) -> None:
        self._names = [name for name in FOLLOWED if name in followed and (end_ids or name not in _OF_ENDS)]
        self._followed = followed
        self._ends = sorted(end_ids)
        self._start = list(start)
        self._sees_prompt = any(name in _OF_PROMPT for name in self._names)

    def check(self, model: str, n_tokens: int, device: Any) -> None:
        """Errors: `BackendError` where `generate` would not take a setting's value for this size of vocabulary."""
        import torch

        for name in self._names:
            alone = Rules({name: self._followed[name]}, frozenset(self._ends), self._start)
            try:
                for n_new in range(2):  # a forced end comes with the last token
                    logits = torch.zeros((1, n_tokens), device=device)
                    alone._process(logits, [([0], [0] * n_new)], 2)
            except Exception as error:  # whatever a processor raises on a value that it does not understand
                reason = first_line(error)
                raise BackendError(
                    f"model {model}: its generation settings give {name} a value that cannot be followed: {reason}"
                ) from error

    def adjust(self, prompts: Sequence[Sequence[int]], max_new_tokens: int) -> Adjust | None:
        """How logits of a batch over `prompts` are adjusted; None where no rule is followed."""
        if not self._names:
            return None

        def adjust_logits(logits: torch.Tensor, states: Sequence[tuple[int, list[int]]]) -> torch.Tensor:
            alike: dict[int, list[int]] = {}
            for row, (prompt, _) in enumerate(states):
                n = len(prompts[prompt]) if self._sees_prompt or not self._start else 0
                alike.setdefault(n, []).append(row)
            adjusted = logits.clone()
            for rows in alike.values():
                seen = [(prompts[states[row][0]], states[row][1]) for row in rows]
                adjusted[rows] = self._process(logits[rows], seen, max_new_tokens)
            return adjusted

        return adjust_logits

    def _process(
        self, logits: torch.Tensor, states: Sequence[tuple[Sequence[int], list[int]]], max_new_tokens: int
    ) -> torch.Tensor:
        """Logits of states, each a prompt and its tokens so far, all equally long."""
        import torch
        import transformers.generation.logits_process as made

        device = logits.device
        before = [self._start or list(prompt) for prompt, _ in states]
        written = [[*first, *tokens] for first, (_, tokens) in zip(before, states, strict=True)]
        ids = torch.tensor(written, dtype=torch.long, device=device)
        prompts = [list(prompt) for prompt, _ in states] if self._sees_prompt else [[]]
        n_before = len(before[0])
        is_begun = n_before == 1 and "forced_bos_token_id" in self._followed
        seen = _Seen(
            torch.tensor(prompts, dtype=torch.long, device=device),
            n_before,
            n_before + is_begun,
            n_before + max_new_tokens,
            torch.tensor(self._ends, dtype=torch.long, device=device),
        )
        for name in self._names:
            logits = FOLLOWED[name][1](made, self._followed[name], seen)(ids, logits)
        return logits
