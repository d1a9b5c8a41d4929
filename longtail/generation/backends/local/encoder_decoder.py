"""Encoder-decoder models: the encoder runs once per prompt or part of one, the decoder by states.

A prompt's cross-attention keys and values are computed once, and all its states read the same ones
(`cross_attention`). Where an architecture does not allow that, each state gets its own copy. The parts of a prompt are
encoded apart (`fusion`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from longtail.errors import BackendError
from longtail.generation.backends.local import cross_attention, fusion
from longtail.generation.backends.local.checks import find_difference
from longtail.generation.backends.local.cross_attention import Groups, grouped
from longtail.generation.backends.local.loading import LoadedModel
from longtail.generation.backends.local.scoring import Continuation
from longtail.models.limits import plan_batches
from longtail.relations.cloze import SENTINEL, WORD_START

if TYPE_CHECKING:
    import torch

_LOG = logging.getLogger(__name__)
_MOST_ALIVE = 0.75
_KEPT = 2
"""Prompts of so many device batches are kept encoded: as many as one call of the engine has."""


class EncoderDecoderSteppers:
    """Batches of one encoder-decoder model, of about `batch_tokens` tokens. Constructing it runs a few through the model.

    Errors: `BackendError` where the model names no decoder start token, or where forked batches do not give
    what the prompts give alone.
    """

    def __init__(self, loaded: LoadedModel, batch_tokens: int) -> None:
        self._loaded = loaded
        self._states = fusion.KeptStates(loaded.model.get_encoder(), loaded.device, _KEPT * batch_tokens)
        self.start = _start_token(loaded)
        self._is_shared = False
        kind = loaded.model.config.model_type
        error = "" if self._share() else self._check()
        if error:
            raise BackendError(
                f"model {loaded.name}: architecture {kind} cannot be run in batches: {error}; ask a server that "
                "runs it, by backend openai"
            )

    def _share(self) -> bool:
        """Let states share their prompt's keys and values; False where the architecture does not allow it."""
        model = self._loaded.model
        if model.config._attn_implementation not in ("sdpa", cross_attention.NAME):
            return False
        cross_attention.register()
        model.set_attn_implementation(cross_attention.NAME)
        self._is_shared = True
        error = self._check()
        if error:
            model.set_attn_implementation("sdpa")
            self._is_shared = False
            _LOG.info("%s: cross-attention is copied for each state (%s)", self._loaded.name, error)
        return self._is_shared

    def _check(self) -> str:
        """Why batches cannot be had like this; empty where they can."""
        self.forget()
        return find_difference(self._loaded.model, self.open, self._run_alone)

    def batches(
        self, prompts: Sequence[Sequence[int]], new_tokens: Sequence[int], budget: int
    ) -> list[list[int]]:
        """Rows of similar length: they are padded."""
        return plan_batches(prompts, new_tokens, budget)

    def forget(self) -> None:
        """Drop the encoder's states of the prompts that were read last."""
        self._states.forget()

    def open(self, prompts: Sequence[Sequence[int]]) -> EncoderDecoderStepper:
        """A batch over distinct prompts of the encoder, each of at least one token id."""
        return EncoderDecoderStepper(
            self._loaded.model, prompts, self.start, self._loaded.device, self._is_shared, self._states
        )

    def targets(self, candidates: Sequence[str]) -> list[Continuation]:
        """The tokens forced on the decoder: each text is a target of its own, without the end token (SPEC §8).

        A sentinel such as `<extra_id_0>` that stands in the text is part of it. Where `WORD_START` stands behind the
        sentinel, the token of that piece does too, whatever a tokenizer would make of it. A token that the decoder is
        forced to begin with (BART) is read, but not scored. Errors: `BackendError` where the tokenizer has no sentinel.
        """
        ids = self._written(candidates)
        named = self._loaded.settings.followed.get("forced_bos_token_id")
        forced = [] if named is None else [named]
        own = [tokens[len(forced) :] if tokens[: len(forced)] == forced else tokens for tokens in ids]
        return [Continuation((*forced, *tokens), len(forced)) for tokens in own]

    def _written(self, candidates: Sequence[str]) -> list[list[int]]:
        """The tokens of each text, without the end token."""
        behind = f"{SENTINEL}{WORD_START}"
        texts = [text.replace(behind, SENTINEL, 1) for text in candidates]
        ids = [_without_end(tokens, self._loaded.end_ids) for tokens in self._loaded.encode(texts)]
        if not any(text.startswith(SENTINEL) for text in texts):
            return ids
        known = self._loaded.tokenizer.get_vocab()
        if SENTINEL not in known:
            raise BackendError(
                f"model {self._loaded.name}: its tokenizer has no {SENTINEL}, which cloze_t5 needs"
            )
        piece = [known[WORD_START]] if WORD_START in known else []
        return [
            [own[0], *piece, *own[1:]] if text.startswith(behind) else own
            for text, own in zip(candidates, ids, strict=True)
        ]

    def _run_alone(self, prompt: list[int], tokens: list[int]) -> torch.Tensor:
        """Logits after one sequence, by the plain forward pass without a cache: (1, vocabulary)."""
        import torch

        device = self._loaded.device
        logits: torch.Tensor = self._loaded.model(
            input_ids=torch.tensor([prompt], device=device),
            decoder_input_ids=torch.tensor([[*self.start, *tokens]], device=device),
            use_cache=False,
        ).logits
        return logits[:, -1].float()


