"""What a token may see in one forward pass: keys and values of three levels, and which state reads which.

Level 0 is a prefix that rows of a batch share, level 1 a prompt's own tokens after it, level 2 the tokens
generated since, of which all states have equally many. Levels outlive a pass, in one tensor per layer. Heads come
first, (G, rows, tokens, d), so that a row's keys lie together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from longtail.generation.backends.local.attention import attend_block, attend_causally, attend_prefix, merge

if TYPE_CHECKING:
    import numpy as np
    import torch

    from longtail.generation.backends.local.attention import Part


Layers = list[tuple["torch.Tensor", "torch.Tensor"]]
"""Key and value of each layer."""


@dataclass
class Seats:
    """Which queries of a step belong to which row of a kept grid: rows may hold several queries, or none."""

    rows: int
    widest: int
    query_of_seat: torch.Tensor | None = None
    seat_of_query: torch.Tensor | None = None

    @classmethod
    def of(cls, row_of_query: np.ndarray, rows: int, device: torch.device) -> Seats:
        """`row_of_query` rises, or stays where several queries share a row."""
        import numpy as np
        import torch

        n = len(row_of_query)
        if n == rows and (row_of_query == np.arange(rows)).all():
            return cls(rows, 1)
        counts = np.bincount(row_of_query, minlength=rows)
        widest = int(counts.max())
        rank = np.arange(n) - (np.cumsum(counts) - counts)[row_of_query]
        seats = row_of_query * widest + rank
        queries = np.zeros(rows * widest, dtype=np.int64)
        queries[seats] = np.arange(n)
        return cls(rows, widest, torch.from_numpy(queries).to(device), torch.from_numpy(seats).to(device))

    def attend(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        scale: float,
        mask: torch.Tensor | None,
    ) -> Part:
        """Each query (H, n, d) sees its row of key and value (G, rows, m, d); mask (rows, 1, m) is added."""
        heads, _, d = query.shape
        groups = key.shape[0]
        if self.query_of_seat is not None:
            query = query.index_select(1, self.query_of_seat.to(query.device))
        seat = query.reshape(groups, heads // groups, self.rows, self.widest, d).transpose(1, 2)
        folded = seat.reshape(groups, self.rows, -1, d)
        out, lse = attend_block(folded, key, value, scale, mask if mask is None else mask.to(query.device))
        shape = (groups, self.rows, heads // groups, self.widest)
        flat = out.reshape(*shape, -1).transpose(1, 2).reshape(heads, self.rows * self.widest, -1)
        flat_lse = lse.reshape(shape).transpose(1, 2).reshape(heads, -1)
        if self.seat_of_query is None:
            return flat, flat_lse
        index = self.seat_of_query.to(query.device)
        return flat.index_select(1, index), flat_lse.index_select(1, index)


@dataclass
class Own:
    """Level 1: the own tokens of the unfinished prompts, and the mask of the places behind their ends."""

    layers: Layers
    lengths: np.ndarray
    mask: torch.Tensor | None = None

    def __post_init__(self) -> None:
        import numpy as np
        import torch

        longest = int(self.lengths.max())
        behind = np.arange(longest) >= self.lengths[:, None]
        self.mask = None
        if behind.any():
            mask = torch.zeros(behind.shape).masked_fill_(torch.from_numpy(behind), float("-inf"))
            self.mask = mask[:, None].to(self.layers[0][0].device)

    def select(self, rows: np.ndarray) -> Own:
        """Those rows only, cut to the longest of them."""
        lengths = self.lengths[rows]
        longest = int(lengths.max())
        return Own(_select(self.layers, rows, longest), lengths)


@dataclass
class Grown:
    """Level 2: the generated tokens of each state, (G, rows, room, d), of which `n_tokens` are filled.

    Room grows by `spare` tokens at a time: by one where states were just copied, as forks often come in a row.
    """

    layers: Layers = field(default_factory=list)
    n_tokens: int = 0
    spare: int = 1

    def select(self, rows: np.ndarray) -> None:
        """Those rows only, in that order; a row may be named several times."""
        self.layers = _select(self.layers, rows, self.n_tokens)
        self.spare = 1

    def advance(self) -> None:
        """All layers have the newest token."""
        self.n_tokens += 1
        self.spare = max(8, self.n_tokens // 2)

    def append(self, layer: int, key: torch.Tensor, value: torch.Tensor, row: torch.Tensor | None) -> None:
        """The next token of each state, (G, n, d), into `row` of its states; None: state i into row i."""
        from torch.nn.functional import pad

        if layer == len(self.layers):
            self.layers.append(
                (key.new_zeros(key.shape)[:, :, None], value.new_zeros(value.shape)[:, :, None])
            )
        pair = self.layers[layer]
        if pair[0].shape[2] <= self.n_tokens:
            more = (0, 0, 0, self.spare)
            pair = self.layers[layer] = (pad(pair[0], more), pad(pair[1], more))
        for grid, new in zip(pair, (key, value), strict=True):
            place = grid[:, :, self.n_tokens]
            if row is None:
                place.copy_(new)
            else:
                place.index_copy_(1, row.to(new.device), new)

    def visible(self, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Key and value of the tokens so far, the newest one included."""
        key, value = self.layers[layer]
        return key[:, :, : self.n_tokens + 1], value[:, :, : self.n_tokens + 1]


