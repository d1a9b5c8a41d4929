"""Which prompts share a beginning worth computing once, and the keys and values of such beginnings.

What belongs here: finding groups on token ids, the bounded store of computed prefixes. What does not: the
forward pass that computes one (`packed`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dagster_project.core.generation.backends.local.levels import Layers

Tokens = tuple[int, ...]
GROUP_COST = 32
"""A separate group costs about as much as this many tokens: it must save more than that."""


@dataclass(frozen=True)
class Group:
    """Rows whose prompts begin with the same `n_shared` tokens; a row alone shares none."""

    rows: tuple[int, ...]
    n_shared: int


@dataclass
class _Node:
    """Neighbours among the sorted prompts that agree in some number of tokens, grouped as well as can be.

    `groups` save `saved` tokens; `loose` rows are in none of them.
    """

    rows: list[int]
    loose: list[int]
    saved: int = 0
    groups: list[Group] = field(default_factory=list)


def group_by_prefix(prompts: Sequence[Sequence[int]], group_cost: int = GROUP_COST) -> list[Group]:
    """A grouping, with one prefix per row, that saves many tokens; every prompt keeps at least one own token.

    A group of n rows saves (n - 1) times its prefix, less `group_cost`. Groups come in the order of their
    prompts' tokens, each row without one as a group of its own. Walks the tree of common beginnings bottom up. The rows
    of a longer beginning leave their groups for a shorter one all together or not at all. So another grouping may save
    a little more, but no choice of whole beginnings does: groups of all prompts that begin alike.
    """
    order = sorted(range(len(prompts)), key=lambda row: tuple(prompts[row]))
    opened: list[tuple[int, list[_Node]]] = [(0, [])]
    for before, row in pairwise(order):
        shorter = min(len(prompts[before]), len(prompts[row]))
        depth = min(common_length(prompts[before], prompts[row]), shorter - 1)
        node = _Node([before], [before])
        while opened[-1][0] > depth:
            node = _close(opened, node, group_cost)
        if opened[-1][0] < depth:
            opened.append((depth, []))
        opened[-1][1].append(node)
    node = _Node(order[-1:], order[-1:])
    while opened:
        node = _close(opened, node, group_cost)
    alone = [Group((row,), 0) for row in node.loose]
    return sorted([*node.groups, *alone], key=lambda group: tuple(prompts[group.rows[0]]))


def _close(opened: list[tuple[int, list[_Node]]], last: _Node, group_cost: int) -> _Node:
    """The better of two: the children's own groups, or one group of this depth for whatever gains by it."""
    depth, children = opened.pop()
    children.append(last)
    rows = [row for child in children for row in child.rows]
    joining = [len(child.rows) * depth > child.saved + len(child.loose) * depth for child in children]
    joined: list[int] = []
    together = -depth - group_cost
    for child, joins in zip(children, joining, strict=True):
        taken = child.rows if joins else child.loose
        joined += taken
        together += len(taken) * depth + (0 if joins else child.saved)
    apart = sum(child.saved for child in children)
    if len(joined) > 1 and together > apart:
        kept = [g for child, joins in zip(children, joining, strict=True) if not joins for g in child.groups]
        return _Node(rows, [], together, [*kept, Group(tuple(joined), depth)])
    groups = [group for child in children for group in child.groups]
    return _Node(rows, [row for child in children for row in child.loose], apart, groups)


def common_length(one: Sequence[int], other: Sequence[int]) -> int:
    """Length of the common beginning: by halves, as comparing slices is much faster than comparing items."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


class PrefixStore:
    """Keys and values of the latest prefixes, at most `max_tokens` tokens of them in all."""

    def __init__(self, max_tokens: int) -> None:
        self._max_tokens = max_tokens
        self._kept: OrderedDict[Tokens, Layers] = OrderedDict()

    def __len__(self) -> int:
        return sum(map(len, self._kept))

    def longest(self, tokens: Tokens) -> tuple[int, Layers]:
        """How many first tokens some kept prefix shares with `tokens`, and the layers of that prefix."""
        best: tuple[int, Tokens] = (0, ())
        for kept in self._kept:
            best = max(best, (common_length(kept, tokens), kept))
        if not best[0]:
            return 0, []
        self._kept.move_to_end(best[1])
        return best[0], self._kept[best[1]]

    def keep(self, tokens: Tokens, layers: Layers) -> None:
        """Keep one prefix, whatever the limit is."""
        self._kept[tokens] = layers

    def trim(self) -> None:
        """Forget the least recently used prefixes beyond the limit."""
        while self._kept and len(self) > self._max_tokens:
            self._kept.popitem(last=False)

    def clear(self) -> None:
        """Forget all."""
        self._kept.clear()
