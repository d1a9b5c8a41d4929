"""The decoding loop over states: greedy answers and samples, each token with its score.

A *state* is one distinct (prompt, tokens generated so far). One loop serves greedy decoding (one member per prompt) and
sampling (one member per seed); members of a prompt that agree so far share one state. A step costs one forward pass, one
transfer from the device, and little Python.

Scores (SPEC §11) are read off the logits that a token is chosen from, at temperature 1 whatever the sampling, after what
the checkpoint's own settings did to them. No model runs twice.
"""

from __future__ import annotations

import bisect
import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from longtail.generation.backends.local.rules import Adjust
from longtail.generation.prompts.endings import AFTER_THINKING, END, FIRST_LINE, cut_span, is_complete
from longtail.scoring.model_answer import Confidence, confidence_of

if TYPE_CHECKING:
    import numpy as np
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
    ) -> list[dict[int, int]]:
        """Device batches of about `budget` tokens at most (a batch of one may exceed it).

        Each has indices of `prompts`, and how many of a prompt's first tokens it computes once for all that share them.
        `new_tokens`: for each prompt the generated tokens that all its states together may hold at once.
        """
        ...

    def open(self, prompts: Sequence[Sequence[int]], shared: Sequence[int]) -> Stepper:
        """A batch over prompts, each of at least one token id, at most the model's length; `shared` as planned."""
        ...

    def forget(self) -> None:
        """Drop what is kept for later batches."""
        ...


_LINE_END = frozenset("\n")
_SENTENCE_END = frozenset("\n.!?…")


class Texts:
    """One tokenizer's texts, special tokens left out."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._alone: dict[int, str] = {}
        added = tokenizer.added_tokens_decoder.items()
        self.special_ids = frozenset(number for number, token in added if token.special)

    def is_done(self, end: str) -> Callable[[list[int]], bool]:
        """Tells of the tokens of a text whether the text is complete up to `end`.

        A text is decoded only where some token can make it complete; other texts cost nothing. A first line is
        completed by a token with a line end, or by the token after a line end that opened the text.
        """
        if end == END:
            return lambda tokens: False
        is_of_line = end == FIRST_LINE or end.startswith(AFTER_THINKING)
        marks = _LINE_END if end.endswith(FIRST_LINE) else _SENTENCE_END

        def is_done(tokens: list[int]) -> bool:
            last = tokens[-2:] if is_of_line else tokens
            has_mark = any(not marks.isdisjoint(self.alone(token)) for token in last)
            return has_mark and is_complete(self.decode([tokens])[0], end)

        return is_done

    def alone(self, token: int) -> str:
        """The text of one token without others around it."""
        if token not in self._alone:
            self._alone[token] = self.decode([[token]])[0]
        return self._alone[token]

    def decode(self, written: Sequence[Sequence[int]]) -> list[str]:
        if not written:
            return []
        texts: list[str] = self._tokenizer.batch_decode(
            list(written), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return texts


_CHUNKS = {"cpu": 1 << 18}
_LARGE_CHUNK = 1 << 26
"""Logits that are read at once: on a CPU as many as its caches hold."""
_LEAST = -80.0
"""Logits so far below the largest count as this far: exp(-80) is 0 beside 1, and 0 times infinity is no number."""


class TokenScore(NamedTuple):
    """One token: its natural log-probability; entropy of the whole vocabulary in nats, and the probability of the
    likeliest token minus that of the second, where it was chosen."""

    log_probability: float
    entropy: float
    margin: float


def token_scores(
    logits: torch.Tensor,
    largest: torch.Tensor,
    likeliest: torch.Tensor,
    rows: torch.Tensor,
    tokens: torch.Tensor,
) -> torch.Tensor:
    """Log-probability, entropy and margin of tokens[i], chosen from row rows[i]: float64 (3, len(tokens)).

    `logits`: float32 (n, vocabulary); `largest` (n) and `likeliest` (n) are each row's maximum and its place.
    """
    import torch

    size = max(1, _CHUNKS.get(logits.device.type, _LARGE_CHUNK) // logits.shape[-1])
    parts = zip(logits.split(size), largest.split(size), likeliest.split(size), strict=True)
    totals, entropies, margins = torch.cat([_of_rows(*part) for part in parts], dim=1)
    log_probabilities = (logits[rows, tokens] - largest[rows]) - totals[rows]
    return torch.stack([log_probabilities, entropies[rows], margins[rows]])


def _of_rows(logits: torch.Tensor, largest: torch.Tensor, likeliest: torch.Tensor) -> torch.Tensor:
    """Log of the sum of exp(logits - largest), entropy, margin: float64 (3, n). `torch.topk` would take longer."""
    import torch

    below = (logits - largest[:, None]).clamp_(min=_LEAST)
    weights = below.exp()
    total = weights.sum(dim=-1).double()
    mean = below.mul_(weights).sum(dim=-1) / total
    second = weights.scatter_(1, likeliest[:, None], 0).amax(dim=-1)
    return torch.stack([total.log(), total.log() - mean, (1 - second) / total])


def confidence_of_text(
    tokens: Sequence[int], scores: Sequence[TokenScore], text: str, end: str, texts: Texts
) -> Confidence | None:
    """The confidence of what is kept of a text where its decoding stops at `end`; None where that is empty.

    `text` is that of all `tokens`. A token counts if it has part in the kept text: special tokens have no text.
    """
    part = [scores[place] for place in _places_of_part(tokens, text, end, texts)]
    if not part:
        return None
    entropy = math.fsum(score.entropy for score in part) / len(part)
    return confidence_of([score.log_probability for score in part], part[0].margin, entropy)


def tokens_before(tokens: Sequence[int], start: int, texts: Texts) -> int:
    """How many of the first tokens have no part in what follows the first `start` characters of their text."""
    if not start:
        return 0
    return bisect.bisect_right(
        range(len(tokens)), start, key=lambda place: len(texts.decode([tokens[: place + 1]])[0])
    )


def _places_of_part(tokens: Sequence[int], text: str, end: str, texts: Texts) -> list[int]:
    start, stop = cut_span(text, end)
    if start == stop:
        return []
    last = len(tokens)
    if stop < len(text):
        if texts.alone(tokens[-1]) == text[stop:]:
            last -= 1
        else:
            while texts.decode([tokens[: last - 1]])[0].startswith(text[:stop]):
                last -= 1
    first = tokens_before(tokens, start, texts)
    return [place for place in range(first, last) if tokens[place] not in texts.special_ids]


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


_Chosen = list[tuple[int, TokenScore] | None]
"""For each member of each state in turn: its token and the score; None where the state's logits are not finite."""
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
    states = [
        _State(prompt, list(range(len(of_prompt))), Written([], [])) for prompt, of_prompt in enumerate(seeds)
    ]
    numbers = [[uniform_numbers(seed, ending.max_new_tokens) for seed in of_prompt] for of_prompt in seeds]

    def draw(logits: torch.Tensor, alive: list[_State], step: int) -> _Chosen:
        drawn = [[numbers[state.prompt][member][step] for member in state.members] for state in alive]
        return _draw(logits, temperature, drawn)

    return _decode(stepper, states, ending, adjust, draw)


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
        alive = [i for i, state in enumerate(new) if texts[state.prompt] is not None]
        states = [new[i] for i in alive]
        if not states or step == ending.max_new_tokens - 1:
            break
        logits = stepper.step([parents[i] for i in alive], [state.written.tokens[-1] for state in states])
    return texts


