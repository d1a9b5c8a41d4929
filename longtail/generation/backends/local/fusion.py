"""Prompts of several parts: the encoder reads each part alone, the decoder reads all of them (Fusion-in-Decoder)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

BREAK = -1
"""Stands between the parts of a prompt. It is no token, and costs as much as one when batches are planned."""


def joined(parts: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """Parts as one list of tokens. A prompt of one part is its own list."""
    return tuple(chain.from_iterable((BREAK, *part) for part in parts))[1:]


def parts_of(prompt: Sequence[int]) -> list[list[int]]:
    """The parts of a prompt; at least one."""
    parts: list[list[int]] = [[]]
    for token in prompt:
        if token == BREAK:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def tokens_of(prompt: Sequence[int]) -> Sequence[int]:
    """The tokens of all parts."""
    return [token for token in prompt if token != BREAK] if BREAK in prompt else prompt


def encode(encoder: Any, prompts: Sequence[Sequence[int]], device: Any) -> tuple[Any, torch.Tensor]:
    """The encoder's output for each prompt, its parts behind one another without padding, and the mask.

    `last_hidden_state` is (n_prompts, longest, width), the mask (n_prompts, longest); `longest` is the length of the
    longest prompt. Padding is at the end of a prompt, never between its parts.
    """
    from torch.nn.utils.rnn import pad_sequence

    parts = [parts_of(prompt) for prompt in prompts]
    ids, mask = padded([part for own in parts for part in own], device)
    out = encoder(input_ids=ids, attention_mask=mask)
    if len(ids) == len(prompts):
        return out, mask
    lengths = [sum(map(len, own)) for own in parts]
    states = out.last_hidden_state[mask.bool()].split(lengths)
    out.last_hidden_state = pad_sequence(list(states), batch_first=True)
    return out, padded([[0] * length for length in lengths], device)[1]


class KeptStates:
    """The encoder's states of the prompts that were read last, about `most` tokens of them.

    Candidates are scored and a text is written behind the same prompts: the encoder reads them once for both.
    """

    def __init__(self, encoder: Any, device: Any, most: int) -> None:
        self._encoder, self._device, self._most = encoder, device, most
        self._kept: dict[tuple[int, ...], torch.Tensor] = {}

    def read(self, prompts: Sequence[Sequence[int]]) -> tuple[Any, torch.Tensor, list[int]]:
        """As `encode`, for distinct prompts; and how many tokens of each prompt had been read before."""
        from torch.nn.utils.rnn import pad_sequence
        from transformers.modeling_outputs import BaseModelOutput

        keys = [tuple(prompt) for prompt in prompts]
        known = {key: self._kept[key] for key in keys if key in self._kept}
        found, new = dict(known), [key for key in keys if key not in known]
        if new:
            out, mask = encode(self._encoder, new, self._device)
            rows = zip(out.last_hidden_state, mask.sum(dim=1).tolist(), strict=True)
            found |= {key: states[:length] for key, (states, length) in zip(new, rows, strict=True)}
            self._keep({key: found[key] for key in new})
        if known:
            out = BaseModelOutput(last_hidden_state=pad_sequence([found[key] for key in keys], True))
            mask = padded([[0] * len(found[key]) for key in keys], self._device)[1]
        return out, mask, [len(known.get(key, ())) for key in keys]

    def forget(self) -> None:
        """Keep nothing."""
        self._kept.clear()

    def _keep(self, states: dict[tuple[int, ...], torch.Tensor]) -> None:
        """Keep these; drop the oldest others."""
        self._kept |= states
        n_tokens = sum(map(len, self._kept.values()))
        for key in [key for key in self._kept if key not in states]:
            if n_tokens <= self._most:
                break
            n_tokens -= len(self._kept.pop(key))


def padded(rows: Sequence[Sequence[int]], device: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and mask, both (n, longest row), padded on the right."""
    import torch

    longest = max(len(row) for row in rows)
    ids = torch.zeros((len(rows), longest), dtype=torch.long)
    mask = torch.zeros((len(rows), longest), dtype=torch.long)
    for place, row in enumerate(rows):
        ids[place, : len(row)] = torch.tensor(row)
        mask[place, : len(row)] = 1
    return ids.to(device), mask.to(device)
