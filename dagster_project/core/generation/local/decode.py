"""The decoding loop over states: greedy answers, samples, and scores of given continuations.

What belongs here: choosing tokens, forking, ending. What does not: the forward pass (`stepper`), text,
device batches.

One loop serves greedy decoding (one member a prompt) and sampling (a member a seed); members of a prompt that
agree so far share one state. A step costs one forward pass, one transfer from the device, and little Python.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dagster_project.core.generation.local.stepper import Stepper


@dataclass(frozen=True)
class Ending:
    """When a state is done: `end_ids` end a text and are left out of it; `is_done` looks at the tokens so far."""

    max_new_tokens: int
    end_ids: frozenset[int]
    is_done: Callable[[Sequence[int]], bool]


def decode_greedily(stepper: Stepper, ending: Ending) -> list[list[int] | None]:
    """The new tokens of each prompt, the end token left out; None where its logits are not finite."""
    raise NotImplementedError


def decode_samples(
    stepper: Stepper, ending: Ending, temperature: float, seeds: Sequence[Sequence[int]]
) -> list[list[list[int]] | None]:
    """For each prompt the new tokens of one text a seed; None where its logits are not finite."""
    raise NotImplementedError


@dataclass(frozen=True)
class Continuation:
    """Token ids to force after a prompt; the first `n_unscored` belong to the prompt and are not scored."""

    tokens: tuple[int, ...]
    n_unscored: int = 0


def score_continuations(
    stepper: Stepper, continuations: Sequence[Sequence[Continuation]]
) -> list[list[float] | None]:
    """For each prompt the sum of natural log-probabilities of each continuation; None where not finite."""
    raise NotImplementedError