def _advance(
    texts: list[list[Written] | None], states: list[_State], chosen: _Chosen, ending: Ending
) -> tuple[list[int], list[_State]]:
    """The states that go on, and their parents; writes what is new into `texts`."""
    parents: list[int] = []
    new: list[_State] = []
    place = 0
    for parent, state in enumerate(states):
        drawn = chosen[place : place + len(state.members)]
        place += len(state.members)
        if None in drawn:
            texts[state.prompt] = None
        samples = texts[state.prompt]
        if samples is None:
            continue
        forks: dict[int, tuple[TokenScore, list[int]]] = {}
        for member, (token, score) in zip(state.members, filter(None, drawn), strict=True):
            forks.setdefault(token, (score, []))[1].append(member)
        for token, (score, members) in forks.items():
            if token in ending.end_ids:
                continue
            longer = Written([*state.written.tokens, token], [*state.written.scores, score])
            for member in members:
                samples[member] = longer
            if not ending.is_done(longer.tokens):
                parents.append(parent)
                new.append(_State(state.prompt, members, longer))
    return parents, new


def _best(logits: torch.Tensor, states: list[_State], step: int) -> _Chosen:
    import torch

    largest, tokens = logits.max(dim=-1)
    return _choose(logits, largest, tokens, torch.arange(len(states), device=logits.device), tokens)


def _draw(logits: torch.Tensor, temperature: float, numbers: list[list[float]]) -> _Chosen:
    """For each of a state's numbers in [0, 1) a token; `numbers` has one list per state."""
    import numpy as np
    import torch

    counts = np.array([len(uniform) for uniform in numbers])
    grid = np.zeros((len(numbers), int(counts.max())))
    inside = np.arange(grid.shape[1]) < counts[:, None]
    grid[inside] = np.concatenate([np.asarray(uniform) for uniform in numbers])
    at, row, column = (torch.from_numpy(array).to(logits.device) for array in (grid, *np.nonzero(inside)))
    rows = max(1, _CHUNK // logits.shape[-1])
    drawn = [
        _inverse(part, temperature, uniform)
        for part, uniform in zip(logits.split(rows), at.split(rows), strict=True)
    ]
    return _choose(logits, *logits.max(dim=-1), row, torch.cat(drawn)[row, column])


def _choose(
    logits: torch.Tensor,
    largest: torch.Tensor,
    likeliest: torch.Tensor,
    rows: torch.Tensor,
    tokens: torch.Tensor,
) -> _Chosen:
    """tokens[i] is chosen from row rows[i] of logits: in one transfer from the device (float64 holds any token)."""
    import torch

    scores = token_scores(logits, largest, likeliest, rows, tokens)
    numbers = torch.cat([torch.stack([tokens, largest[rows].isfinite()]), scores]).tolist()
    return [
        (int(token), TokenScore(*score)) if is_finite else None
        for token, is_finite, *score in zip(*numbers, strict=True)
    ]


def _inverse(logits: torch.Tensor, temperature: float, numbers: torch.Tensor) -> torch.Tensor:
    """Tokens (n, k) at which the cumulated probabilities of logits (n, vocabulary) first exceed numbers (n, k)."""
    import torch

    cumulated = (logits / temperature).softmax(dim=-1).cumsum(dim=-1, dtype=torch.float64)
    total = cumulated[:, -1:]
    places = torch.searchsorted(cumulated, numbers * total, right=True)
    # a number just below 1 may round to the total: the last token that has any probability
    last = torch.searchsorted(cumulated, total.contiguous())
    return torch.minimum(places, last).clamp_(max=logits.shape[-1] - 1)
