"""Causal models without padding: all tokens of a batch are one sequence, and the attention holds the structure.

A forward pass takes the tokens of all rows as one sequence, with explicit positions: no linear layer computes
padding. A prefix is computed once and read by all rows under it where it lies; see `passes`.
"""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from longtail.generation.backends.local.attention import CURRENT, IMPLEMENTATION, Pass, register
from longtail.generation.backends.local.loading import LoadedModel, scales_positions
from longtail.generation.backends.local.passes import (
    Fill,
    Grown,
    Layers,
    Own,
    PrefixGrid,
    Seated,
    Seats,
    Span,
    Step,
    stack_rows,
)
from longtail.models.limits import Group, common_length, group_by_prefix

if TYPE_CHECKING:
    import numpy as np
    import torch

Tokens = tuple[int, ...]
_PASS_COST = 256
"""A separate pass costs about as much as this many tokens: the rows themselves compute shorter pieces."""
_MIN_REUSED = 16
"""A common beginning shorter than this is computed again rather than waited for."""
_CPU_PASS = 2_048
"""Tokens of one pass over prompts on a CPU: with more, what a layer computes leaves the cache."""
_MUCH_EMPTY = 0.75
"""Kept rows are copied together once fewer than this share of them are alive."""
_UNEVEN = 4
"""Prefixes are copied into one grid unless it takes more than this times their own memory."""


class PackedSteppers:
    """Batches of one causal model, whose attention is replaced for good."""

    def __init__(self, loaded: LoadedModel, prefix_tokens: int) -> None:
        """`prefix_tokens`: how many tokens of prefixes are kept for later batches."""
        register()
        self._model = loaded.model
        self.device = loaded.device
        self.pass_tokens = _CPU_PASS if self.device.type == "cpu" else None
        self._model.set_attn_implementation(IMPLEMENTATION)
        self.prefixes = SharedPrefixes(self, prefix_tokens)

    @staticmethod
    def fits(model: Any) -> str:
        """Why this path cannot be right for a model, as far as can be told before trying; empty if nothing."""
        accepted = inspect.signature(model.forward).parameters
        for name in ("position_ids", "logits_to_keep"):
            if name not in accepted:
                return f"its forward pass takes no {name}"
        if scales_positions(model.config):
            return "its positions depend on the length of the input"
        return ""

    def batches(
        self, prompts: Sequence[Sequence[int]], new_tokens: Sequence[int], budget: int
    ) -> list[dict[int, int]]:
        """As in `Steppers`; a batch counts the tokens whose keys and values it holds.

        That is each distinct prefix once, the longest own part for each row (level 1 is a grid), and the new
        tokens. Rows with a common prefix stay together, the shortest own parts first.
        """
        groups = []
        for group in group_by_prefix(prompts):
            rows = sorted(group.rows, key=lambda row: len(prompts[row]))
            groups.append((len(prompts[rows[-1]]) - group.n_shared, group.n_shared, rows))
        planned: list[dict[int, int]] = []
        held, longest = 0, 0
        for _, n_shared, rows in sorted(groups, key=lambda group: group[:2]):
            is_new = True
            for row in rows:
                longest = max(longest, len(prompts[row]) - n_shared)
                more = new_tokens[row] + n_shared * is_new
                if not planned or held + more + (len(planned[-1]) + 1) * longest > budget:
                    planned.append({})
                    held, longest = 0, len(prompts[row]) - n_shared
                    more = new_tokens[row] + n_shared
                planned[-1][row] = n_shared
                held += more
                is_new = False
        return planned

    def open(self, prompts: Sequence[Sequence[int]], shared: Sequence[int]) -> PackedStepper:
        """As in `Steppers`. A prompt that is the only one of its group here reads its prefix too, by which the batch
        stays within its budget, and a batch that has the others finds the prefix."""
        return PackedStepper(self, prompts, shared)

    def forget(self) -> None:
        """Drop the prefixes that are kept for later batches."""
        self.prefixes.clear()

    def forward(
        self, kind: Pass, tokens: Sequence[int] | np.ndarray, positions: np.ndarray, last: np.ndarray
    ) -> torch.Tensor:
        """One pass over packed tokens: logits, float32, after the tokens at the places `last`."""
        import numpy as np
        import torch

        packed = np.stack([np.asarray(tokens), positions])
        ids = torch.from_numpy(packed).to(self.device)
        reset = CURRENT.set(kind)
        try:
            out = self._model(
                input_ids=ids[:1],
                position_ids=ids[1:],
                use_cache=False,
                logits_to_keep=torch.from_numpy(last).to(self.device),
            )
        finally:
            CURRENT.reset(reset)
        logits: torch.Tensor = out.logits[0].float()
        return logits


