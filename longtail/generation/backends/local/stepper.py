"""What the decoding loop asks of a model in memory: logits after prompts, then after one more token each.

A *state* is one distinct (prompt, tokens generated so far). Samples or candidates of a prompt that agree so
far share one state, and with it the step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import torch


class Stepper(Protocol):
    """One device batch under way. `start` is called once, before all `step`s.

    Runs under `torch.inference_mode`, which the caller enters. Out of memory may be raised by any call.
    """

    shared_tokens: list[int]
    """For each prompt how many of its tokens were not computed for it; known after `start`."""

    def start(self) -> torch.Tensor:
        """Logits after each prompt: float32 (n_prompts, vocabulary). State i of the first step is prompt i."""
        ...

    def step(self, parents: Sequence[int], tokens: Sequence[int]) -> torch.Tensor:
        """New state i continues state `parents[i]` of the call before by `tokens[i]`.

        A parent may be named several times (a fork) or never (it is done). `parents` never falls, so that the states
        of one prompt stay together. Logits of the new states: float32 (n_states, vocabulary).
        """
        ...


class Steppers(Protocol):
    """A loaded model, ready to open batches. The choice is made once per model."""

    def batches(
        self, prompts: Sequence[Sequence[int]], new_tokens: Sequence[int], budget: int
    ) -> list[list[int]]:
        """Indices of `prompts` in device batches of about `budget` tokens at most (a batch of one may exceed it).

        `new_tokens`: for each prompt the generated tokens that all its states together may hold at once.
        """
        ...

    def open(self, prompts: Sequence[Sequence[int]]) -> Stepper:
        """A batch over distinct prompts, each of at least one token id, at most the model's length."""
        ...

    def forget(self) -> None:
        """Drop what is kept for later batches."""
        ...
