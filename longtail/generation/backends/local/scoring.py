"""Log-likelihoods of given continuations, over a tree of their common beginnings.

Every node of a prompt's tree is one state. The last token of a continuation is only read off the logits
before it: leaves need no forward pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from longtail.generation.backends.local.stepper import Stepper

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Continuation:
    """Token ids to force after a prompt; the first `n_unscored` belong to the prompt and are not scored."""

    tokens: tuple[int, ...]
    n_unscored: int = 0


@dataclass
class _Node:
    """One beginning that some continuations share: which tokens may follow, and the node behind each."""

    children: dict[int, _Node] = field(default_factory=dict)
    log_probability: float = 0.0


def tree_size(continuations: Sequence[Continuation]) -> int:
    """The generated tokens that the states of one prompt hold at once, at most: for device batches."""
    depths = [set[tuple[int, ...]]() for _ in range(max((len(c.tokens) for c in continuations), default=0))]
    for continuation in continuations:
        for n in range(1, len(continuation.tokens)):
            depths[n].add(continuation.tokens[:n])
    return max((n * len(beginnings) for n, beginnings in enumerate(depths)), default=0)


def score_continuations(
    stepper: Stepper, continuations: Sequence[Sequence[Continuation]]
) -> list[list[float] | None]:
    """For each prompt the sum of natural log-probabilities of each continuation; None where not finite.

    An empty continuation scores 0. Sums are float64 over float32 logits.
    """
    roots = [_tree(own) for own in continuations]
    nodes = list(roots)
    owners = list(range(len(roots)))
    failed: set[int] = set()
    logits = stepper.start()
    while True:
        _read(logits, nodes, owners, failed)
        parents: list[int] = []
        tokens: list[int] = []
        deeper: list[_Node] = []
        for parent, node in enumerate(nodes):
            for token, child in node.children.items():
                if child.children and owners[parent] not in failed:
                    parents.append(parent)
                    tokens.append(token)
                    deeper.append(child)
        if not deeper:
            break
        owners = [owners[parent] for parent in parents]
        nodes = deeper
        logits = stepper.step(parents, tokens)
    return [
        None if prompt in failed else [_sum(root, continuation) for continuation in own]
        for prompt, (root, own) in enumerate(zip(roots, continuations, strict=True))
    ]


def _tree(continuations: Sequence[Continuation]) -> _Node:
    root = _Node()
    for continuation in continuations:
        node = root
        for token in continuation.tokens:
            node = node.children.setdefault(token, _Node())
    return root


def _read(logits: torch.Tensor, nodes: list[_Node], owners: list[int], failed: set[int]) -> None:
    """Log-probabilities of the tokens that may follow each node; prompts whose logits are not finite fail."""
    import torch

    children = [child for node in nodes for child in node.children.values()]
    rows = [row for row, node in enumerate(nodes) for _ in node.children]
    tokens = [token for node in nodes for token in node.children]
    device = logits.device
    row, token = torch.tensor([rows, tokens], dtype=torch.long).to(device)
    totals = logits.logsumexp(dim=-1).double()
    found = logits[row, token].double() - totals[row]
    for child, value in zip(children, found.tolist(), strict=True):
        child.log_probability = value
    bad = (~totals.isfinite()).nonzero().flatten().tolist()
    failed.update(owners[i] for i in bad)


def _sum(root: _Node, continuation: Continuation) -> float:
    total, node = 0.0, root
    for place, token in enumerate(continuation.tokens):
        node = node.children[token]
        if place >= continuation.n_unscored:
            total += node.log_probability
    return total
