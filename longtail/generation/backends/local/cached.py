"""Causal models that the packed path does not fit: padded batches over transformers' own caches.

The model's own code computes sliding windows, ALiBi, soft caps and sinks here. A recurrent model whose state depends on
the padding gets batches of equally long prompts. A model whose state cannot be selected is refused.

A common beginning is computed once and its cache copied to each row, in batches of equally long prompts: padding
between the beginning and the rest would move windows and distances.
"""

from __future__ import annotations

import copy
import inspect
import logging
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from longtail.errors import BackendError
from longtail.generation.backends.local.loading import LoadedModel, find_difference, pad, scales_positions
from longtail.models.limits import GROUP_COST, Group, common_length, group_by_prefix, plan_batches

if TYPE_CHECKING:
    import torch

_LOG = logging.getLogger(__name__)
_RECURRENT = "cache_params"
_CACHE_NAMES = ("past_key_values", _RECURRENT)


class CachedSteppers:
    """Batches of one causal model. Constructing it runs a few tokens through the model.

    Errors: `BackendError` where forked batches do not give what the prompts give alone.
    """

    def __init__(self, loaded: LoadedModel) -> None:
        self._loaded, self._model = loaded, loaded.model
        self.device = loaded.device
        self._accepted = frozenset(inspect.signature(loaded.model.forward).parameters)
        self._shares = False
        self._kept: tuple[list[int], Any] = ([], None)
        kind = loaded.model.config.model_type
        self._cache_name = next((name for name in _CACHE_NAMES if name in self._accepted), "")
        if not self._cache_name:
            raise BackendError(
                f"model {loaded.name}: architecture {kind} keeps no cache that a batch can select from"
            )
        self._is_padding_free = scales_positions(loaded.model.config)
        error = self._check()
        if error and not self._is_padding_free:
            self._is_padding_free = True
            _LOG.info("%s: architecture %s: batches of equally long prompts (%s)", loaded.name, kind, error)
            error = self._check()
        if error:
            raise loaded.refuse_batches(error)
        self._shares = True
        error = self._check(n_shared=6)
        if error:
            self._shares = False
            _LOG.info("%s: architecture %s: prefixes are not shared (%s)", loaded.name, kind, error)
        self.forget()

    def batches(
        self, prompts: Sequence[Sequence[int]], new_tokens: Sequence[int], budget: int
    ) -> list[dict[int, int]]:
        """Rows of similar length; of the same length where they share a prefix or the model bears no padding."""
        groups = group_by_prefix(prompts) if self._shares else [Group(tuple(range(len(prompts))), 0)]
        loose = [row for group in groups if not group.n_shared for row in group.rows]
        planned: list[dict[int, int]] = []
        alike = [_by_length(group.rows, prompts) for group in groups if group.n_shared]
        alike.append(_by_length(loose, prompts) if self._is_padding_free else [loose])
        for rows in chain.from_iterable(alike):
            sizes = [prompts[row] for row in rows], [new_tokens[row] for row in rows]
            planned += [{rows[i]: 0 for i in batch} for batch in plan_batches(*sizes, budget)]
        return planned

    def forget(self) -> None:
        """Drop the prefix that is kept for the next batch."""
        self._kept = ([], None)

    def open(
        self, prompts: Sequence[Sequence[int]], shared: Sequence[int] = (), least: int = GROUP_COST
    ) -> CachedStepper:
        """As in `Steppers`, but what is shared shows here; shared beginnings are at `least` so long."""
        return CachedStepper(self, prompts, least)

    def prefix(self, prompts: Sequence[Sequence[int]], least: int) -> tuple[int, Any, bool]:
        """Length and one-row cache of the common beginning of all prompts, and whether an earlier batch left it.

        Without one: 0 and an empty cache.
        """
        import torch
        from transformers import DynamicCache

        length = len(prompts[0])
        if not self._shares or any(len(prompt) != length for prompt in prompts):
            return 0, DynamicCache(config=self._model.config), False
        n = min([length - 1, *(common_length(prompts[0], prompt) for prompt in prompts[1:])])
        beginning, cache = self._kept
        if (
            len(beginning) >= max(least, n - GROUP_COST)
            and len(beginning) <= n
            and list(prompts[0][: len(beginning)]) == beginning
        ):
            return len(beginning), cache, True
        if n < least or len(prompts) == 1:
            return 0, DynamicCache(config=self._model.config), False
        self.forget()
        cache = DynamicCache(config=self._model.config)
        tokens = list(prompts[0][:n])
        mask = torch.ones((1, n), dtype=torch.long, device=self.device)
        self.forward(torch.tensor([tokens], device=self.device), mask, cache)
        self._kept = (tokens, cache)
        return n, cache, False

    def forward(self, ids: torch.Tensor, mask: torch.Tensor, cache: Any) -> torch.Tensor:
        """Logits after new tokens `ids` (n, m), `mask` (n, old and new): float32 (n, vocabulary)."""
        optional: dict[str, Any] = {"logits_to_keep": 1, "attention_mask": mask}
        if self._cache_name == _RECURRENT and ids.shape[1] < mask.shape[1]:
            optional["attention_mask"] = None  # Mamba takes it for the mask of the new tokens alone
        if "position_ids" in self._accepted:
            positions = (mask.cumsum(dim=1) - 1).clamp(min=0)
            optional["position_ids"] = positions[:, -ids.shape[1] :]
        optional = {name: value for name, value in optional.items() if name in self._accepted}
        out = self._model(input_ids=ids, use_cache=True, **{self._cache_name: cache}, **optional)
        logits: torch.Tensor = out.logits[:, -1].float()
        return logits

    def _check(self, n_shared: int = 0) -> str:
        """Why batches cannot be had like this; empty where they can."""
        lengths = (7, 7) if self._is_padding_free or n_shared else (5, 9)

        def open_batch(prompts: Sequence[Sequence[int]]) -> CachedStepper:
            return self.open(prompts, least=1)

        return find_difference(self._model, open_batch, self._loaded.run_alone, lengths, n_shared)


