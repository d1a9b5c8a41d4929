"""Log-likelihoods of given continuations, over a tree of their common beginnings.

Every node of a prompt's tree is one state. The last token of a continuation is only read off the logits
before it: leaves need no forward pass.

Candidates become token ids as the tokenizer splits them behind their prompt. It may split a text differently behind
another one, or melt the two at the seam. So a candidate is tokenized behind the prompt's last word, and that word's
tokens are taken off; where the seam melts, behind the whole prompt, and its score then begins at the first token that is
not the prompt's.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from longtail.generation.backends.local.decoding import Stepper
from longtail.models.limits import common_length

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
    roots = [_tree(of_prompt) for of_prompt in continuations]
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
        None if prompt in failed else [_sum(root, continuation) for continuation in of_prompt]
        for prompt, (root, of_prompt) in enumerate(zip(roots, continuations, strict=True))
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
    values = logits[row, token].double() - totals[row]
    for child, value in zip(children, values.tolist(), strict=True):
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


_LAST_WORD = re.compile(r"\s?\S*\s*\Z")
_MAX_KEPT = 256

Encode = Callable[..., list[list[int]]]
Targets = Callable[[tuple[str, ...]], Sequence[Continuation]]
_Split = list[tuple[int, ...] | None]


class CandidateTokens:
    """Continuations of prompts, by one tokenizer; those behind the same last word are found once, as are targets."""

    def __init__(self, encode: Encode, targets: Targets | None) -> None:
        """`encode`: as of `LoadedModel`. `targets`: an encoder-decoder's own way, None for others."""
        self._encode = encode
        self._targets = targets and functools.lru_cache(_MAX_KEPT)(targets)
        self._split = functools.lru_cache(_MAX_KEPT)(self._split_behind)

    def continuations(
        self, prompt: str, tokens: Sequence[int], candidates: Sequence[str]
    ) -> tuple[int, list[Continuation]]:
        """How many of the prompt's `tokens` stand before all continuations, and the continuations.

        An encoder-decoder's target has no prompt before it: candidates stand alone.
        """
        if self._targets is not None:
            return len(tokens), list(self._targets(tuple(candidates)))
        split = self._behind_last_word(prompt, tokens, tuple(candidates))
        melted = [i for i, tokens_behind in enumerate(split) if tokens_behind is None]
        whole = self._encode([prompt + candidates[i] for i in melted])
        seams = [common_length(list(tokens), tokens_behind) for tokens_behind in whole]
        n_before = min([len(tokens), *seams])
        rest = tuple(tokens[n_before:])
        continuations = [Continuation(rest + (tokens_behind or ()), len(rest)) for tokens_behind in split]
        for i, tokens_behind, seam in zip(melted, whole, seams, strict=True):
            continuations[i] = Continuation(tuple(tokens_behind[n_before:]), seam - n_before)
        return n_before, continuations

    def _behind_last_word(self, prompt: str, tokens: Sequence[int], candidates: tuple[str, ...]) -> _Split:
        """Each candidate's tokens; None where the seam melts."""
        match = _LAST_WORD.search(prompt)
        word = match.group() if match else ""
        for anchor in dict.fromkeys((word, word.lstrip())):
            if anchor:
                head, split = self._split(anchor, candidates)
                if head and list(tokens[-len(head) :]) == head:
                    return split
        return [None] * len(candidates)

    def _split_behind(self, anchor: str, candidates: tuple[str, ...]) -> tuple[list[int], _Split]:
        texts = [anchor, *(anchor + candidate for candidate in candidates)]
        head, *whole = self._encode(texts, special=False)
        n = len(head)
        return head, [tuple(ids[n:]) if ids[:n] == head else None for ids in whole]
