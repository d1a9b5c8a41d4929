"""Keys and values that outlive a pass: prompts' own tokens, and generated ones; and which state reads which.

One tensor per layer. Heads come first, (G, rows, tokens, d), so that a row's keys lie together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from longtail.generation.backends.local.attention import attend_block

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
        seated = query.reshape(groups, heads // groups, self.rows, self.widest, d).transpose(1, 2)
        folded = seated.reshape(groups, self.rows, -1, d)
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
        if layer == len(self.layers):
            self.layers.append((_room(key, 1), _room(value, 1)))
        pair = self.layers[layer]
        if pair[0].shape[2] <= self.n_tokens:
            pair = self.layers[layer] = (_widened(pair[0], self.spare), _widened(pair[1], self.spare))
        for kept, new in zip(pair, (key, value), strict=True):
            place = kept[:, :, self.n_tokens]
            if row is None:
                place.copy_(new)
            else:
                place.index_copy_(1, row.to(new.device), new)

    def visible(self, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Key and value of the tokens so far, the newest one included."""
        key, value = self.layers[layer]
        return key[:, :, : self.n_tokens + 1], value[:, :, : self.n_tokens + 1]


def joined(parts: list[Layers], longest: int) -> Layers:
    """The rows of several passes in one grid per layer, filled up to `longest` tokens. Empties `parts`."""
    if len(parts) == 1:
        return parts.pop()
    layers: Layers = []
    for _ in range(len(parts[0])):
        pairs = [part.pop(0) for part in parts]
        keys, values = (_stacked([pair[i] for pair in pairs], longest) for i in (0, 1))
        layers.append((keys, values))
    return layers


def _stacked(grids: Sequence[torch.Tensor], longest: int) -> torch.Tensor:
    heads, _, _, size = grids[0].shape
    stacked = grids[0].new_zeros((heads, sum(grid.shape[1] for grid in grids), longest, size))
    first = 0
    for grid in grids:
        stacked[:, first : first + grid.shape[1], : grid.shape[2]] = grid
        first += grid.shape[1]
    return stacked


def _room(like: torch.Tensor, tokens: int) -> torch.Tensor:
    return like.new_zeros((like.shape[0], like.shape[1], tokens, like.shape[2]))


def _widened(kept: torch.Tensor, more: int) -> torch.Tensor:
    import torch

    return torch.nn.functional.pad(kept, (0, 0, 0, more))


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
