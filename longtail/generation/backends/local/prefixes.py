"""Which prompts share a beginning worth computing once, and the keys and values of such beginnings.

The prefixes of a batch are looked up, continued from others, or computed, as few tokens as possible.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from longtail.generation.backends.local.passes import Fill, Layers, Span

if TYPE_CHECKING:
    from longtail.generation.backends.local.packed import PackedSteppers


Tokens = tuple[int, ...]
GROUP_COST = 32
"""A separate group costs about as much as this many tokens: it must save more than that."""


@dataclass(frozen=True)
class Group:
    """Rows whose prompts begin with the same `n_shared` tokens; a row alone shares none."""

    rows: tuple[int, ...]
    n_shared: int


@dataclass(eq=False)
class _Beginning:
    """A node of the tree of beginnings: `depth` tokens with which neighbours among the sorted prompts begin.

    `rows` are in no longer beginning; `longer` are its children. The most that all rows below it save is a function of
    x, the tokens that a group around it shares with those of them that join it: `saved`, and for each (start, n) of
    `joins` n tokens more for each token of x beyond `start`. A group of its own saves more than that while x is less
    than `worth_below`.
    """

    depth: int
    rows: list[int] = field(default_factory=list)
    longer: list[_Beginning] = field(default_factory=list)
    saved: float = 0.0
    joins: list[tuple[float, int]] = field(default_factory=list)
    worth_below: float = 0.0

    def close(self, group_cost: int) -> None:
        """Find `saved`, `joins` and `worth_below`, once those of all longer beginnings are known."""
        below = [join for child in self.longer for join in child.joins if join[0] < self.depth]
        alone = len(self.rows) + sum(n for start, n in below if not start)
        self.saved = sum(child.saved for child in self.longer)
        self.joins = [(0.0, alone), *sorted(join for join in below if join[0])]
        saved = (
            self.saved + sum(n * (self.depth - start) for start, n in self.joins) - self.depth - group_cost
        )
        if saved <= self.saved:
            return
        at, value, slope, n_passed = 0.0, self.saved, 0, 0
        for start, n in self.joins:
            if value + slope * (start - at) >= saved:
                break
            at, value, slope, n_passed = start, value + slope * (start - at), slope + n, n_passed + 1
        self.saved, self.worth_below = saved, at + (saved - value) / slope
        self.joins = [(self.worth_below, slope), *self.joins[n_passed:]]


def group_by_prefix(prompts: Sequence[Sequence[int]], group_cost: int = GROUP_COST) -> list[Group]:
    """The grouping, with one prefix per row, that saves most tokens; every prompt keeps at least one own token.

    A group of n rows saves (n - 1) times its prefix, less `group_cost`. Groups come in the order of their
    prompts' tokens, each row without one as a group of its own. A row is best in the longest of the chosen beginnings
    that it has. Which ones to choose is decided on the tree of beginnings: bottom up, each one finds what it saves by
    what a group around it shares; top down, it is chosen if that is little enough. What it saves is a convex function
    of these tokens, with a bend for each chosen beginning, so that sums and maxima of such functions are short lists.
    """
    if not prompts:
        return []
    order = sorted(range(len(prompts)), key=lambda row: tuple(prompts[row]))
    depths = [_common(prompts[row], prompts[other]) for row, other in pairwise(order)]
    opened = [_Beginning(0)]
    for row, depth in zip(order, [*depths, 0], strict=True):
        if opened[-1].depth < depth:
            opened.append(_Beginning(depth))
        opened[-1].rows.append(row)
        while opened[-1].depth > depth:
            closed = opened.pop()
            closed.close(group_cost)
            if opened[-1].depth < depth:
                opened.append(_Beginning(depth))
            opened[-1].longer.append(closed)
    chosen: dict[int, _Beginning] = {}
    waiting = [(opened[0], opened[0])]
    while waiting:
        beginning, around = waiting.pop()
        around = beginning if around.depth < beginning.worth_below else around
        chosen |= dict.fromkeys(beginning.rows, around)
        waiting += [(longer, around) for longer in beginning.longer]
    groups: dict[object, list[int]] = {}
    for row in order:
        groups.setdefault(chosen[row] if chosen[row].depth else row, []).append(row)
    return [Group(tuple(rows), chosen[rows[0]].depth) for rows in groups.values()]


def _common(left: Sequence[int], right: Sequence[int]) -> int:
    """Tokens with which both begin, so that each has one behind them."""
    return min(common_length(left, right), len(left) - 1, len(right) - 1)


def common_length(left: Sequence[int], right: Sequence[int]) -> int:
    """Length of the common beginning: by halves, as comparing slices is much faster than comparing items."""
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


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


class SharedPrefixes:
    """Keys and values of one model's latest prefixes; after each batch, at most `max_tokens` tokens of them in all."""

    def __init__(self, model: PackedSteppers, max_tokens: int) -> None:
        self._model, self._max_tokens = model, max_tokens
        self._kept: OrderedDict[Tokens, Layers] = OrderedDict()

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
                n, layers = self._longest(tokens)
                if n == len(tokens) or (n >= _MIN_REUSED and (len(tokens) - n) * n_rows <= _PASS_COST):
                    opened[tokens] = Prefix(n, _first(layers, n), 0)
                elif not any(common_length(tokens, other) > max(n, _MIN_REUSED - 1) for other, *_ in wave):
                    wave.append((tokens, n, _first(layers, n)) if n >= _MIN_REUSED else (tokens, 0, []))
            for (tokens, n, _), layers in zip(wave, self._compute(wave), strict=True):
                self._kept[tokens] = layers
                opened[tokens] = Prefix(len(tokens), layers, len(tokens) - n)
            waiting = {tokens: n for tokens, n in waiting.items() if tokens not in opened}
        while self._kept and self.n_tokens > self._max_tokens:
            self._kept.popitem(last=False)
        return [opened[tokens] for tokens, _ in wanted]

    @property
    def n_tokens(self) -> int:
        """Tokens of all prefixes kept for later batches."""
        return sum(map(len, self._kept))

    def clear(self) -> None:
        """Forget all prefixes."""
        self._kept.clear()

    def _longest(self, tokens: Tokens) -> tuple[int, Layers]:
        """How many first tokens some kept prefix shares with `tokens`, and the layers of that prefix."""
        best: tuple[int, Tokens] = (0, ())
        for prefix in self._kept:
            best = max(best, (common_length(prefix, tokens), prefix))
        if not best[0]:
            return 0, []
        self._kept.move_to_end(best[1])
        return best[0], self._kept[best[1]]

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
        rests = np.concatenate([np.asarray(tokens[n:], dtype=np.int64) for tokens, n, _ in wave])
        positions = np.arange(ends[-1]) + np.repeat(known - starts, lengths)
        self._model.forward(fill, rests, positions, ends[-1:] - 1)
        computed = []
        for row, (_, _, base) in enumerate(wave):
            new = [tuple(x[:, row, : lengths[row]] for x in pair) for pair in fill.layers]
            if base:
                joined = [
                    tuple(torch.cat(both, dim=1) for both in zip(old, rests, strict=True))
                    for old, rests in zip(base, new, strict=True)
                ]
            else:
                joined = [tuple(x.contiguous() for x in pair) for pair in new]
            computed.append([(key, value) for key, value in joined])
        return computed


def _first(layers: Layers, n: int) -> Layers:
    return [(key[:, :n], value[:, :n]) for key, value in layers]
