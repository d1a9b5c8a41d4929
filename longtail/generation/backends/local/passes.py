"""What a token may see in one forward pass.

Level 0 is a prefix that rows of a batch share, level 1 a prompt's own tokens after it, level 2 the tokens
generated since, of which all states have equally many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from longtail.generation.backends.local.attention import attend_causally, attend_shared, merge
from longtail.generation.backends.local.levels import Grown, Layers, Own, Seats, joined

if TYPE_CHECKING:
    import numpy as np
    import torch

    from longtail.generation.backends.local.attention import Part


_SPARSE, _SMALL = 8, 1 << 20
"""A grid of prefixes may have so many times the pairs of query and key that are needed, or so many pairs."""


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


@dataclass
class PrefixGrid:
    """Level 0 in steps: the prefixes of a batch in one grid, so that a layer attends to all of them in one call.

    On a GPU, a call for each prefix would take longer than all else. `row_of_prompt` rises; a prompt outside all
    prefixes (`is_outside`) has a row too, but sees nothing of it.
    """

    prefixes: Own
    row_of_prompt: np.ndarray
    is_outside: np.ndarray

    @classmethod
    def of(cls, spans: Sequence[Span], n_prompts: int) -> PrefixGrid:
        """`spans` of prompts, in order."""
        import numpy as np

        prompts = np.arange(n_prompts)
        starts, ends = (np.array([getattr(span, name) for span in spans]) for name in ("start", "end"))
        row = np.maximum(np.searchsorted(starts, prompts, side="right") - 1, 0)
        outside = (prompts < starts[row]) | (prompts >= ends[row])
        rows = [[(key[:, None], value[:, None]) for key, value in span.layers] for span in spans]
        lengths = np.array([span.layers[0][0].shape[1] for span in spans])
        return cls(Own(joined(rows, int(lengths.max())), lengths), row, outside)

    def seated(self, prompts: np.ndarray, device: torch.device) -> SeatedPrefixes | None:
        """For states of these prompts, which rise; None where the grid would be mostly empty."""
        import numpy as np
        import torch

        rows, lengths = self.row_of_prompt[prompts], self.prefixes.lengths
        counts = np.bincount(rows, minlength=len(lengths))
        if counts.max() * len(counts) * lengths.max() > max(_SPARSE * int(counts @ lengths), _SMALL):
            return None
        outside = self.is_outside[prompts]
        blocked = torch.from_numpy(outside).to(device) if outside.any() else None
        return SeatedPrefixes(self.prefixes, Seats.of(rows, len(counts), device), blocked)


@dataclass
class SeatedPrefixes:
    """Level 0 of one step."""

    prefixes: Own
    seats: Seats
    blocked: torch.Tensor | None

    def attend(self, query: torch.Tensor, layer: int, scale: float) -> Part:
        """Queries (H, n, d) see their prefixes; no weight for those outside all of them."""
        key, value = self.prefixes.layers[layer]
        out, lse = self.seats.attend(query, key, value, scale, self.prefixes.mask)
        if self.blocked is not None:
            lse = lse.masked_fill(self.blocked.to(lse.device), float("-inf"))
        return out, lse


class Step:
    """One more token of each state: it sees all three levels.

    `own_seats` and `grown_seats` seat the states in the rows of levels 1 and 2; `shared` holds level 0 in one grid, or
    prefix for prefix.
    """

    def __init__(
        self,
        shared: SeatedPrefixes | Sequence[Span],
        own: Own,
        own_seats: Seats,
        grown: Grown,
        grown_seats: Seats,
    ) -> None:
        self._shared, self._own, self._own_seats = shared, own, own_seats
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
        if isinstance(self._shared, SeatedPrefixes):
            parts.append(self._shared.attend(query, layer, scale))
        elif self._shared:
            parts.append(_shared_part(self._shared, layer, query, scale))
        return merge(parts).to(query.dtype).transpose(0, 1)