def stack_rows(parts: list[Layers], longest: int) -> Layers:
    """The rows of several passes in one grid per layer, filled up to `longest` tokens. Empties `parts`."""
    if len(parts) == 1:
        return parts.pop()

    def stack(grids: Sequence[torch.Tensor]) -> torch.Tensor:
        heads, _, _, size = grids[0].shape
        stacked = grids[0].new_zeros((heads, sum(grid.shape[1] for grid in grids), longest, size))
        first = 0
        for grid in grids:
            stacked[:, first : first + grid.shape[1], : grid.shape[2]] = grid
            first += grid.shape[1]
        return stacked

    layers: Layers = []
    for _ in range(len(parts[0])):
        pairs = [part.pop(0) for part in parts]
        layers.append((stack([key for key, _ in pairs]), stack([value for _, value in pairs])))
    return layers


def _select(layers: Layers, rows: np.ndarray, longest: int) -> Layers:
    import torch

    index = torch.from_numpy(rows)
    return [
        (
            key[:, :, :longest].index_select(1, index.to(key.device)),
            value[:, :, :longest].index_select(1, index.to(value.device)),
        )
        for key, value in layers
    ]


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
        counts = np.asarray(lengths)
        starts = np.cumsum(counts) - counts
        places = np.arange(self._longest)
        inside = places < counts[:, None]
        self._n = int(counts.sum())
        self._is_even = bool(inside.all())
        tokens = np.where(inside, starts[:, None] + places, starts[:, None])
        self._token_of_cell = torch.from_numpy(tokens.reshape(-1)).to(device)
        self._cell_of_token = torch.from_numpy(np.flatnonzero(inside)).to(device)

    def attend(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float
    ) -> torch.Tensor:
        from torch.nn.functional import scaled_dot_product_attention

        keys, values = self._grid(key), self._grid(value)
        self.layers.append((keys, values))
        queries = self._grid(query)
        if not self._spans:  # nothing is merged with it: torch picks its own kernel
            q, k, v = (grid.transpose(0, 1) for grid in (queries, keys, values))
            is_grouped = q.shape[1] != k.shape[1]
            out = scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale, enable_gqa=is_grouped)
            return self._pack(out.transpose(0, 1)).transpose(0, 1)
        out, lse = attend_causally(queries, keys, values, scale)
        own = self._pack(out), self._pack(lse)
        shared = _attend_spans(self._spans, len(self.layers) - 1, query, scale)
        return merge([own, shared]).to(query.dtype).transpose(0, 1)

    def _grid(self, packed: torch.Tensor) -> torch.Tensor:
        """(heads, tokens, d) as (heads, rows, longest, d)."""
        if not self._is_even:
            packed = packed.index_select(1, self._token_of_cell.to(packed.device))
        return packed.reshape(packed.shape[0], self._rows, self._longest, -1)

    def _pack(self, grid: torch.Tensor) -> torch.Tensor:
        """(heads, rows, longest, …) as (heads, tokens, …)."""
        flat = grid.reshape(grid.shape[0], self._rows * self._longest, *grid.shape[3:])
        return flat if self._is_even else flat.index_select(1, self._cell_of_token.to(grid.device))


