"""The decoding loop over states: greedy answers and samples.

What belongs here: choosing tokens, forking, ending. What does not: the forward pass (`stepper`), scores of
given continuations (`scoring`), text, device batches.

One loop serves greedy decoding (one member per prompt) and sampling (one member per seed). Members of a prompt that
agree so far share one state. A step costs one forward pass, one transfer from the device, and little Python.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dagster_project.core.generation.backends.local.rules import Adjust
from dagster_project.core.generation.backends.local.stepper import Stepper

if TYPE_CHECKING:
    import numpy as np
    import torch

_CHUNK = 1 << 24
"""Probabilities that are cumulated at once, in float64."""


@dataclass(frozen=True)
class Ending:
    """When a state is done: `end_ids` end a text and are left out of it; `is_done` looks at the tokens so far."""

    max_new_tokens: int
    end_ids: frozenset[int]
    is_done: Callable[[list[int]], bool]


@dataclass
class _State:
    """Members of a prompt that agree so far, and the tokens that they agree in."""

    prompt: int
    members: list[int]
    tokens: list[int]


_Chooser = Callable[["torch.Tensor", list[_State], int], tuple[list[int], list[bool]]]
"""From logits, states and the number of the step: a token for each member of each state in turn, and for each
state whether its logits are finite."""


def decode_greedily(
    stepper: Stepper, n_prompts: int, ending: Ending, adjust: Adjust | None = None
) -> list[list[int] | None]:
    """The new tokens of each prompt, the end token left out; None where its logits are not finite.

    `adjust` is what the checkpoint's own settings do to logits, None for nothing.
    """
    states = [_State(prompt, [0], []) for prompt in range(n_prompts)]
    written = _decode(stepper, states, ending, adjust, _best)
    return [None if texts is None else texts[0] for texts in written]


def decode_samples(
    stepper: Stepper,
    ending: Ending,
    temperature: float,
    seeds: Sequence[Sequence[int]],
    adjust: Adjust | None = None,
) -> list[list[list[int]] | None]:
    """For each prompt the new tokens of one text per seed (at least one); None where its logits are not finite.

    Token t of a sample is the inverse of the cumulated probabilities, softmax(logits / temperature), at a
    number that depends on seed and t alone: the text is the same whatever else is in the batch.
    """
    distinct = [sorted(set(own)) for own in seeds]
    states = [_State(prompt, list(range(len(own))), []) for prompt, own in enumerate(distinct)]
    numbers = [[uniform_numbers(seed, ending.max_new_tokens) for seed in own] for own in distinct]

    def draw(logits: torch.Tensor, alive: list[_State], step: int) -> tuple[list[int], list[bool]]:
        drawn = [[numbers[state.prompt][member][step] for member in state.members] for state in alive]
        return _drawn(logits, temperature, drawn)

    written = _decode(stepper, states, ending, adjust, draw)
    found: list[list[list[int]] | None] = []
    for own, sought, texts in zip(distinct, seeds, written, strict=True):
        by_seed = dict(zip(own, texts or (), strict=False))
        found.append(None if texts is None else [by_seed[seed] for seed in sought])
    return found


def uniform_numbers(seed: int, n: int) -> np.ndarray:
    """The first `n` numbers of a seed, float64 in [0, 1): 53 bits each of SHAKE128 of the seed's digits."""
    import numpy as np

    stream = hashlib.shake_128(str(seed).encode()).digest(8 * n)
    return (np.frombuffer(stream, dtype="<u8") >> np.uint64(11)) * 2.0**-53