def _start_token(loaded: LoadedModel) -> list[int]:
    """The token with which the decoder begins."""
    settings, config = loaded.model.generation_config, loaded.model.config
    start = settings.decoder_start_token_id
    if start is None:
        start = getattr(config, "decoder_start_token_id", None)
    if start is None:
        start = settings.bos_token_id
    if start is None:
        raise BackendError(
            f"model {loaded.name}: its files name no decoder_start_token_id; add it to generation_config.json"
        )
    return [start[0] if isinstance(start, list) else start]


def _without_end(tokens: list[int], end_ids: frozenset[int]) -> list[int]:
    n = len(tokens)
    while n and tokens[n - 1] in end_ids:
        n -= 1
    return tokens[:n]


class EncoderDecoderStepper:
    """One batch: encoded prompts, and the decoder's caches."""

    def __init__(
        self,
        model: Any,
        prompts: Sequence[Sequence[int]],
        start: Sequence[int],
        device: Any,
        is_shared: bool,
        states: fusion.KeptStates,
    ) -> None:
        import torch

        self.shared_tokens = [0] * len(prompts)
        self._model, self._prompts, self._device = model, prompts, device
        self._start = list(start)
        self._is_shared, self._states = is_shared, states
        self._encoded: Any = None
        self._mask: Any = None
        self._cache: Any = None
        self._owners = torch.arange(len(prompts), device=device)
        """For each state the row of its prompt in `_mask`, `_encoded` and the cross-attention's cache."""

    def start(self) -> torch.Tensor:
        """Logits of the decoder's first free token for each prompt: float32 (n_prompts, vocabulary)."""
        import torch
        from transformers import DynamicCache, EncoderDecoderCache

        self._encoded, self._mask, self.shared_tokens = self._states.read(self._prompts)
        self._cache = EncoderDecoderCache(_self_attention_cache(self._model.config), DynamicCache())
        start = torch.tensor([self._start], device=self._device)
        return self._forward(start.expand(len(self._mask), -1))

    def step(self, parents: Sequence[int], tokens: Sequence[int]) -> torch.Tensor:
        """State i continues state `parents[i]` by `tokens[i]`: float32 (n_states, vocabulary)."""
        import torch

        if list(parents) != list(range(len(self._owners))):
            index = torch.tensor(parents, device=self._device)
            self._cache.self_attention_cache.reorder_cache(index)
            self._owners = self._owners[index]
            self._drop_prompts()
        return self._forward(torch.tensor(tokens, device=self._device)[:, None])

    def _drop_prompts(self) -> None:
        """Give each state a row of its own where rows cannot be shared.

        Otherwise drop the rows of finished prompts once they are a quarter: each drop copies the rows that stay.
        """
        import torch

        if not self._is_shared:
            self._select_prompts(self._owners)
            self._owners = torch.arange(len(self._owners), device=self._owners.device)
            return
        alive, owners = torch.unique_consecutive(self._owners, return_inverse=True)
        is_ambiguous = len(self._mask) == len(self._owners)  # see `cross_attention`
        if len(alive) < len(self._mask) and (is_ambiguous or len(alive) <= _MOST_ALIVE * len(self._mask)):
            self._select_prompts(alive)
            self._owners = owners

    def _select_prompts(self, index: torch.Tensor) -> None:
        self._cache.cross_attention_cache.reorder_cache(index)
        self._mask = self._mask[index]
        self._encoded.last_hidden_state = self._encoded.last_hidden_state[index]

    def _forward(self, ids: torch.Tensor) -> torch.Tensor:
        with grouped(self._groups()):
            out = self._model(
                encoder_outputs=self._encoded,
                attention_mask=self._mask,
                decoder_input_ids=ids,
                past_key_values=self._cache,
                use_cache=True,
            )
        logits: torch.Tensor = out.logits[:, -1].float()
        return logits

    def _groups(self) -> Groups | None:
        if len(self._owners) == len(self._mask):
            return None
        return Groups.of(self._owners, len(self._mask))


def _self_attention_cache(config: Any) -> Any:
    """An empty cache; told of the configuration only where windows slide, as some count the encoder's layers."""
    from transformers import DynamicCache

    decoder = config.get_text_config(decoder=True)
    slides = getattr(decoder, "sliding_window", None) or getattr(decoder, "layer_types", None)
    return DynamicCache(config=config) if slides else DynamicCache()