class PackedStepper:
    """One batch. Inside, prompts stand in the order of their groups; outside, in the caller's order."""

    def __init__(
        self, steppers: PackedSteppers, prompts: Sequence[Sequence[int]], shared: Sequence[int]
    ) -> None:
        self.shared_tokens = [0] * len(prompts)
        self._steppers = steppers
        self._prompts = prompts
        groups: dict[object, list[int]] = {}
        for row, (prompt, n) in enumerate(zip(prompts, shared, strict=True)):
            groups.setdefault(tuple(prompt[:n]) if n else row, []).append(row)
        self._groups = [Group(tuple(rows), shared[rows[0]]) for rows in groups.values()]
        self._spans: list[Span] = []
        self._grid: PrefixGrid | None = None
        self._grown = Grown()
        self._grown_row: np.ndarray
        self._n_grown = 0

    def start(self) -> torch.Tensor:
        import numpy as np
        import torch

        rows = [row for group in self._groups for row in group.rows]
        used = self._open_prefixes()
        rests = [self._prompts[row][n:] for row, n in zip(rows, used, strict=True)]
        lengths = np.array([len(tokens) for tokens in rests])
        parts, logits = [], []
        for start, end in self._pieces(lengths):
            layers, after_rows = self._fill(rests[start:end], used[start:end], start)
            parts.append(layers)
            logits.append(after_rows)
        self._own = Own(stack_rows(parts, int(lengths.max())), lengths)
        self._slot = np.arange(len(rows))
        self._length = np.array([len(self._prompts[row]) for row in rows])
        self._prompt = np.arange(len(rows))
        self._inner = np.empty(len(rows), dtype=np.int64)
        self._inner[rows] = np.arange(len(rows))
        return self._outward(torch.cat(logits))

    def _pieces(self, lengths: np.ndarray) -> Iterator[tuple[int, int]]:
        """Rows that are computed in one pass, of about `pass_tokens` tokens; None: all rows together."""
        most = self._steppers.pass_tokens
        start, n_tokens = 0, 0
        for row, length in enumerate(lengths):
            if most is not None and n_tokens and n_tokens + length > most:
                yield start, row
                start, n_tokens = row, 0
            n_tokens += length
        yield start, len(lengths)

    def _fill(
        self, rests: Sequence[Sequence[int]], used: Sequence[int], first: int
    ) -> tuple[Layers, torch.Tensor]:
        """Keys and values of the own tokens of some rows, from row `first` on, and the logits after each row."""
        import numpy as np

        lengths = np.array([len(tokens) for tokens in rests])
        ends = np.cumsum(lengths)
        starts = ends - lengths
        positions = np.arange(ends[-1]) + np.repeat(np.array(used) - starts, lengths)
        spans = [
            Span(
                int(starts[max(span.start - first, 0)]),
                int(ends[min(span.end - first, len(rests)) - 1]),
                span.layers,
            )
            for span in self._spans
            if span.start < first + len(rests) and span.end > first
        ]
        fill = Fill(lengths, spans, self._steppers.device)
        tokens = np.concatenate([np.asarray(tokens, dtype=np.int64) for tokens in rests])
        return fill.layers, self._steppers.forward(fill, tokens, positions, ends - 1)

    def _open_prefixes(self) -> list[int]:
        """Prefixes computed or found, as spans of prompts; the length of each prompt's, in the inner order."""
        shared = [group for group in self._groups if group.n_shared]
        wanted = [(tuple(self._prompts[g.rows[0]][: g.n_shared]), len(g.rows)) for g in shared]
        prefixes = dict(zip(shared, self._steppers.prefixes.open(wanted), strict=True))
        used: list[int] = []
        for group in self._groups:
            if group in prefixes:
                prefix = prefixes[group]
                self._spans.append(Span(len(used), len(used) + len(group.rows), prefix.layers))
                for row in group.rows:
                    self.shared_tokens[row] = prefix.n_tokens
                self.shared_tokens[group.rows[0]] -= prefix.n_computed
                used += [prefix.n_tokens] * len(group.rows)
            else:
                used += [0] * len(group.rows)
        return used

    def step(self, parents: Sequence[int], tokens: Sequence[int]) -> torch.Tensor:
        import numpy as np

        inner = self._inner[np.asarray(parents, dtype=np.int64)]
        order = np.argsort(self._prompt[inner], kind="stable")
        inner = inner[order]
        self._inner = np.empty(len(order), dtype=np.int64)
        self._inner[order] = np.arange(len(order))
        self._prompt = self._prompt[inner]
        self._seat_grown(inner)
        self._seat_own()
        device = self._steppers.device
        own = Seated(self._own, Seats.of(self._slot[self._prompt], len(self._own.lengths), device))
        grown_seats = Seats.of(self._grown_row, self._n_grown, device)
        kind = Step(self._prefixes_of_states(), own, self._grown, grown_seats)
        positions = self._length[self._prompt] + self._grown.n_tokens
        taken = np.asarray(tokens, dtype=np.int64)[order]
        logits = self._steppers.forward(kind, taken, positions, np.arange(len(order)))
        self._grown.advance()
        return self._outward(logits)

    def _seat_grown(self, parents: np.ndarray) -> None:
        """Rows of level 2 for the new states: left in place if none forks and most go on, else copied."""
        import numpy as np

        n = len(parents)
        if self._grown.n_tokens:
            rows = self._grown_row[parents]
            if (np.diff(rows) > 0).all() and n >= _MUCH_EMPTY * self._n_grown:
                self._grown_row = rows
                return
            self._grown.select(rows)
        self._grown_row, self._n_grown = np.arange(n), n

    def _seat_own(self) -> None:
        """Rows of level 1 for the prompts that still have states."""
        import numpy as np

        alive = np.unique(self._prompt)
        if len(alive) < _MUCH_EMPTY * len(self._own.lengths):
            self._own = self._own.select(self._slot[alive])
            self._slot[alive] = np.arange(len(alive))

    def _prefixes_of_states(self) -> Seated | list[Span]:
        """Level 0 for the states: in one grid where several prefixes are read, else span for span."""
        import numpy as np

        edges = np.searchsorted(self._prompt, [edge for s in self._spans for edge in (s.start, s.end)])
        bounds = zip(edges[::2].tolist(), edges[1::2].tolist(), self._spans, strict=True)
        alive = [(Span(start, end, span.layers), span) for start, end, span in bounds if start < end]
        spans = [states for states, _ in alive]
        lengths = [span.layers[0][0].shape[1] for span in spans]
        if len(spans) < 2 or len(spans) * max(lengths) > _UNEVEN * sum(lengths):
            return spans
        if self._grid is None or len(spans) < _MUCH_EMPTY * len(self._grid.prefixes.lengths):
            self._grid = PrefixGrid.of([span for _, span in alive], len(self._length))
        return self._grid.seat(self._prompt, self._steppers.device) or spans

    def _outward(self, logits: torch.Tensor) -> torch.Tensor:
        """Rows in the caller's order."""
        import numpy as np
        import torch

        if (self._inner == np.arange(len(self._inner))).all():
            return logits
        return logits.index_select(0, torch.from_numpy(self._inner).to(logits.device))


