"""What a checkpoint's own settings do to logits before a token is chosen, by transformers' own processors.

Each state is treated as `generate` treats a prompt that is alone: without padding. So states whose processors see
equally many tokens are treated together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from longtail.errors import BackendError
from longtail.generation.backends.settings import FOLLOWED

if TYPE_CHECKING:
    import torch

_OF_PROMPT = ("encoder_repetition_penalty", "encoder_no_repeat_ngram_size")
_OF_ENDS = ("min_length", "min_new_tokens", "exponential_decay_length_penalty")
"""Settings that do nothing without an end token."""

Adjust = Callable[["torch.Tensor", Sequence[tuple[int, list[int]]]], "torch.Tensor"]
"""From logits, and each state's prompt (its place) and tokens so far, to the logits to choose from."""


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
                    alone._processed(logits, [([0], [0] * n_new)], 2)
            except (
                Exception
            ) as error:  # a processor may raise anything on a value that it does not understand
                reason = next(iter(str(error).splitlines()), type(error).__name__)
                raise BackendError(
                    f"model {model}: its generation settings give {name} a value that cannot be followed: {reason}"
                ) from error

    def adjust(self, prompts: Sequence[Sequence[int]], max_new_tokens: int) -> Adjust | None:
        """How logits of a batch over `prompts` are adjusted; None where no rule is followed."""
        if not self._names:
            return None

        def adjusted(logits: torch.Tensor, states: Sequence[tuple[int, list[int]]]) -> torch.Tensor:
            alike: dict[int, list[int]] = {}
            for row, (prompt, _) in enumerate(states):
                n = len(prompts[prompt]) if self._sees_prompt or not self._start else 0
                alike.setdefault(n, []).append(row)
            found = logits.clone()
            for rows in alike.values():
                seen = [(prompts[states[row][0]], states[row][1]) for row in rows]
                found[rows] = self._processed(logits[rows], seen, max_new_tokens)
            return found

        return adjusted

    def _processed(
        self, logits: torch.Tensor, states: Sequence[tuple[Sequence[int], list[int]]], max_new_tokens: int
    ) -> torch.Tensor:
        """Logits of states, each a prompt and its tokens so far, all equally long."""
        import torch

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
            logits = _processor(name, self._followed[name], seen)(ids, logits)
        return logits


def _processor(name: str, value: Any, seen: _Seen) -> Callable[[Any, Any], torch.Tensor]:
    """The processor that `generate` makes of a setting."""
    import transformers.generation.logits_process as made

    device = seen.ends.device
    builders: dict[str, Callable[[], Any]] = {
        "sequence_bias": lambda: made.SequenceBiasLogitsProcessor(value),
        "encoder_repetition_penalty": lambda: made.EncoderRepetitionPenaltyLogitsProcessor(
            value, seen.prompts
        ),
        "repetition_penalty": lambda: made.RepetitionPenaltyLogitsProcessor(value),
        "no_repeat_ngram_size": lambda: made.NoRepeatNGramLogitsProcessor(value),
        "encoder_no_repeat_ngram_size": lambda: made.EncoderNoRepeatNGramLogitsProcessor(value, seen.prompts),
        "bad_words_ids": lambda: made.NoBadWordsLogitsProcessor(value, seen.ends),
        "min_length": lambda: made.MinLengthLogitsProcessor(value, seen.ends),
        "min_new_tokens": lambda: made.MinNewTokensLengthLogitsProcessor(seen.n_before, value, seen.ends),
        "forced_bos_token_id": lambda: made.ForcedBOSTokenLogitsProcessor(value),
        "forced_eos_token_id": lambda: made.ForcedEOSTokenLogitsProcessor(seen.max_length, value, device),
        "remove_invalid_values": made.InfNanRemoveLogitsProcessor,
        "exponential_decay_length_penalty": lambda: made.ExponentialDecayLengthPenalty(
            value, seen.ends, seen.n_before
        ),
        "suppress_tokens": lambda: made.SuppressTokensLogitsProcessor(value, device),
        "begin_suppress_tokens": lambda: made.SuppressTokensAtBeginLogitsProcessor(
            value, seen.first_free, device
        ),
    }
    return builders[name]()
