"""How probable a model's own tokens were to it: SPEC §11.

Scores are read off the logits that a token is chosen from, at temperature 1 whatever the sampling, after what the
checkpoint's own settings did to them. No model runs twice.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from longtail.generation.backends.local.texts import Texts
from longtail.generation.prompts.endings import kept_part
from longtail.scoring.confidence import Confidence, confidence_of

if TYPE_CHECKING:
    import torch

_CHUNK = {"cpu": 1 << 18}
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

    size = max(1, _CHUNK.get(logits.device.type, _LARGE_CHUNK) // logits.shape[-1])
    parts = zip(logits.split(size), largest.split(size), likeliest.split(size), strict=True)
    totals, entropies, margins = torch.cat([_of_rows(*part) for part in parts], dim=1)
    own = (logits[rows, tokens] - largest[rows]) - totals[rows]
    return torch.stack([own, entropies[rows], margins[rows]])


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
    kept = [scores[place] for place in _kept(tokens, text, end, texts)]
    if not kept:
        return None
    entropy = math.fsum(score.entropy for score in kept) / len(kept)
    return confidence_of([score.log_probability for score in kept], kept[0].margin, entropy)


def tokens_before(tokens: Sequence[int], start: int, texts: Texts) -> int:
    """How many of the first tokens have no part in what follows the first `start` characters of their text."""
    if not start:
        return 0
    return bisect.bisect_right(
        range(len(tokens)), start, key=lambda place: len(texts.decode([tokens[: place + 1]])[0])
    )


def _kept(tokens: Sequence[int], text: str, end: str, texts: Texts) -> list[int]:
    """The places of the tokens whose text is kept."""
    start, stop = kept_part(text, end)
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
