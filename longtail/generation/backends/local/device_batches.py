"""Device batches of one call: planned by tokens, cut when memory is short, grown again with care."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from longtail.errors import BackendError
from longtail.generation.backends.local.loading import LoadedModel
from longtail.generation.backends.local.stepper import Stepper, Steppers
from longtail.models.limits import first_line, is_out_of_memory
from longtail.study.models import BATCH_TOKENS

_LOG = logging.getLogger(__name__)
MOST_TOKENS = 262_144
_SHARE = 0.25
"""Of a device's free memory, for a batch's keys and values. Kept prefixes may take as much."""
_GROWTH = 1.25
_PATIENCE = 4
"""Batches that must fit before the budget grows. Each lack of memory doubles it."""

T = TypeVar("T")
Work = Callable[[Stepper, Sequence[int]], list[T]]
"""From an opened batch and its rows' indices to one result per row."""


def batch_tokens_on(loaded: LoadedModel) -> int:
    """How many tokens a batch may have where the study does not say: on a GPU, as many as its memory allows.

    There a step takes nearly as long for a hundred texts as for a thousand.
    """
    import torch

    if loaded.device.type != "cuda":
        return BATCH_TOKENS
    free, _ = torch.cuda.mem_get_info(loaded.device)
    return tokens_in(_SHARE * free, loaded.model.config.get_text_config(), loaded.model.dtype.itemsize)


def tokens_in(n_bytes: float, config: Any, width: int) -> int:
    """Of how many tokens `n_bytes` hold the keys and values, of `width` bytes a number: 16,384 to 262,144.

    The least where the configuration does not say, as that of a model without attention.
    """
    layers, heads = (getattr(config, f"num_{name}", None) for name in ("hidden_layers", "attention_heads"))
    if not isinstance(layers, int) or not isinstance(heads, int):
        return BATCH_TOKENS
    size = getattr(config, "head_dim", None) or config.hidden_size // heads
    kept = 2 * layers * (getattr(config, "num_key_value_heads", None) or heads) * size * width
    return int(min(max(n_bytes // kept, BATCH_TOKENS), MOST_TOKENS))


@dataclass
class Budget:
    """How many tokens a batch may have: `most` at most, fewer where memory is short."""

    most: int
    now: int = 0
    _patience: int = _PATIENCE
    _fitted: int = 0

    def __post_init__(self) -> None:
        self.now = self.now or self.most

    def fail(self, tokens: int) -> None:
        """A batch of this many tokens did not fit: take half of them from now on."""
        self.now = max(1, min(self.now, tokens) // 2)
        self._patience *= 2
        self._fitted = 0

    def succeed(self) -> bool:
        """A batch fitted; whether the budget has grown by it."""
        self._fitted += 1
        if self.now >= self.most or self._fitted < self._patience:
            return False
        self._fitted = 0
        self.now = min(self.most, max(self.now + 1, int(self.now * _GROWTH)))
        return True


@dataclass(frozen=True)
class Finished(Generic[T]):
    """One device batch: its rows, a result and a number of shared tokens for each; None where one row alone
    did not fit the memory. `seconds` is the wall time since the batch before, attempts that did not fit included."""

    rows: list[int]
    results: list[T] | None
    shared_tokens: list[int]
    seconds: float


class DeviceBatches:
    """Runs prompts of one model in batches that fit; what it learns of the memory lasts."""

    def __init__(self, loaded: LoadedModel, steppers: Steppers, batch_tokens: int) -> None:
        self._loaded, self._steppers = loaded, steppers
        self.budget = Budget(batch_tokens)

    def run(
        self, prompts: Sequence[Sequence[int]], new_tokens: Sequence[int], work: Work[T]
    ) -> Iterator[Finished[T]]:
        """Each batch as it is done. Errors other than a lack of memory: `BackendError`."""
        waiting = self._plan(range(len(prompts)), prompts, new_tokens)
        started = time.perf_counter()
        while waiting:
            rows = waiting.popleft()
            own = [prompts[row] for row in rows]
            found = self._attempt(own, rows, work)
            if found is None and len(rows) == 1:
                self.forget()  # it may fit where nothing is kept for later batches
                found = self._attempt(own, rows, work)
            if found is not None:
                yield Finished(rows, found[0], found[1], time.perf_counter() - started)
                started = time.perf_counter()
                if self.budget.succeed() and waiting:
                    waiting = self._replan(waiting, prompts, new_tokens)
            elif len(rows) == 1:
                yield Finished(rows, None, [0], time.perf_counter() - started)
                started = time.perf_counter()
            else:
                self._shrink(rows, prompts, new_tokens)
                waiting = self._replan([rows, *waiting], prompts, new_tokens)

    def forget(self) -> None:
        """Drop what earlier batches left to be shared."""
        self._steppers.forget()

    def _shrink(self, rows: list[int], prompts: Sequence[Sequence[int]], new_tokens: Sequence[int]) -> None:
        """Halve the budget until these rows no longer make one batch."""
        before = self.budget.now
        self.budget.fail(sum(len(prompts[row]) + new_tokens[row] for row in rows))
        own = [prompts[row] for row in rows], [new_tokens[row] for row in rows]
        while len(self._steppers.batches(*own, self.budget.now)) == 1:
            self.budget.fail(self.budget.now)
        _LOG.warning(
            "%s: out of memory with %s rows; batches of %s tokens instead of %s",
            *(self._loaded.name, len(rows), self.budget.now, before),
        )

    def _replan(
        self,
        batches: Sequence[list[int]] | deque[list[int]],
        prompts: Sequence[Sequence[int]],
        new: Sequence[int],
    ) -> deque[list[int]]:
        return self._plan([row for batch in batches for row in batch], prompts, new)

    def _plan(
        self, rows: Sequence[int], prompts: Sequence[Sequence[int]], new_tokens: Sequence[int]
    ) -> deque[list[int]]:
        own = [prompts[row] for row in rows], [new_tokens[row] for row in rows]
        planned = self._steppers.batches(*own, self.budget.now)
        return deque([rows[i] for i in batch] for batch in planned)

    def _attempt(
        self, prompts: list[Sequence[int]], rows: list[int], work: Work[T]
    ) -> tuple[list[T], list[int]] | None:
        """One batch's results and shared tokens; None where the memory was too small."""
        import torch

        try:
            with torch.inference_mode():
                stepper = self._steppers.open(prompts)
                return work(stepper, rows), list(stepper.shared_tokens)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise BackendError(f"model {self._loaded.name}: {first_line(error)}") from error
        # outside the handler: its traceback would keep the batch's tensors alive
        self._loaded.free_memory()
        return None
