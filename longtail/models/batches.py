"""Batches of padded rows, for models that compute every row of a batch as long as its longest."""

from __future__ import annotations

from collections.abc import Sequence


def padded_batches(
    prompts: Sequence[Sequence[int]], new_tokens: Sequence[int], budget: int
) -> list[list[int]]:
    """Indices of `prompts` in batches of at most `budget` tokens (a batch of one may exceed it).

    A row costs its tokens and its `new_tokens`, padded to the batch's longest row, so rows of similar cost are together.
    """
    cost = [len(prompt) + new for prompt, new in zip(prompts, new_tokens, strict=True)]
    planned: list[list[int]] = []
    for row in sorted(range(len(cost)), key=cost.__getitem__):
        if not planned or (len(planned[-1]) + 1) * cost[row] > budget:
            planned.append([])
        planned[-1].append(row)
    return planned
