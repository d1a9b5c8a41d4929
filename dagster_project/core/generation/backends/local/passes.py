"""What a token may see in one forward pass.

What belongs here: the two kinds of pass. What does not: attention's arithmetic (`attention`), what is kept
(`levels`), which prompts share a prefix (`prefixes`), the order of calls (`packed`).

Level 0 is a prefix that rows of a batch share, level 1 a prompt's own tokens after it, level 2 the tokens
generated since, of which all states have equally many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dagster_project.core.generation.backends.local.attention import attend_causally, attend_shared, merge
from dagster_project.core.generation.backends.local.levels import Grown, Layers, Own, Seats

if TYPE_CHECKING:
    import numpy as np
    import torch

    from dagster_project.core.generation.backends.local.attention import Part


@dataclass(frozen=True)
class Span:
    """Queries `start` to `end` of a pass see the whole of a prefix, kept as (G, length, d)."""

    start: int
    end: int
    layers: Layers


class Fill:
    """Whole rows at once: each token sees its row's prefix, if any, and its row up to itself.

    `lengths`: own tokens of each row, whose tokens follow one another in the packed sequence. Keeps keys and
    values as `layers`, (G, rows, longest row, d); what lies behind a row's end is of no meaning.
    """

    def __init__(
        self, lengths: Sequence[int] | np.ndarray, spans: Sequence[Span], device: torch.device
    ) -> None:
        import numpy as np
        import torch

        self.layers: Layers = []
        self._spans = spans
        self._rows, self._longest = len(lengths), int(max(lengths))
        own = np.asarray(lengths)
        starts = np.cumsum(own) - own
        places = np.arange(self._longest)
        inside = places < own[:, None]
        self._n = int(own.sum())
        self._is_even = bool(inside.all())
        tokens = np.where(inside, starts[:, None] + places, starts[:, None])
        self._token_of_cell = torch.from_numpy(tokens.reshape(-1)).to(device)
        self._cell_of_token = torch.from_numpy(np.flatnonzero(inside)).to(device)

    def attend(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float
    ) -> torch.Tensor:
        """As in `attention.Pass`."""
        keys, values = self._grid(key), self._grid(value)
        self.layers.append((keys, values))
        queries = self._grid(query)
        if not self._spans:
            return self._packed(_plain(queries, keys, values, scale)).transpose(0, 1)
        out, lse = attend_causally(queries, keys, values, scale)
        own = self._packed(out), self._packed(lse)
        shared = _shared_part(self._spans, len(self.layers) - 1, query, scale)
        return merge([own, shared]).to(query.dtype).transpose(0, 1)

    def _grid(self, packed: torch.Tensor) -> torch.Tensor:
        """(heads, tokens, d) as (heads, rows, longest, d)."""
        if not self._is_even:
            packed = packed.index_select(1, self._token_of_cell.to(packed.device))
        return packed.reshape(packed.shape[0], self._rows, self._longest, -1)

    def _packed(self, grid: torch.Tensor) -> torch.Tensor:
        """(heads, rows, longest, …) as (heads, tokens, …)."""
        flat = grid.reshape(grid.shape[0], self._rows * self._longest, *grid.shape[3:])
        return flat if self._is_even else flat.index_select(1, self._cell_of_token.to(grid.device))


def _plain(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float) -> torch.Tensor:
    """Causal attention where nothing is merged with it: torch's own, which picks its kernel."""
    from torch.nn.functional import scaled_dot_product_attention

    query, key, value = query.transpose(0, 1), key.transpose(0, 1), value.transpose(0, 1)
    is_grouped = query.shape[1] != key.shape[1]
    out = scaled_dot_product_attention(query, key, value, is_causal=True, scale=scale, enable_gqa=is_grouped)
    return out.transpose(0, 1)


def _shared_part(spans: Sequence[Span], layer: int, query: torch.Tensor, scale: float) -> Part:
    """Level 0 for queries (H, n, d); no weight for those outside all spans."""
    import torch

    heads, n = query.shape[:2]
    if len(spans) == 1 and spans[0].end - spans[0].start == n:
        return attend_shared(query, *spans[0].layers[layer], scale)
    value_size = spans[0].layers[layer][1].shape[-1]
    out = query.new_zeros((heads, n, value_size))
    lse = torch.full((heads, n), float("-inf"), device=query.device)
    for span in spans:
        part, part_lse = attend_shared(query[:, span.start : span.end], *span.layers[layer], scale)
        out[:, span.start : span.end] = part
        lse[:, span.start : span.end] = part_lse
    return out, lse


class Step:
    """One more token of each state: it sees all three levels.

    `own_seats` and `grown_seats` seat the states in the rows of levels 1 and 2; `grown_row` is the row of
    each state, None where state i has row i.
    """

    def __init__(
        self,
        spans: Sequence[Span],
        own: Own,
        own_seats: Seats,
        grown: Grown,
        grown_seats: Seats,
    ) -> None:
        self._spans, self._own, self._own_seats = spans, own, own_seats
        self._grown, self._grown_seats = grown, grown_seats
        self._layer = 0

    def attend(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float
    ) -> torch.Tensor:
        """As in `attention.Pass`."""
        layer, self._layer = self._layer, self._layer + 1
        self._grown.append(layer, key, value, self._grown_seats.seat_of_query)
        parts = [
            self._own_seats.attend(query, *self._own.layers[layer], scale, self._own.mask),
            self._grown_seats.attend(query, *self._grown.visible(layer), scale, None),
        ]
        if self._spans:
            parts.append(_shared_part(self._spans, layer, query, scale))
        return merge(parts).to(query.dtype).transpose(0, 1)
