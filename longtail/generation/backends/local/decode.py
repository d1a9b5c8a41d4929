"""The decoding loop over states: greedy answers and samples.

One loop serves greedy decoding (one member per prompt) and sampling (one member per seed). Members of a prompt that
agree so far share one state. A step costs one forward pass, one transfer from the device, and little Python. Each token
is kept with its score.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from longtail.generation.backends.local.confidence import TokenScore, token_scores
from longtail.generation.backends.local.rules import Adjust
from longtail.generation.backends.local.stepper import Stepper

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


class Written(NamedTuple):
    """The new tokens of one text, the end token left out, and the score of each."""

    tokens: list[int]
    scores: list[TokenScore]


@dataclass
class _State:
    """Members of a prompt that agree so far, and what they agree in."""

    prompt: int
    members: list[int]
    written: Written


class _Chosen(NamedTuple):
    """For each member of each state in turn: its token, the score, and whether the state's logits are finite."""

    tokens: list[int]
    scores: list[TokenScore]
    finite: list[bool]


_Chooser = Callable[["torch.Tensor", list[_State], int], _Chosen]
"""From logits, states and the number of the step."""


def decode_greedily(
    stepper: Stepper, n_prompts: int, ending: Ending, adjust: Adjust | None = None
) -> list[Written | None]:
    """The text of each prompt; None where its logits are not finite.

    `adjust` is what the checkpoint's own settings do to logits, None for nothing.
    """
    states = [_State(prompt, [0], Written([], [])) for prompt in range(n_prompts)]
    written = _decode(stepper, states, ending, adjust, _best)
    return [None if texts is None else texts[0] for texts in written]


def decode_samples(
    stepper: Stepper,
    ending: Ending,
    temperature: float,
    seeds: Sequence[Sequence[int]],
    adjust: Adjust | None = None,
) -> list[list[Written] | None]:
    """For each prompt one text per seed (at least one); None where its logits are not finite.

    Token t of a sample is the inverse of the cumulated probabilities, softmax(logits / temperature), at a
    number that depends on seed and t alone: the text is the same whatever else is in the batch.
    """
    distinct = [sorted(set(own)) for own in seeds]
    states = [_State(prompt, list(range(len(own))), Written([], [])) for prompt, own in enumerate(distinct)]
    numbers = [[uniform_numbers(seed, ending.max_new_tokens) for seed in own] for own in distinct]

    def draw(logits: torch.Tensor, alive: list[_State], step: int) -> _Chosen:
        drawn = [[numbers[state.prompt][member][step] for member in state.members] for state in alive]
        return _drawn(logits, temperature, drawn)

    written = _decode(stepper, states, ending, adjust, draw)
    found: list[list[Written] | None] = []
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
) -> list[list[Written] | None]:
    """The text of each member of each prompt; `states` are those of the prompts, in order."""
    texts: list[list[Written] | None] = [[state.written for _ in state.members] for state in states]
    logits = stepper.start()
    for step in range(ending.max_new_tokens):
        if adjust is not None:
            logits = adjust(logits, [(state.prompt, state.written.tokens) for state in states])
        parents, new = _advance(texts, states, choose(logits, states, step), ending)
        # where one sample fails, its prompt fails
        kept = [i for i, state in enumerate(new) if texts[state.prompt] is not None]
        states = [new[i] for i in kept]
        if not states or step == ending.max_new_tokens - 1:
            break
        logits = stepper.step([parents[i] for i in kept], [state.written.tokens[-1] for state in states])
    return texts


def _advance(
    texts: list[list[Written] | None], states: list[_State], chosen: _Chosen, ending: Ending
) -> tuple[list[int], list[_State]]:
    """The states that go on, and their parents; writes what is new into `texts`."""
    parents: list[int] = []
    new: list[_State] = []
    place = 0
    for parent, state in enumerate(states):
        own, first = texts[state.prompt], place
        place += len(state.members)
        if not chosen.finite[first]:
            own = texts[state.prompt] = None
        if own is None:
            continue
        for token, score, members in _forks(state.members, chosen, first):
            if token in ending.end_ids:
                continue
            longer = Written([*state.written.tokens, token], [*state.written.scores, score])
            for member in members:
                own[member] = longer
            if not ending.is_done(longer.tokens):
                parents.append(parent)
                new.append(_State(state.prompt, members, longer))
    return parents, new


def _forks(members: list[int], chosen: _Chosen, first: int) -> list[tuple[int, TokenScore, list[int]]]:
    """Members by the token that they drew, with its score; theirs are from place `first` on."""
    if len(members) == 1:
        return [(chosen.tokens[first], chosen.scores[first], members)]
    forks: dict[int, tuple[int, TokenScore, list[int]]] = {}
    for place, member in enumerate(members, first):
        token = chosen.tokens[place]
        forks.setdefault(token, (token, chosen.scores[place], []))[2].append(member)
    return list(forks.values())


def _best(logits: torch.Tensor, states: list[_State], step: int) -> _Chosen:
    """The most likely token of each state."""
    import torch

    largest, tokens = logits.max(dim=-1)
    return _chosen(logits, largest, tokens, torch.arange(len(states), device=logits.device), tokens)


def _drawn(logits: torch.Tensor, temperature: float, numbers: list[list[float]]) -> _Chosen:
    """For each of a state's numbers in [0, 1) a token; `numbers` has one list per state."""
    import numpy as np
    import torch

    counts = np.array([len(own) for own in numbers])
    grid = np.zeros((len(numbers), int(counts.max())))
    inside = np.arange(grid.shape[1]) < counts[:, None]
    grid[inside] = np.concatenate([np.asarray(own) for own in numbers])
    at, row, column = (torch.from_numpy(some).to(logits.device) for some in (grid, *np.nonzero(inside)))
    rows = max(1, _CHUNK // logits.shape[-1])
    found = [
        _inverse(part, temperature, own) for part, own in zip(logits.split(rows), at.split(rows), strict=True)
    ]
    return _chosen(logits, *logits.max(dim=-1), row, torch.cat(found)[row, column])


def _chosen(
    logits: torch.Tensor,
    largest: torch.Tensor,
    likeliest: torch.Tensor,
    rows: torch.Tensor,
    tokens: torch.Tensor,
) -> _Chosen:
    """tokens[i] is chosen from row rows[i] of logits: in one transfer from the device (float64 holds any token)."""
    import torch

    scores = token_scores(logits, largest, likeliest, rows, tokens)
    own, finite, *rest = torch.cat([torch.stack([tokens, largest[rows].isfinite()]), scores]).tolist()
    return _Chosen(
        list(map(int, own)), [TokenScore(*one) for one in zip(*rest, strict=True)], list(map(bool, finite))
    )


def _inverse(logits: torch.Tensor, temperature: float, numbers: torch.Tensor) -> torch.Tensor:
    """Tokens (n, k) at which the cumulated probabilities of logits (n, vocabulary) first exceed numbers (n, k)."""
    import torch

    cumulated = (logits / temperature).softmax(dim=-1).cumsum(dim=-1, dtype=torch.float64)
    total = cumulated[:, -1:]
    found = torch.searchsorted(cumulated, numbers * total, right=True)
    # a number just below 1 may round to the total: the last token that has any probability
    last = torch.searchsorted(cumulated, total.contiguous())
    return torch.minimum(found, last).clamp_(max=logits.shape[-1] - 1)
