"""Prefixes of a batch: looked up, continued from others, or computed, as few tokens as possible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from longtail.generation.backends.local.levels import Layers
from longtail.generation.backends.local.passes import Fill, Span
from longtail.generation.backends.local.prefixes import PrefixStore, Tokens, common_length

if TYPE_CHECKING:
    import numpy as np
    import torch

_PASS_COST = 256
"""A separate pass costs about as much as this many tokens: the rows themselves compute shorter pieces."""
_MIN_REUSED = 16
"""A common beginning shorter than this is computed again rather than waited for."""


@dataclass(frozen=True)
class Prefix:
    """The first `n_tokens` of a prompt, each layer (G, n_tokens, d); `n_computed` of them only now."""

    n_tokens: int
    layers: Layers
    n_computed: int


class Forward(Protocol):
    """What computes a pass."""

    device: torch.device

    def forward(self, kind: Any, tokens: Any, positions: np.ndarray, last: np.ndarray) -> torch.Tensor:
        """As in `packed`."""
        ...


class SharedPrefixes:
    """The prefixes of one model."""

    def __init__(self, model: Forward, store: PrefixStore) -> None:
        self._model = model
        self._store = store

    def open(self, wanted: Sequence[tuple[Tokens, int]]) -> list[Prefix]:
        """A prefix for each of the distinct `wanted` and its number of rows: all of it, or nearly all.

        The rows compute what a kept prefix lacks, where that is cheaper than a pass. The other prefixes are computed in
        waves: a prefix that continues another waits for it, all others of a wave are computed together.
        """
        opened: dict[Tokens, Prefix] = {}
        waiting = dict(wanted)
        while waiting:
            wave: list[tuple[Tokens, int, Layers]] = []
            for tokens, n_rows in waiting.items():
                n, layers = self._store.longest(tokens)
                if n == len(tokens) or (n >= _MIN_REUSED and (len(tokens) - n) * n_rows <= _PASS_COST):
                    opened[tokens] = Prefix(n, _first(layers, n), 0)
                elif not any(common_length(tokens, other) > max(n, _MIN_REUSED - 1) for other, *_ in wave):
                    wave.append((tokens, n, _first(layers, n)) if n >= _MIN_REUSED else (tokens, 0, []))
            for (tokens, n, _), layers in zip(wave, self._compute(wave), strict=True):
                self._store.keep(tokens, layers)
                opened[tokens] = Prefix(len(tokens), layers, len(tokens) - n)
            waiting = {tokens: n for tokens, n in waiting.items() if tokens not in opened}
        self._store.trim()
        return [opened[tokens] for tokens, _ in wanted]

    @property
    def n_tokens(self) -> int:
        """Tokens of all prefixes kept for later batches."""
        return len(self._store)

    def clear(self) -> None:
        """Forget all prefixes."""
        self._store.clear()

    def _compute(self, wave: Sequence[tuple[Tokens, int, Layers]]) -> list[Layers]:
        """Layers of whole prefixes, each of which continues its first tokens' layers."""
        import numpy as np
        import torch

        if not wave:
            return []
        known = np.array([n for _, n, _ in wave])
        lengths = np.array([len(tokens) for tokens, *_ in wave]) - known
        ends = np.cumsum(lengths)
        starts = ends - lengths
        spans = [
            Span(int(start), int(end), layers)
            for start, end, (_, _, layers) in zip(starts, ends, wave, strict=True)
            if layers
        ]
        fill = Fill(lengths, spans, self._model.device)
        own = np.concatenate([np.asarray(tokens[n:], dtype=np.int64) for tokens, n, _ in wave])
        positions = np.arange(ends[-1]) + np.repeat(known - starts, lengths)
        self._model.forward(fill, own, positions, ends[-1:] - 1)
        computed = []
        for row, (_, _, base) in enumerate(wave):
            new = [tuple(x[:, row, : lengths[row]] for x in pair) for pair in fill.layers]
            if base:
                joined = [
                    tuple(torch.cat(both, dim=1) for both in zip(old, own, strict=True))
                    for old, own in zip(base, new, strict=True)
                ]
            else:
                joined = [tuple(x.contiguous() for x in pair) for pair in new]
            computed.append([(key, value) for key, value in joined])
        return computed


def _first(layers: Layers, n: int) -> Layers:
    return [(key[:, :n], value[:, :n]) for key, value in layers]