def _decode(
    stepper: Stepper, states: list[_State], ending: Ending, adjust: Adjust | None, choose: _Chooser
) -> list[list[list[int]] | None]:
    """The tokens of each member of each prompt; `states` are those of the prompts, in order."""
    texts: list[list[list[int]] | None] = [[state.tokens for _ in state.members] for state in states]
    logits = stepper.start()
    for step in range(ending.max_new_tokens):
        if adjust is not None:
            logits = adjust(logits, [(state.prompt, state.tokens) for state in states])
        tokens, finite = choose(logits, states, step)
        parents, new = _advance(texts, states, tokens, finite, ending)
        # where one sample fails, its prompt fails
        kept = [i for i, state in enumerate(new) if texts[state.prompt] is not None]
        states = [new[i] for i in kept]
        if not states or step == ending.max_new_tokens - 1:
            break
        logits = stepper.step([parents[i] for i in kept], [state.tokens[-1] for state in states])
    return texts


def _advance(
    texts: list[list[list[int]] | None],
    states: list[_State],
    tokens: list[int],
    finite: list[bool],
    ending: Ending,
) -> tuple[list[int], list[_State]]:
    """The states that go on, and their parents; writes what is new into `texts`."""
    parents: list[int] = []
    new: list[_State] = []
    place = 0
    for parent, state in enumerate(states):
        drawn = tokens[place : place + len(state.members)]
        place += len(state.members)
        if not finite[parent]:
            texts[state.prompt] = None
        own = texts[state.prompt]
        if own is None:
            continue
        for token, members in _forks(state.members, drawn):
            if token in ending.end_ids:
                continue
            longer = [*state.tokens, token]
            for member in members:
                own[member] = longer
            if not ending.is_done(longer):
                parents.append(parent)
                new.append(_State(state.prompt, members, longer))
    return parents, new


def _forks(members: list[int], drawn: list[int]) -> list[tuple[int, list[int]]]:
    """Members by the token that they drew."""
    if len(members) == 1:
        return [(drawn[0], members)]
    forks: dict[int, list[int]] = {}
    for member, token in zip(members, drawn, strict=True):
        forks.setdefault(token, []).append(member)
    return list(forks.items())


def _best(logits: torch.Tensor, states: list[_State], step: int) -> tuple[list[int], list[bool]]:
    """The most likely token of each state."""
    import torch

    best, tokens = logits.max(dim=-1)
    both = torch.stack([tokens, best.isfinite().long()]).tolist()
    return both[0], [bool(flag) for flag in both[1]]


def _drawn(
    logits: torch.Tensor, temperature: float, numbers: list[list[float]]
) -> tuple[list[int], list[bool]]:
    """For each of a state's numbers in [0, 1) a token; `numbers` has one list per state."""
    import numpy as np
    import torch

    counts = np.array([len(own) for own in numbers])
    widest = int(counts.max())
    grid = np.zeros((len(numbers), widest))
    inside = np.arange(widest) < counts[:, None]
    grid[inside] = np.concatenate([np.asarray(own) for own in numbers])
    at = torch.from_numpy(grid).to(logits.device)
    finite = logits.amax(dim=-1).isfinite()
    rows = max(1, _CHUNK // logits.shape[-1])
    found = [
        _inverse(part, temperature, own) for part, own in zip(logits.split(rows), at.split(rows), strict=True)
    ]
    both = torch.cat([torch.cat(found), finite[:, None].long()], dim=1).cpu().numpy()
    tokens: list[int] = both[:, :-1][inside].tolist()
    return tokens, both[:, -1].astype(bool).tolist()


def _inverse(logits: torch.Tensor, temperature: float, numbers: torch.Tensor) -> torch.Tensor:
    """Tokens (n, k) at which the cumulated probabilities of logits (n, vocabulary) first exceed numbers (n, k)."""
    import torch

    cumulated = (logits / temperature).softmax(dim=-1).cumsum(dim=-1, dtype=torch.float64)
    total = cumulated[:, -1:]
    found = torch.searchsorted(cumulated, numbers * total, right=True)
    # a number just below 1 may round to the total: the last token that has any probability
    last = torch.searchsorted(cumulated, total.contiguous())
    return torch.minimum(found, last).clamp_(max=logits.shape[-1] - 1)
