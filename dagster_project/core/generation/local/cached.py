"""Causal models that the packed path does not fit: padded batches over transformers' own caches.

What belongs here: prompts padded on the left, their cache, forks of it, and the check that all this is right
for a model. What does not: encoder-decoders, the decoding loop, the choice between paths.

Sliding windows, ALiBi, soft caps and sinks are the model's own code here, whatever they are. A recurrent model
whose state feels the padding gets batches of equally long prompts instead, and one whose state cannot be
selected is refused.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from dagster_project.core.errors import BackendError
from dagster_project.core.generation.local.checks import find_difference
from dagster_project.core.generation.local.loading import LoadedModel
from dagster_project.core.generation.local.stepper import padded_batches

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
        self._model = loaded.model
        self._device = loaded.device
        self._accepted = frozenset(inspect.signature(loaded.model.forward).parameters)
        self._is_padding_free = False
        kind = loaded.model.config.model_type
        self._cache_name = next((name for name in _CACHE_NAMES if name in self._accepted), "")
        if not self._cache_name:
            raise BackendError(
                f"model {loaded.name}: architecture {kind} keeps no cache that a batch can select from"
            )
        error = self._check()
        if error:
            self._is_padding_free = True
            _LOG.info("%s: architecture %s: batches of equally long prompts (%s)", loaded.name, kind, error)
            error = self._check()
        if error:
            raise BackendError(
                f"model {loaded.name}: architecture {kind} cannot be run in batches: {error}; ask a server that "
                "runs it, by backend openai"
            )

    def batches(
        self, prompts: Sequence[Sequence[int]], new_tokens: Sequence[int], budget: int
    ) -> list[list[int]]:
        """Rows of similar length, or of the same length where the model bears no padding."""
        if not self._is_padding_free:
            return padded_batches(prompts, new_tokens, budget)
        by_length: dict[int, list[int]] = {}
        for row in sorted(range(len(prompts)), key=lambda row: len(prompts[row])):
            by_length.setdefault(len(prompts[row]), []).append(row)
        return [
            [rows[i] for i in batch]
            for rows in by_length.values()
            for batch in padded_batches([prompts[i] for i in rows], [new_tokens[i] for i in rows], budget)
        ]

    def forget(self) -> None:
        """Nothing is kept for later batches."""

    def open(self, prompts: Sequence[Sequence[int]]) -> CachedStepper:
        """A batch over distinct prompts, each of at least one token id."""
        return CachedStepper(self._model, prompts, self._device, self._accepted, self._cache_name)

    def _check(self) -> str:
        """Why batches cannot be had like this; empty where they can."""
        lengths = (7, 7) if self._is_padding_free else (5, 9)
        return find_difference(self._model, self.open, self._run_alone, lengths)

    def _run_alone(self, prompt: list[int], tokens: list[int]) -> torch.Tensor:
        """Logits after one sequence, by the plain forward pass without a cache: (1, vocabulary)."""
        import torch

        ids = torch.tensor([[*prompt, *tokens]], device=self._device)
        logits: torch.Tensor = self._model(input_ids=ids, use_cache=False).logits[:, -1].float()
        return logits


class CachedStepper:
    """One padded batch with its cache."""

    def __init__(
        self,
        model: Any,
        prompts: Sequence[Sequence[int]],
        device: Any,
        accepted: frozenset[str],
        cache_name: str,
    ) -> None:
        from transformers import DynamicCache

        self.shared_tokens = [0] * len(prompts)
        self._model = model
        self._accepted = accepted
        self._cache_name = cache_name
        self._cache = DynamicCache(config=model.config)
        self._ids, self._mask = _padded(prompts, device)

    def start(self) -> torch.Tensor:
        """Logits after each prompt: float32 (n_prompts, vocabulary)."""
        return self._forward(self._ids)

    def step(self, parents: Sequence[int], tokens: Sequence[int]) -> torch.Tensor:
        """State i continues state `parents[i]` by `tokens[i]`: float32 (n_states, vocabulary)."""
        import torch

        if list(parents) != list(range(len(self._mask))):
            index = torch.tensor(parents, device=self._mask.device)
            self._cache.reorder_cache(cast("torch.LongTensor", index))
            self._mask = self._mask[index]
        self._mask = torch.cat([self._mask, self._mask.new_ones((len(tokens), 1))], dim=1)
        return self._forward(torch.tensor(tokens, device=self._mask.device)[:, None])

    def _forward(self, ids: torch.Tensor) -> torch.Tensor:
        optional: dict[str, Any] = {"logits_to_keep": 1, "attention_mask": self._mask}
        if self._cache_name == _RECURRENT and ids.shape[1] < self._mask.shape[1]:
            optional["attention_mask"] = None  # Mamba takes it for the mask of the new tokens alone
        if "position_ids" in self._accepted:
            positions = (self._mask.cumsum(dim=1) - 1).clamp(min=0)
            optional["position_ids"] = positions[:, -ids.shape[1] :]
        optional = {name: value for name, value in optional.items() if name in self._accepted}
        out = self._model(input_ids=ids, use_cache=True, **{self._cache_name: self._cache}, **optional)
        logits: torch.Tensor = out.logits[:, -1].float()
        return logits


def _padded(prompts: Sequence[Sequence[int]], device: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and mask, both (n, longest prompt), padded on the left."""
    import torch

    longest = max(len(prompt) for prompt in prompts)
    ids = torch.zeros((len(prompts), longest), dtype=torch.long)
    mask = torch.zeros((len(prompts), longest), dtype=torch.long)
    for row, prompt in enumerate(prompts):
        ids[row, longest - len(prompt) :] = torch.tensor(prompt)
        mask[row, longest - len(prompt) :] = 1
    return ids.to(device), mask.to(device)