def _attend_spans(spans: Sequence[Span], layer: int, query: torch.Tensor, scale: float) -> Part:
    """Level 0 for queries (H, n, d); no weight for those outside all spans."""
    import torch

    heads, n = query.shape[:2]
    if len(spans) == 1 and spans[0].end - spans[0].start == n:
        return attend_prefix(query, *spans[0].layers[layer], scale)
    value_size = spans[0].layers[layer][1].shape[-1]
    out = query.new_zeros((heads, n, value_size))
    lse = torch.full((heads, n), float("-inf"), device=query.device)
    for span in spans:
        part, part_lse = attend_prefix(query[:, span.start : span.end], *span.layers[layer], scale)
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
        return cls(Own(stack_rows(rows, int(lengths.max())), lengths), row, outside)

    def seat(self, prompts: np.ndarray, device: torch.device) -> Seated | None:
        """For states of these prompts, which rise; None where the grid would be mostly empty."""
        import numpy as np
        import torch

        rows, lengths = self.row_of_prompt[prompts], self.prefixes.lengths
        counts = np.bincount(rows, minlength=len(lengths))
        if counts.max() * len(counts) * lengths.max() > max(_SPARSE * int(counts @ lengths), _SMALL):
            return None
        outside = self.is_outside[prompts]
        blocked = torch.from_numpy(outside).to(device) if outside.any() else None
        return Seated(self.prefixes, Seats.of(rows, len(counts), device), blocked)


@dataclass
class Seated:
    """Level 0 or 1 of one step: whole rows, and which queries see which of them; `blocked` queries see none."""

    rows: Own
    seats: Seats
    blocked: torch.Tensor | None = None

    def attend(self, query: torch.Tensor, layer: int, scale: float) -> Part:
        """Queries (H, n, d) see their rows; those that are blocked get no weight."""
        out, lse = self.seats.attend(query, *self.rows.layers[layer], scale, self.rows.mask)
        if self.blocked is not None:
            lse = lse.masked_fill(self.blocked.to(lse.device), float("-inf"))
        return out, lse


class Step:
    """One more token of each state: it sees all three levels.

    `shared` holds level 0 in one grid, or prefix for prefix; `grown_seats` seat the states in the rows of level 2.
    """

    def __init__(
        self, shared: Seated | Sequence[Span], own: Seated, grown: Grown, grown_seats: Seats
    ) -> None:
        self._shared, self._own, self._grown, self._grown_seats = shared, own, grown, grown_seats
        self._layer = 0

    def attend(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float
    ) -> torch.Tensor:
        layer, self._layer = self._layer, self._layer + 1
        self._grown.append(layer, key, value, self._grown_seats.seat_of_query)
        parts = [
            self._own.attend(query, layer, scale),
            self._grown_seats.attend(query, *self._grown.visible(layer), scale, None),
        ]
        if isinstance(self._shared, Seated):
            parts.append(self._shared.attend(query, layer, scale))
        elif self._shared:
            parts.append(_attend_spans(self._shared, layer, query, scale))
        return merge(parts).to(query.dtype).transpose(0, 1)
