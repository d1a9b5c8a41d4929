"""How the Fusion-in-Decoder reference model learns to compare names: the query's subject with a passage's title.

What belongs here: a loss of the encoder alone, and its samples. What does not: the optimisation (`training.fusion`).

The answers' loss does not teach this, since a model that cannot yet choose gets no hint which passage was right. Titles
alone teach it in some hundred steps, whole passages do not.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dagster_project.core.sandbox.training.clozes import Cloze
from dagster_project.core.sandbox.training.search import title_of

if TYPE_CHECKING:
    import torch


def with_titles_alone(sample: Cloze) -> Cloze:
    """The sample with its passages cut behind their titles."""
    return dataclasses.replace(sample, passages=tuple(map(title_of, sample.passages)))


def new_head(width: int) -> torch.nn.Linear:
    """Reads from one state of the encoder whether the passage is about the query's subject; for training only."""
    import torch

    return torch.nn.Linear(width, 1)


def matching_loss(
    head: torch.nn.Linear, states: torch.Tensor, mask: torch.Tensor, right: Sequence[int]
) -> torch.Tensor:
    """Mean binary cross-entropy over all tokens; right and wrong passages have the same weight.

    `states` are (n_samples, n_passages, n_tokens, width), `mask` (n_samples, n_passages, n_tokens); `right` has the place
    of each sample's right passage. There are at least two passages.
    """
    import torch

    is_right = torch.zeros(mask.shape, device=mask.device)
    is_right[range(len(right)), list(right)] = 1
    weights = mask * torch.where(is_right > 0, mask.shape[1] - 1, 1)
    losses = torch.nn.functional.binary_cross_entropy_with_logits(
        head(states.float()).squeeze(-1), is_right, reduction="none"
    )
    return (losses * weights).sum() / weights.sum()