@dataclass(frozen=True)
class Prefix:
    """The first `n_tokens` of a prompt, each layer (G, n_tokens, d); `n_computed` of them only now."""

    n_tokens: int
    layers: Layers
    n_computed: int


class SharedPrefixes:
    """Keys and values of one model's latest prefixes; after each batch, at most `max_tokens` tokens of them in all."""

    def __init__(self, model: PackedSteppers, max_tokens: int) -> None:
        self._model, self._max_tokens = model, max_tokens
        self._kept: OrderedDict[Tokens, Layers] = OrderedDict()

    def open(self, wanted: Sequence[tuple[Tokens, int]]) -> list[Prefix]:
        """A prefix for each of the distinct `wanted` and its number of rows: all of it, or nearly all.

        The rows compute what a kept prefix lacks, where that is cheaper than a pass. The other prefixes are computed in
        waves: a prefix that continues another waits for it, all others of a wave are computed together.
        """
        opened: dict[Tokens, Prefix] = {}
        waiting = dict(wanted)
        while waiting:
            wave: list[tuple[Tokens, int, Layers]] = []
            for tokens, n_rows in waiting.items():
                n, layers = self._longest(tokens)
                if n == len(tokens) or (n >= _MIN_REUSED and (len(tokens) - n) * n_rows <= _PASS_COST):
                    opened[tokens] = Prefix(n, _first(layers, n), 0)
                elif not any(common_length(tokens, other) > max(n, _MIN_REUSED - 1) for other, *_ in wave):
                    wave.append((tokens, n, _first(layers, n)) if n >= _MIN_REUSED else (tokens, 0, []))
            for (tokens, n, _), layers in zip(wave, self._compute(wave), strict=True):
                self._kept[tokens] = layers
                opened[tokens] = Prefix(len(tokens), layers, len(tokens) - n)
            waiting = {tokens: n for tokens, n in waiting.items() if tokens not in opened}
        while self._kept and self.n_tokens > self._max_tokens:
            self._kept.popitem(last=False)
        return [opened[tokens] for tokens, _ in wanted]

    @property
    def n_tokens(self) -> int:
        """Tokens of all prefixes kept for later batches."""
        return sum(map(len, self._kept))

    def clear(self) -> None:
        self._kept.clear()

    def _longest(self, tokens: Tokens) -> tuple[int, Layers]:
        """How many first tokens some kept prefix shares with `tokens`, and the layers of that prefix."""
        best: tuple[int, Tokens] = (0, ())
        for prefix in self._kept:
            best = max(best, (common_length(prefix, tokens), prefix))
        if not best[0]:
            return 0, []
        self._kept.move_to_end(best[1])
        return best[0], self._kept[best[1]]

    def _compute(self, wave: Sequence[tuple[Tokens, int, Layers]]) -> list[Layers]:
        """Layers of whole prefixes, each of which continues its first tokens' layers."""
        import numpy as np
        import torch

        if not wave:
            return []
        known = np.array([n for _, n, _ in wave])
        lengths = np.array([len(tokens) for tokens, *_ in wave]) - known
        ends = np.cumsum(lengths)
        starts = ends - lengths
        spans = [
            Span(int(start), int(end), layers)
            for start, end, (_, _, layers) in zip(starts, ends, wave, strict=True)
            if layers
        ]
        fill = Fill(lengths, spans, self._model.device)
        rests = np.concatenate([np.asarray(tokens[n:], dtype=np.int64) for tokens, n, _ in wave])
        positions = np.arange(ends[-1]) + np.repeat(known - starts, lengths)
        self._model.forward(fill, rests, positions, ends[-1:] - 1)
        computed = []
        for row, (_, _, base) in enumerate(wave):
            new = [tuple(x[:, row, : lengths[row]] for x in pair) for pair in fill.layers]
            if base:
                joined = [
                    tuple(torch.cat(both, dim=1) for both in zip(old, rests, strict=True))
                    for old, rests in zip(base, new, strict=True)
                ]
            else:
                joined = [tuple(x.contiguous() for x in pair) for pair in new]
            computed.append([(key, value) for key, value in joined])
        return computed


def _first(layers: Layers, n: int) -> Layers:
    return [(key[:, :n], value[:, :n]) for key, value in layers]