class CachedStepper:
    """One padded batch with its cache."""

    def __init__(self, steppers: CachedSteppers, prompts: Sequence[Sequence[int]], least: int) -> None:
        self.shared_tokens = [0] * len(prompts)
        self._steppers = steppers
        self._prompts = prompts
        self._least = least
        self._cache: Any = None
        self._mask: Any = None

    def start(self) -> torch.Tensor:
        import torch

        n_shared, cache, was_kept = self._steppers.prefix(self._prompts, self._least)
        ids, self._mask = pad(self._prompts, self._steppers.device, on_left=True)
        if not n_shared:
            self._cache = cache
            return self._steppers.forward(ids, self._mask, cache)
        self._cache = copy.deepcopy(cache)
        self._cache.reorder_cache(torch.zeros(len(ids), dtype=torch.long, device=ids.device))
        self.shared_tokens = [n_shared if row or was_kept else 0 for row in range(len(ids))]
        return self._steppers.forward(ids[:, n_shared:], self._mask, self._cache)

    def step(self, parents: Sequence[int], tokens: Sequence[int]) -> torch.Tensor:
        import torch

        if list(parents) != list(range(len(self._mask))):
            index = torch.tensor(parents, device=self._mask.device)
            self._cache.reorder_cache(index)
            self._mask = self._mask[index]
        self._mask = torch.cat([self._mask, self._mask.new_ones((len(tokens), 1))], dim=1)
        return self._steppers.forward(
            torch.tensor(tokens, device=self._mask.device)[:, None], self._mask, self._cache
        )


def _by_length(rows: Sequence[int], prompts: Sequence[Sequence[int]]) -> list[list[int]]:
    groups: dict[int, list[int]] = {}
    for row in sorted(rows, key=lambda row: len(prompts[row])):
        groups.setdefault(len(prompts[row]), []).append(row)
    return list(groups.values())
